"""Regular expressions: Java's meaning, and refusals of what Python would read differently."""

import re

import pytest

from headwater.algebra.functions.regular import (
    check_extract,
    check_not_empty,
    check_replace,
    extract,
    matches,
    pattern,
    replace,
)


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("a\r", "a.", False),
        ("a\u2028", "^a$", True),
        ("a\r\n", "^a$", True),
        ("a\n\n", "^a$", False),
        ("a\r\n", "^a\r$", False),
        ("٣", r"\d", False),
        ("é", r"\w", False),
        ("\u00a0", r"\s", False),
        ("a]b", r"a\]b", True),
        ("a-b", "a[-x]b", True),
        ("abab", "^(?:ab){2}$", True),
    ],
)
def test_a_pattern_means_what_it_means_to_java(text: str, wanted: str, expected: bool) -> None:
    assert matches(text, wanted) is expected


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (r"\bword", r"has \b"),
        ("(?i)a", "only (?:...)"),
        ("a(?=b)", "only (?:...)"),
        ("(?:a+)+", "repeats a repetition"),
        ("(?:a|ab)*", "choices that may begin alike"),
        ("(?:a?)*", "repeats what may be nothing"),
        ("(a)*", "write (?:...)"),
        ("a++", "repeats a repetition"),
        ("[a[b]]", "in brackets"),
        ("[a&&b]", "in brackets"),
        (r"[\w-z]", "behind a class"),
        ("[z-a]", "range z-a"),
        ("[]", "empty brackets"),
        ("a{x}", "repeats nothing"),
        ("*a", "repeats nothing"),
        ("(a", "ends too early"),
        ("a)", "closes nothing"),
        ("a|", "empty choice"),
        (r"\p{L}", r"has \p"),
        ("\\", "ends too early"),
    ],
)
def test_a_pattern_that_may_mean_something_else_is_refused(wanted: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        pattern(wanted)


def test_a_group_that_took_no_part_is_an_empty_text() -> None:
    assert extract("b", "(a)?b", 1) == ""
    assert extract("x", "(a)?b", 1) == ""


def test_groups_are_put_into_a_replacement() -> None:
    assert replace("k=v", "([a-z])=([a-z])", "$2<$1>$0") == "v<k>k=v"


def test_a_group_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no group 1"):
        check_extract("a")


@pytest.mark.parametrize("replacement", ["$", "$12", "\\n", "$x", "$2"])
def test_a_replacement_that_java_reads_in_its_own_way_is_refused(replacement: str) -> None:
    with pytest.raises(ValueError, match=r"no group 2|is no"):
        check_replace("(a)", replacement)


def test_a_pattern_that_matches_nothing_is_refused_where_all_matches_are_wanted() -> None:
    with pytest.raises(ValueError, match="may match nothing"):
        check_not_empty("a*")
