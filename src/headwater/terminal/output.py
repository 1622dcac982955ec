"""What the commands share: options, seeds, and the one place that puts text on a terminal.

Values and names come from sources, peers and files, and may hold anything. Nothing is read as
markup, and characters that would steer a terminal are shown as escapes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.errors import InputError

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line, for machines.")]

LEVEL_STYLES = {
    "none": "bold red",
    "convergent": "yellow",
    "weak": "yellow",
    "strong": "green",
    "complete": "bold green",
}


# Text

_MARKS = {"✓": "bold green", "✗": "bold red", "●": "bold green", "○": "bold yellow"}
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters: control, format (among them those that turn the direction of writing),
surrogates, and ends of lines."""
_JOINERS = "\u200c\u200d"
_NOT_PLAIN = re.compile(r"[^ -~]")


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _STEERING and character not in _JOINERS


def visible(text: object) -> str:
    """Any text on one line, with the characters that would steer a terminal as escapes."""

    def shown(match: re.Match[str]) -> str:
        return match[0].encode("unicode_escape").decode() if _steers(match[0]) else match[0]

    return _NOT_PLAIN.sub(shown, str(text))


def plain(text: object, style: str = "") -> Text:
    """Any text for a terminal, in one style."""
    return Text(visible(text), style=style)


class Terminal(Console):
    """A console to which every string is plain text; a mark in front of it has its colour."""

    def print(self, *objects: Any, **options: Any) -> None:
        shown = (_marked(each) if isinstance(each, str) else each for each in objects)
        super().print(*shown, **options)


def _marked(text: str) -> Text:
    shown = plain(text)
    at = len(text) - len(text.lstrip(" "))
    if style := _MARKS.get(text[at : at + 1]):
        shown.stylize(style, at, at + 1)
    return shown


def console() -> Terminal:
    return Terminal(highlight=False, soft_wrap=True)


@contextmanager
def busy(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, where a person looks on; it is gone afterwards."""
    out = console()
    if quiet or not out.is_terminal:
        yield lambda step: None
        return
    with out.status(plain("")) as shown:
        yield lambda step: shown.update(plain(step))


def print_error(text: object) -> None:
    """One line on standard error."""
    typer.echo(f"headwater: {visible(text)}", err=True)


def print_json(data: Mapping[str, object]) -> None:
    typer.echo(escaped_json(data))


def escaped_json(data: Mapping[str, object]) -> str:
    """One line of JSON without characters that would steer a terminal."""

    def escaped(match: re.Match[str]) -> str:
        return json.dumps(match[0])[1:-1] if _steers(match[0]) else match[0]

    return _NOT_PLAIN.sub(escaped, json.dumps(data, ensure_ascii=False))


_ANY_WIDTH = 1_000_000
"""Wider than any table: one takes no more than it needs."""


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    is_whole: bool = False,
) -> None:
    """A table as wide as the terminal; if it `is_whole`, what is too wide goes on in the next line.

    Then the first column, which says what a row is about, gives way last.
    """
    out, cells = Console(highlight=False), [list(row) for row in rows]
    first = max((len(str(row[0])) for row in cells), default=0) if is_whole else 0
    table = _table(title)
    for at, column in enumerate(columns):
        table.add_column(
            plain(column),
            overflow="fold",
            no_wrap=at == 0 and first <= out.width // 2 if is_whole else at < len(columns) - 1,
            min_width=None if is_whole else 6,
        )
    for row in cells:
        table.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in row))
    out.print(table)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows of data, whole: lines are as long as they have to be, and the terminal breaks them.

    A value that is cut may be taken for another (`99999999.` for `99999999.99`), and a column
    that is left out is not missed. Only a value that is wider than the terminal goes on below
    itself.
    """
    table = _table()
    for column in columns:
        table.add_column(plain(column), overflow="fold", min_width=6, max_width=Console().width)
    for row in rows:
        table.add_row(*map(plain, row))
    Console(highlight=False, width=_ANY_WIDTH).print(table)


def _table(title: str = "") -> Table:
    return Table(
        title=plain(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def styled(level: str) -> Text:
    """A level in its colour."""
    return plain(level, LEVEL_STYLES[level])


# Arguments


def parse_seeds(text: str) -> range:
    """`0:20` is 0 to 19; `7` is 7 alone."""
    first, colon, last = text.partition(":")
    if first.isdecimal() and (last.isdecimal() if colon else True):
        start, stop = int(first), int(last) if colon else int(first) + 1
        if start < stop:
            return range(start, stop)
    raise InputError(f"--seeds {text}: is not a range.", "Write for example 0:20, or 7 for one.")
