"""Line charts of measurements, as SVG or PNG, by the ending of the file's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.errors import InputError


def line_chart(
    path: Path,
    title: str,
    axes: tuple[str, str],
    lines: Mapping[str, Sequence[tuple[float, float]]],
    limits: tuple[str, Sequence[float]] = ("", ()),
    logarithmic: bool = False,
) -> None:
    """Write a chart; `limits` are horizontal references that were not measured."""
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

    figure, axis = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for name, points in lines.items():
        axis.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
    for at, height in enumerate(limits[1]):
        label = "_" * bool(at) + limits[0]  # a leading underscore keeps it out of the legend
        axis.axhline(height, linestyle="--", linewidth=1, color="gray", label=label)
    axis.set_title(title, loc="left")
    axis.set_xlabel(axes[0])
    axis.set_ylabel(axes[1])
    if logarithmic:
        axis.set_xscale("log")
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False)
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be written: {error}.", "Name a .svg or .png file."
        ) from None
    pyplot.close(figure)
