"""To whom the demonstration is told: a terminal, a file, or a machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.text import Text

from headwater.terminal.live import Changes, Screen, line, live
from headwater.terminal.output import console, plain, print_json
from headwater.terminal.verification import print_verification, verification_json

if TYPE_CHECKING:
    from headwater.pipeline.verify import Verification

_LINES_S = 5.0


class Audience:
    """Hears what happens; by default in lines of text."""

    def __init__(self) -> None:
        self._out = console()
        self._changes = Changes(self._tell_view, _LINES_S)

    def phase(self, text: str) -> None:
        """What happens from now on, in words."""
        self._out.print(text)

    def files(self, paths: Sequence[Path], folder: Path) -> None:
        """The project as it was written."""
        names = ", ".join(str(path.relative_to(folder)) for path in paths)
        self._out.print(f"{folder} has {names}")

    def look(self, found: Mapping[str, Any] | None, left_s: float | None) -> None:
        """How everything stands; called several times a second."""
        if found is not None:
            self._changes(found)

    def verified(self, found: Verification) -> None:
        print_verification(found)

    def end(self, text: str) -> None:
        self._out.print(text)

    def _tell_view(self, name: str, view: Mapping[str, Any]) -> None:
        self._out.print(line(name, view))


class Machine(Audience):
    """Hears JSON objects, one a line."""

    def phase(self, text: str) -> None:
        print_json({"event": "phase", "text": text})

    def files(self, paths: Sequence[Path], folder: Path) -> None:
        names = [str(path.relative_to(folder)) for path in paths]
        print_json({"event": "project", "folder": str(folder), "files": names})

    def verified(self, found: Verification) -> None:
        print_json({"event": "verified", **verification_json(found)})

    def end(self, text: str) -> None:
        print_json({"event": "end", "text": text})

    def _tell_view(self, name: str, view: Mapping[str, Any]) -> None:
        print_json({"event": "view", "view": name, **view})


class Onlooker(Audience):
    """Sees a display that renews itself, and keeps what was verified below it."""

    def __init__(self, shown: Live) -> None:
        super().__init__()
        self._live = shown
        self._screen = Screen()
        self._phase = Spinner("dots")
        self._ticks: list[Text] = []
        self._last: RenderableType = Text()
        self._began = time.monotonic()

    def phase(self, text: str) -> None:
        self._phase.update(text=plain(text, "bold"))

    def files(self, paths: Sequence[Path], folder: Path) -> None:
        width = min(100, self._live.console.width)
        for path in paths:
            language = "sql" if path.suffix == ".sql" else "toml"
            text = path.read_text(encoding="utf-8").rstrip()
            shown = Syntax(text, language, theme="ansi_dark", background_color="default")
            title = plain(path.relative_to(folder))
            self._live.console.print(Panel(shown, title=title, title_align="left", width=width))

    def look(self, found: Mapping[str, Any] | None, left_s: float | None) -> None:
        if found is not None:
            self._last = self._screen.tables(found)
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        elapsed += f", proof in {left_s:.0f} s" if left_s is not None else ""
        below = Text(f"{elapsed}; Ctrl-C ends it and removes everything", style="dim")
        self._live.update(Group(self._phase, Text(), self._last, *self._ticks, below), refresh=True)

    def verified(self, found: Verification) -> None:
        self._ticks.append(_tick(found))

    def end(self, text: str) -> None:
        shown = Group(self._last, *self._ticks, Padding(plain(text, "bold"), (1, 0, 0, 0)))
        self._live.update(shown, refresh=True)


def _tick(found: Verification) -> Text:
    at = ", ".join(f"{source} {reached.number}" for source, reached in found.vector.items())
    if not found.holds:
        text = f"{found.view}: version {found.number} is not the view at ({at})"
        return Text.assemble(("✗ ", "bold red"), text)
    text = f"{found.view}: {found.rows:,} rows of version {found.number} equal a recomputation at"
    return Text.assemble(("✓ ", "bold green"), text, f" ({at})")


@contextmanager
def audience(as_json: bool) -> Iterator[Audience]:
    if as_json:
        yield Machine()
    elif not sys.stdout.isatty():
        yield Audience()
    else:
        with live(transient=False) as shown:
            yield Onlooker(shown)
