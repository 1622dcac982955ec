"""Runs the demonstration and draws how it ends: `make docs`, or `python docs/picture.py`."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from headwater.demo.audience import Onlooker
from headwater.demo.story import Story, folder_for

TARGET = Path(__file__).parent / "img" / "demo.svg"


class _Last(Live):
    """Shows nothing, and remembers what it was to show last."""

    last: RenderableType = Text()

    def update(self, renderable: RenderableType, *, refresh: bool = False) -> None:
        self.last = renderable


def draw(seconds: float = 30) -> None:
    live = _Last(console=Console(file=io.StringIO(), width=100))
    with folder_for(None) as folder:
        code = Story(folder, "auto", seconds, Onlooker(live), kept=False).play()
    if code:
        raise SystemExit(code)
    paper = Console(record=True, file=io.StringIO(), width=100, force_terminal=True)
    paper.print(Text("$ headwater demo", style="bold"))
    paper.print(live.last)
    TARGET.write_text(portable(paper.export_svg(title="headwater demo")), encoding="utf-8")


def portable(svg: str) -> str:
    """Without fonts from elsewhere, and without leading blanks, which some viewers leave out."""
    svg = re.sub(r"\s*<!--.*?-->|\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r'x="([\d.]+)"( y="[\d.]+" )textLength="([\d.]+)"([^>]*)>([^<]+)', _moved, svg)


def _moved(found: re.Match[str]) -> str:
    left, middle, length, rest, text = found.groups()
    shown = text
    while shown.startswith("&#160;"):
        shown = shown.removeprefix("&#160;")
    width = float(length) / len(unescape(text))
    skipped = width * (len(unescape(text)) - len(unescape(shown)))
    x, length = f"{float(left) + skipped:.1f}", f"{float(length) - skipped:.1f}"
    return f'x="{x}"{middle}textLength="{length}"{rest}>{shown}'


if __name__ == "__main__":
    draw()
