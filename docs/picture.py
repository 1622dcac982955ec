"""Runs the demonstration and draws how it ends: `make docs`, or `python docs/picture.py`."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from headwater.cli.demo.audience import Onlooker
from headwater.cli.demo.story import Story, folder_for

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
    paper.save_svg(str(TARGET), title="headwater demo")


if __name__ == "__main__":
    draw()
