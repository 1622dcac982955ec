"""Where in a view's file a mistake is that was found only when the view was loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import Token, TokenType

from headwater.algebra.functions.late import names_of
from headwater.algebra.sql.text import SqlText
from headwater.errors import InputError
from headwater.frames.trial import ConstantError
from headwater.project.view_files import ViewFile, error_at

_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)


def placed(files: Iterable[ViewFile], error: ConstantError) -> InputError:
    """The same mistake with the file, line and column of the first call that it can be about.

    Without them if no file has one: it is in a view that is read.
    """
    for file in files:
        for offset in _calls(file, error):
            return error_at(file.path, file.text, offset, error.message, error.hint)
    return InputError(error.message, error.hint)


def _calls(file: ViewFile, error: ConstantError) -> Iterator[int]:
    """Where the function stands with these constants among its arguments."""
    names = names_of(error.operator)
    tokens = SqlText(file.text).tokens
    for at, token in enumerate(tokens):
        if token.start < file.offset or token.text.lower() not in names:
            continue
        if _enclosed(tokens[at + 1 :]).issuperset(error.constants):
            yield token.start


def _enclosed(tokens: Sequence[Token]) -> set[str]:
    """The texts inside the parentheses that open here."""
    found: set[str] = set()
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0:
            break
        if token.token_type in _TEXTS:
            found.add(token.text)
    return found
