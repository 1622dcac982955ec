"""Pictures of measurements, as SVG or PNG, by the ending of the file's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from headwater.check.levels import Level
from headwater.errors import InputError

_LEVEL_COLOURS = {
    Level.NONE: ("#f1efec", "#8a857f"),
    Level.CONVERGENT: ("#fbe7b2", "#5a4a12"),
    Level.WEAK: ("#b9dfb4", "#1f4a22"),
    Level.STRONG: ("#2f8ca0", "#ffffff"),
    Level.COMPLETE: ("#1f5a8c", "#ffffff"),
}
"""Background and text; darker is higher."""


def line_chart(
    path: Path,
    title: str,
    axes: tuple[str, str],
    lines: Mapping[str, Sequence[tuple[float, float]]],
    limits: tuple[str, Sequence[float]] = ("", ()),
    logarithmic: bool = False,
) -> None:
    """Write a chart; `limits` are horizontal references that were not measured."""
    pyplot = _pyplot()
    figure, axis = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for at, height in enumerate(limits[1]):
        label = "_" * bool(at) + limits[0]  # a leading underscore keeps it out of the legend
        axis.axhline(height, linestyle="--", linewidth=1, color="gray", label=label)
    _draw_lines(axis, Panel(title, axes, lines, logarithmic))
    figure.legend(loc="outside right upper", frameon=False)
    _save(figure, path)


@dataclass(frozen=True)
class Mark:
    """What a paper says, drawn into a chart: at a place, or along a line where x or y is None."""

    text: str
    x: float | None = None
    y: float | None = None
    is_above: bool = False
    """Whether what is said of a place stands above it, to the left."""


Lines: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Panel:
    """One chart of several; lines whose name ends in `DASHED` are dashed, in their fellow's
    colour."""

    title: str
    axes: tuple[str, str]
    lines: Lines
    logarithmic: bool = False
    dots: Lines = field(default_factory=dict)
    """Single points beside the lines, in the colour of the line of that name."""
    dots_are: str = "counted"
    marks: Sequence[Mark] = ()
    limits: tuple[float | None, float | None] = (None, None)
    """Where the axes end, if not where the data does."""
    logarithmic_y: bool = False
    """Whether the vertical axis alone is."""


DASHED = ", measured"


def charts(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """Write several charts, two beside each other, each with a legend of its own."""
    pyplot = _pyplot()
    high, wide = (len(panels) + 1) // 2, min(2, len(panels))
    figure, axes = pyplot.subplots(
        high, wide, figsize=(5.6 * wide, 3.9 * high + 0.4), squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw_lines(axis, panel)
        _draw_marks(axis, panel.marks)
        axis.legend(fontsize=7, framealpha=0.85, loc="best")
    for axis in list(axes.flat)[len(panels) :]:
        axis.axis("off")
    figure.suptitle(title, x=0.01, ha="left")
    _save(figure, path)


def _draw_lines(axis: Any, panel: Panel) -> None:
    colours: dict[str, str] = {}
    for name, points in panel.lines.items():
        fellow = name.removesuffix(DASHED)
        colour = colours.setdefault(fellow, f"C{len(colours)}")
        style = "--" if name != fellow else "-"
        dots = {} if panel.dots else {"marker": "o", "markersize": 4}
        axis.plot(*zip(*points, strict=True), style, label=name, color=colour, **dots)
    for name, points in panel.dots.items():
        colour = colours.setdefault(name, f"C{len(colours)}")
        label = "_" if name in panel.lines else name  # an underscore keeps it out of the legend
        axis.plot(*zip(*points, strict=True), "o", markersize=5, label=label, color=colour)
    if panel.dots_are and panel.dots:
        axis.plot([], [], "o", markersize=5, label=f"dots: {panel.dots_are}", color="#8a857f")
    axis.set_title(panel.title, loc="left", fontsize=10)
    axis.set_xlabel(panel.axes[0])
    axis.set_ylabel(panel.axes[1])
    _scale(axis, panel)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _scale(axis: Any, panel: Panel) -> None:
    if panel.logarithmic:
        axis.set_xscale("log")
    if panel.logarithmic or panel.logarithmic_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0, top=panel.limits[1])
    both = [*panel.lines.values(), *panel.dots.values()]
    if panel.logarithmic:
        xs = sorted({x for points in both for x, _ in points})
        axis.set_xticks(xs, [f"{x:,.0f}" for x in xs])
        axis.xaxis.set_tick_params(which="minor", bottom=False, labelbottom=False)
        _plain_numbers(axis.yaxis)
    else:
        axis.set_xlim(right=panel.limits[0])
        if all(x == int(x) for points in both for x, _ in points):
            axis.xaxis.get_major_locator().set_params(integer=True)


def _plain_numbers(axis: Any) -> None:
    """The marks of a logarithmic axis without exponents."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())


