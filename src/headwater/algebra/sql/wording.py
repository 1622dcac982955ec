"""Words that the parser reads past: refused before it does, so that nothing means something else.

The parser takes some clauses in and leaves them out of its tree, or takes half a clause for none.
Here the words themselves are looked at, those of quoted names and texts apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import TokenType

from headwater.algebra.sql.text import SqlText
from headwater.errors import SqlError

_LEFT_OUT: Sequence[tuple[tuple[str, ...], str, str]] = (
    (("WITH", "ROLLUP"), "WITH ROLLUP is not supported.", "Write GROUP BY ROLLUP (...)."),
    (("WITH", "CUBE"), "WITH CUBE is not supported.", "Write GROUP BY CUBE (...)."),
    (("WITH", "TOTALS"), "WITH TOTALS is not supported.", "Write GROUP BY ROLLUP (...)."),
    (("GROUP", "BY", "DISTINCT"), "GROUP BY DISTINCT is not supported.", "Leave DISTINCT out."),
    *(
        (
            (side, kind),
            f"{side} {kind} JOIN is not supported.",
            f"Write LEFT {kind} JOIN, with the tables the other way round.",
        )
        for side in ("RIGHT", "FULL")
        for kind in ("SEMI", "ANTI")
    ),
    (("USING", "(", ")"), "USING names no column.", "Name the columns that are to be equal."),
)
"""Words in a row, and why they are refused."""
_CLAUSES = {"FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "OFFSET"}
_ENDINGS = _CLAUSES | {"UNION", "INTERSECT", "EXCEPT", "MINUS", ")", "]", ";", ""}
_JOINS = {"JOIN", "INNER", "CROSS", "NATURAL"}
_SIDES = {"LEFT", "RIGHT", "FULL"}
_NAMES = {TokenType.IDENTIFIER, TokenType.STRING}


def check_wording(text: SqlText) -> None:
    """SqlError for the first words that the parser would pass over."""
    for error in _errors(text):
        raise error


def _errors(text: SqlText) -> Iterator[SqlError]:
    found = [
        (token, word)
        for token in text.tokens
        for word in (["'"] if token.token_type in _NAMES else token.text.upper().split() or ["'"])
    ]
    words = [*(word for _, word in found), "", "", ""]
    for at, (token, _) in enumerate(found):
        before = words[at - 1] if at else ""
        for row, message, hint in _LEFT_OUT:
            if tuple(words[at : at + len(row)]) == row:
                yield text.error_at(token.start, message, hint)
        word, after = words[at], words[at + 1]
        if (word, after) == ("GROUPING", "SETS") and before not in (",", "BY", "("):
            hint = "Put a comma before it to combine both, or name the sets alone."
            yield text.error_at(token.start, "GROUPING SETS stands behind expressions.", hint)
        if word == "FILTER" and before == ")" and after == "(" and words[at + 2] != "WHERE":
            yield text.error_at(token.start, "FILTER has no WHERE.", "Write FILTER (WHERE ...).")
        if word == "BY" and words[max(0, at - 2)] == "LIMIT":
            hint = "Write QUALIFY ROW_NUMBER() OVER (PARTITION BY ...) <= ..."
            yield text.error_at(token.start, "LIMIT ... BY is not supported.", hint)
        if _lacks_something(words, at):
            yield text.error_at(token.start, f"there is nothing behind {_shown(words, at)}.", "")


def _lacks_something(words: Sequence[str], at: int) -> bool:
    word, after, further = words[at : at + 3]
    if word == "ON":
        is_join = after in _JOINS or (after in _SIDES and further != "(")
        return after in _ENDINGS or after == "," or is_join
    if word == ",":
        return after in _ENDINGS or after == ","
    if word == "BY" and at and words[at - 1] in ("GROUP", "ORDER", "PARTITION"):
        return after in _ENDINGS or after == ","
    return False


def _shown(words: Sequence[str], at: int) -> str:
    if words[at] == "BY":
        return f"{words[at - 1]} BY"
    return "a comma" if words[at] == "," else words[at]
