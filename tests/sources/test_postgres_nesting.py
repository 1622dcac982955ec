"""Arrays and composites are read as PostgreSQL prints them, whatever is inside."""

import pytest

from headwater.algebra.values import Value
from headwater.sources.postgres.forms import form_of

TEXTS, NUMBERS, BOXES = "[,text]", "[,number]", "[;printed]"


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (TEXTS, "{}", ()),
        (TEXTS, "{a}", ("a",)),
        (TEXTS, '{a,NULL,"NULL","",null}', ("a", None, "NULL", "", "null")),
        (TEXTS, r'{"a \"b\" \\ {},","' + "\n" + '"}', ('a "b" \\ {},', "\n")),
        (TEXTS, "{é;水}", ("é;水",)),
        (NUMBERS, "{1.50,-0.0,NaN,1000}", ("1.5", "-0", "NaN", "1000")),
        (BOXES, "{(1,1),(0,0);(2,2),(1,1)}", ("(1,1),(0,0)", "(2,2),(1,1)")),
        ("[,bool]", "{t,f}", (True, False)),
        ("[,float]", "{-0,1e+300}", (0.0, 1e300)),
        ("[,padded]", '{"a  ","   "}', ("a", "")),
        ("[,bytes]", r'{"\\x00ff","\\x"}', (b"\x00\xff", b"")),
        ("(int,text,text)", '(1,,"")', (1, None, "")),
        ("(text)", "()", (None,)),
        ("(text,text)", r'("a ""b"" \\ (,)",' + '"\n")', ('a "b" \\ (,)', "\n")),
        ("(int,[,text],(int,bool))", r'(1,"{a,""b c"",""\\""""}","(2,t)")',
         (1, ("a", "b c", '"'), (2, True))),
        ("[,(int,text)]", r'{"(1,\"a b\")",NULL,"(,\"\\\\\")"}',
         ((1, "a b"), None, (None, "\\"))),
    ],
)  # fmt: skip
def test_a_value_is_read(form: str, text: str, expected: Value) -> None:
    found = form_of(form).read(text.encode())
    assert found == expected
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (TEXTS, "{{a},{b}}"),
        (TEXTS, "[0:1]={a,b}"),
        (TEXTS, "[2:2][1:1]={{a}}"),
        (TEXTS, "{a"),
        (TEXTS, "{a,}"),
        (TEXTS, "{a}b"),
        ("[,date]", "{infinity}"),
        ("(int,text)", "(1)"),
        ("(int,text)", "(1,a,b)"),
        ("(int,text)", "(1,a"),
        ("(int,text)", ""),
    ],
)
def test_what_has_no_equal_here_is_an_error(form: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        form_of(form).read(text.encode())