def _draw_marks(axis: Any, marks: Sequence[Mark]) -> None:
    """In grey, with what is said beside them."""
    look = {"color": "#55504a", "fontsize": 7}
    above = {"xytext": (-6, 6), "ha": "right"}
    below = {"xytext": (6, -10), "ha": "left"}
    for mark in marks:
        if mark.y is None:
            axis.axvline(mark.x, linestyle=":", linewidth=1, color="#55504a")
            middle = {"transform": axis.get_xaxis_transform(), "rotation": 90, **look}
            axis.text(mark.x, 0.97, f"{mark.text} ", ha="right", va="top", **middle)
        elif mark.x is None:
            axis.axhline(mark.y, linestyle=":", linewidth=1, color="#55504a")
            beside = {"transform": axis.get_yaxis_transform(), **look}
            axis.text(0.99, mark.y, mark.text, ha="right", va="bottom", **beside)
        else:
            axis.plot([mark.x], [mark.y], "D", markersize=5, color="#55504a", zorder=3)
            place = {"textcoords": "offset points", **(above if mark.is_above else below)}
            axis.annotate(mark.text, (mark.x, mark.y), **place, **look)


def level_grid(
    path: Path,
    title: str,
    columns: Sequence[str],
    groups: Sequence[tuple[str, Sequence[str]]],
    cells: Mapping[tuple[str, str], tuple[Level, Level]],
) -> None:
    """Write a grid of levels; `groups` are its rows, `cells` have the levels promised and measured.

    A cell has the colour and the name of the level measured. The level promised stands beside
    it where they differ, and a cell that breaks its promise has a red frame.
    """
    pyplot = _pyplot()
    height = sum(len(names) + 0.3 for _, names in groups)
    figure, axis = pyplot.subplots(figsize=(8.4, 0.34 * height + 1.1), layout="constrained")
    top = 0.0
    for group, names in groups:
        axis.text(-1.05, top + len(names) / 2, group, ha="right", va="center", color="#8a857f")
        for name in names:
            axis.text(-0.08, top + 0.5, name, ha="right", va="center", family="monospace")
            for at, column in enumerate(columns):
                _draw_cell(axis, (at, top), *cells[name, column])
            top += 1
        top += 0.3
    for at, column in enumerate(columns):
        axis.text(at + 0.5, -0.25, column, ha="center", va="bottom")
    axis.set_xlim(-1.5, len(columns))
    axis.set_ylim(top, -0.6)
    axis.axis("off")
    axis.set_title(title, loc="left", pad=12)
    _save(figure, path)


@dataclass(frozen=True)
class Dot:
    """A value, how far it stretches, and what it is: `best`, `weak` or nothing of the kind."""

    value: float
    upto: float | None = None
    kind: str = ""


_DOTS = {"best": ("#c0392b", 7.0), "weak": ("#c8c3bc", 4.0), "": ("#1f5a8c", 5.0)}
"""Colour and size of a dot, by its kind."""


