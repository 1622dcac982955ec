"""Parts of JSON texts: what PostgreSQL's operators for JSON give, and which texts fail."""

from __future__ import annotations

import pytest

from headwater.algebra.functions.json_text import (
    at_path,
    at_path_text,
    member,
    member_text,
    path_of,
    steps,
)

TEXT = r' {"a": {"b" : [1.10, {"c": "x\ny"}] }, "": 1E5, "a.b": "\u00e4\ud83d\ude00", "n": null} '

FOUND: list[tuple[str, str | int, str | None, str | None]] = [
    (TEXT, "a", r'{"b" : [1.10, {"c": "x\ny"}] }', r'{"b" : [1.10, {"c": "x\ny"}] }'),
    (TEXT, "", "1E5", "1E5"),
    (TEXT, "a.b", r'"\u00e4\ud83d\ude00"', "ä\U0001f600"),
    (TEXT, "n", "null", None),
    (TEXT, "b", None, None),
    (TEXT, 0, None, None),
    ('{"a": 1, "b": 2, "a": 3}', "a", "3", "3"),
    (r'{"\u0061\"": true}', 'a"', "true", "true"),
    ("[1, [2], 3 ]", 1, "[2]", "[2]"),
    ("[1, [2], 3 ]", -1, "3", "3"),
    ("[1, [2], 3 ]", 3, None, None),
    ("[1, [2], 3 ]", -4, None, None),
    ("[1, [2], 3 ]", "1", None, None),
    ("[]", 0, None, None),
    ("[ \n]", 0, None, None),
    ("{\t }", "a", None, None),
    ("{}", "a", None, None),
    ('"x"', "x", None, None),
    ('"x"', 0, '"x"', "x"),
    ("7", -1, "7", "7"),
    ("7", 1, None, None),
]


@pytest.mark.parametrize(("text", "key", "part", "plain"), FOUND)
def test_a_part_is_cut_out_as_it_stands(
    text: str, key: str | int, part: str | None, plain: str | None
) -> None:
    assert (member(text, key), member_text(text, key)) == (part, plain)


PATHS = [
    ("{}", TEXT.strip(), TEXT.strip()),
    ("{a,b,0}", "1.10", "1.10"),
    ('{a, "b" , -1 ,c}', r'"x\ny"', "x\ny"),
    ('{a,b," +1",c}', r'"x\ny"', "x\ny"),
    ("{a,b,99999999999999999999}", None, None),
    ("{a,b,1x}", None, None),
    ("{a,b,0,0}", None, None),
    ("{n}", "null", None),
    ("{n,x}", None, None),
    ("{NULL}", None, None),
    ('{""}', "1E5", "1E5"),
]


@pytest.mark.parametrize(("path", "part", "plain"), PATHS)
def test_a_path_leads_from_part_to_part(path: str, part: str | None, plain: str | None) -> None:
    assert (at_path(TEXT, path), at_path_text(TEXT, path)) == (part, plain)


def test_an_empty_path_tells_the_text_of_a_string() -> None:
    assert [at_path_text(text, "{}") for text in ('"a"', "null", " 7 ")] == ["a", None, "7"]


NO_JSON = (
    r"""
{ | [1,] | {"a"} | {"a":1,} | {,} | [,1] | 1 2 | [1 2] | {"a":1 "b":2} | {a:1} | {"a":1]
"\u0000" | "\ud800" | "\ud800\u0041" | "\udc00" | "\x" | "\u00g0" | "a | 'a' | 01 | 1. | .5 | - | +1
1e | tru | nullx | NaN | [[[[1,]]]] | {"a":{"b":[{"c":}]}} | [[[[ | 1] | {"a":1}}
""".replace("\n", " | ")
    .strip(" |")
    .split(" | ")
)


@pytest.mark.parametrize("text", [*NO_JSON, "", " ", '"\n"', "\x00", "\xa01", "1\x0b"], ids=repr)
def test_a_text_that_is_no_json_fails(text: str) -> None:
    for key in ("z", 9):
        with pytest.raises(ValueError, match="no JSON: it goes wrong at its character"):
            member(text, key)
    with pytest.raises(ValueError, match="no JSON: it goes wrong at its character"):
        at_path(text, "{z}")


@pytest.mark.parametrize("text", ["[" * 20_000 + "]" * 20_000, '{"a":' * 9_000 + "1" + "}" * 9_000])
def test_no_depth_is_too_much(text: str) -> None:
    assert (member(text, 0) or member(text, "a") or "").count(text[0]) == text.count(text[0]) - 1


@pytest.mark.parametrize("path", ["", "a", "{a,}", "{,a}", "{a", "a}", '{"a"b}', "{{a}}", "{a}}"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        steps(path)


def test_a_path_of_any_names_can_be_written() -> None:
    names = ("a", 'b"\\c', "", "NULL", "{x,y}", " ")
    assert steps(path_of(names)) == names
