"""What happens while something runs for long, told to the standard library's `logging`.

One happening for every change of state: what it is about, and fields with names. Nothing is shown
unless a program, or an option of a command, asks for it (see `terminal.log_lines`). Values of rows
are never among the fields, except where an error's own sentence names one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

LOGGER = logging.getLogger("headwater")
LOGGER.addHandler(logging.NullHandler())  # else warnings are printed where nobody has asked

_BARE = re.compile(r"[^\s\"=]+")


@dataclass(frozen=True)
class Happening:
    """The message of a record."""

    about: str
    """A word for what it is about: view, source, runner, ..."""
    fields: Mapping[str, object]

    def __str__(self) -> str:
        """Name and value of each field, as people and tools read it."""
        shown = (f"{name}={_shown(value)}" for name, value in self.fields.items())
        return " ".join([self.about, *shown])


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        value = ",".join(f"{name}:{each}" for name, each in value.items())
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def happened(about: str, level: int = logging.INFO, /, **fields: object) -> None:
    """Something has changed; what a field does not know is left out."""
    if LOGGER.isEnabledFor(level):
        known = {name: value for name, value in fields.items() if value not in (None, "", {})}
        LOGGER.log(level, Happening(about, known))


def in_detail(about: str, **fields: object) -> None:
    """The same for what happens again and again while all is well."""
    happened(about, logging.DEBUG, **fields)