def dot_grid(
    path: Path,
    title: str,
    rows: Sequence[str],
    measures: Sequence[str],
    panels: Mapping[str, Sequence[Mapping[str, Dot]]],
) -> None:
    """Write a grid: a column for each panel, in it a row of dots for each measure; logarithmic."""
    pyplot = _pyplot()
    size = (2.2 + 2.7 * len(panels), (0.24 * len(rows) + 0.9) * len(measures) + 0.4)
    figure, axes = pyplot.subplots(
        len(measures), len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for column, (name, found) in enumerate(panels.items()):
        axes[0][column].set_title(name, fontsize=9, loc="left")
        for row, measure in enumerate(measures):
            _draw_dots(axes[row][column], rows, found[row])
            axes[row][column].set_xlabel(measure, fontsize=8)
    figure.suptitle(title, x=0.01, ha="left")
    _save(figure, path)


Tree: TypeAlias = tuple[str, Sequence["Tree"]]
"""What a box says, line by line, and the trees below it."""


def tree_picture(path: Path, title: str, tree: Tree) -> None:
    """Write a tree of boxes, the root at the top."""
    boxes: list[tuple[float, int, str]] = []
    lines: list[tuple[tuple[float, int], tuple[float, int]]] = []
    wide = _place(tree, 0, 0, boxes, lines)[1]
    deep = 1 + max(depth for _, depth, _ in boxes)
    pyplot = _pyplot()
    figure, axis = pyplot.subplots(
        figsize=(2.3 * wide + 0.3, 1.25 * deep + 0.4), layout="constrained"
    )
    for (x, y), (below_x, below_y) in lines:
        axis.plot([x, below_x], [-y, -below_y], color="#8a857f", linewidth=1, zorder=1)
    look = {"boxstyle": "round,pad=0.4", "facecolor": "#f1efec", "edgecolor": "#1f5a8c"}
    for x, y, text in boxes:
        axis.text(x, -y, text, ha="center", va="center", fontsize=7, bbox=look, zorder=2)
    axis.set_xlim(-0.5, wide - 0.5)
    axis.set_ylim(-deep + 0.4, 0.6)
    axis.axis("off")
    axis.set_title(title, loc="left", fontsize=9)
    _save(figure, path)


def _place(
    tree: Tree,
    left: int,
    depth: int,
    boxes: list[tuple[float, int, str]],
    lines: list[tuple[tuple[float, int], tuple[float, int]]],
) -> tuple[float, int]:
    """Where a root goes, in the middle above what is below it, and where the next tree begins."""
    text, below = tree
    right, roots = left, []
    for part in below:
        x, right = _place(part, right, depth + 1, boxes, lines)
        roots.append(x)
    x = (roots[0] + roots[-1]) / 2 if roots else float(left)
    boxes.append((x, depth, text))
    lines.extend(((x, depth), (root, depth + 1)) for root in roots)
    return x, max(right, left + 1)


def _draw_dots(axis: Any, rows: Sequence[str], dots: Mapping[str, Dot]) -> None:
    for at, name in enumerate(rows):
        if (dot := dots.get(name)) is not None:
            colour, size = _DOTS[dot.kind]
            if dot.upto is not None:
                axis.plot([dot.value, dot.upto], [at, at], color=colour, linewidth=1, alpha=0.5)
            axis.plot([dot.value], [at], marker="o", markersize=size, color=colour)
            if dot.kind == "best":
                axis.axvline(dot.value, color=colour, linewidth=0.8, linestyle=":")
    _mark_decades(axis, [dot.value for dot in dots.values()])
    axis.set_yticks(range(len(rows)), rows, fontsize=8, family="monospace")
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _mark_decades(axis: Any, values: Sequence[float]) -> None:
    """A logarithmic axis with few marks, in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_xscale("log")
    wide = max(values) > 200 * min(values)
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.xaxis.set_minor_locator(NullLocator())


def _draw_cell(axis: Any, corner: tuple[float, float], promised: Level, measured: Level) -> None:
    from matplotlib.patches import Rectangle

    x, y = corner
    background, text = _LEVEL_COLOURS[measured]
    box = Rectangle((x + 0.02, y + 0.05), 0.96, 0.9, facecolor=background)
    if measured < promised:
        box.set(edgecolor="#c0392b", linewidth=2, zorder=2)
    axis.add_patch(box)
    if promised == measured:
        axis.text(x + 0.5, y + 0.5, str(measured), ha="center", va="center", color=text)
        return
    beside = f"{promised if promised else 'nothing'} promised"
    axis.text(x + 0.5, y + 0.36, str(measured), ha="center", va="center", color=text)
    axis.text(x + 0.5, y + 0.75, beside, ha="center", va="center", color=text, fontsize=6.5)


def check_drawing() -> None:
    """Refuse if what draws is not installed."""
    _pyplot()


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise InputError(
            "Drawing needs matplotlib, which is not installed.",
            "Install it with: pip install 'headwater[plots]'.",
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "headwater"  # the same picture gives the same file
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be written: {error}.", "Name a .svg or .png file."
        ) from None
    finally:
        _pyplot().close(figure)
