"""What is wrong with a file, with its place: file, line, column, value, and what to do."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from decimal import Decimal


class MisfitError(Exception):
    """A file is not what it should be; `words` follow its name."""

    def __init__(
        self, words: str, hint: str = "", *, line: int = 0, column: str = "", file: str = ""
    ) -> None:
        super().__init__(words)
        self.words = words
        self.hint = hint or "Correct it in place, or put a corrected one there."
        self.line = line
        self.column = column
        self.file = file

    def __str__(self) -> str:
        places = [self.file] if self.file else []
        places += [f"line {self.line}"] if self.line else []
        places += [f"column {self.column}"] if self.column else []
        return f"{', '.join(places)}: {self.words}" if places else self.words


def no_value(text: object, kind: object, line: int, column: str) -> MisfitError:
    shown = str(text) if isinstance(text, Decimal) else reprlib.repr(text)
    return MisfitError(f"{shown} is not a value of type {kind}", line=line, column=column)


def lacking(names: Sequence[str], there: Sequence[str]) -> MisfitError:
    """Columns are missing that there were before."""
    return MisfitError(
        f"it has no column {', '.join(names)}; it has {', '.join(there) or 'none'}",
        "Give it the column again; or, if that is to go for good, run 'headwater repair SOURCE'.",
    )
