"""LIKE against its definition, a regular expression that tries every way there is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.like import like, like_pattern
from tests.hanging import hang_limit

_CHARACTERS = "ab\n%_\\."


def as_regular_expression(pattern: str) -> re.Pattern[str]:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped not in ("_", "%", "\\"):
                raise ValueError
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


PIECES = st.lists(st.sampled_from(["a", "b", "a", "%", "_", "\\%", "\\_", "\\\\", "\n", "."]))


@given(text=st.text(_CHARACTERS, max_size=12), pattern=PIECES.map("".join))
def test_a_pattern_fits_exactly_the_texts_that_its_regular_expression_does(
    text: str, pattern: str
) -> None:
    assert like(text, pattern) == bool(as_regular_expression(pattern).fullmatch(text))


@given(text=st.text("ab", max_size=16), pattern=st.text("ab%_", max_size=8))
def test_a_pattern_over_two_letters_fits_what_its_regular_expression_does(
    text: str, pattern: str
) -> None:
    expected = bool(as_regular_expression(pattern).fullmatch(text))
    assert like(text, pattern) == expected
    # Java's \z is Python's \Z; all else that is used here is the same in both.
    regular = like_pattern(pattern).regular.replace(r"\z", r"\Z")
    assert bool(re.search(regular, text)) == expected


@given(pattern=st.text(_CHARACTERS, max_size=6))
def test_a_pattern_is_refused_exactly_if_it_escapes_something_else(pattern: str) -> None:
    try:
        as_regular_expression(pattern)
    except ValueError:
        with pytest.raises(ValueError, match="escapes something else"):
            like_pattern(pattern)
    else:
        like_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a" * 1_000_000, "%a" * 8 + "%b"),
        ("a" * 1_000_000, "%a_" * 8 + "%b"),
        ("a" * 1_000_000, "%" + "a_" * 2000 + "b%"),
        ("a" * 1_000_000, "%" + "a" * 4000 + "b%"),
        ("ab" * 500_000, "%" + "a%_b%" * 1000 + "c%"),
    ],
    ids=["many", "many with _", "long with _", "long", "many of both"],
)
def test_a_long_text_does_not_hold_like_up(text: str, pattern: str) -> None:
    with hang_limit():
        assert not like(text, pattern)
