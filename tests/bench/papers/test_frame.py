"""How figures become tables, files and pictures."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.bench.papers import command
from headwater.bench.papers.frame import Experiment, Figure, Report, Size, cells, write
from headwater.bench.plots import Mark, Panel
from headwater.errors import InputError

PANEL = Panel(
    "1",
    ("updates k", "bytes"),
    {"ECA": [(1, 10), (2, 20)]},
    dots={"ECA": [(1, 11)]},
    marks=[Mark("paper: k = 2", x=2), Mark("a bound", y=15), Mark("here", 1, 10, is_above=True)],
)
FIGURE = Figure(
    "1",
    "A title",
    "A claim.",
    "What was found.",
    {"k": "{k}", "bytes": "{bytes:,.0f}"},
    [{"k": 1, "bytes": 1000.0}, {"k": 2, "bytes": None}],
    [PANEL],
)
EXPERIMENT = Experiment("some", "Some paper", lambda size, report: [FIGURE], "more")


def test_a_cell_of_which_nothing_was_found_is_empty() -> None:
    assert list(cells(FIGURE.columns, FIGURE.records)) == [["1", "1,000"], ["2", ""]]


def test_figures_are_written_raw_and_drawn(tmp_path: Path) -> None:
    write(tmp_path / "new", EXPERIMENT, Size(seed=7), [FIGURE])
    data = json.loads((tmp_path / "new" / "some.json").read_text())
    assert (data["paper"], data["seed"], data["full"]) == ("Some paper", 7, False)
    assert data["figures"][0]["records"] == FIGURE.records
    picture = (tmp_path / "new" / "some.svg").read_text()
    for told in ("updates k", "bytes", "paper: k = 2", "a bound", "here", "dots: counted"):
        assert f"<!-- {told}" in picture


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, EXPERIMENT, Size(), [FIGURE])
    one, two = ((tmp_path / name / "some.svg").read_text() for name in ("one", "two"))
    assert one == two


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "file", EXPERIMENT, Size(), [FIGURE])


def test_a_folder_is_tried_before_the_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setitem(command.EXPERIMENTS, "some", _noting(EXPERIMENT, made))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        command.papers("some", Size(), tmp_path / "file", as_json=True)
    assert made == []
    command.papers("some", Size(), tmp_path / "folder", as_json=True)
    assert made == ["some"]


def test_without_matplotlib_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setitem(command.EXPERIMENTS, "some", _noting(EXPERIMENT, made))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="matplotlib"):
        command.papers("some", Size(), tmp_path, as_json=True)
    assert made == []


def _noting(experiment: Experiment, made: list[str]) -> Experiment:
    """An experiment that notes when it is made."""

    def run(size: Size, report: Report) -> list[Figure]:
        made.append(experiment.name)
        return list(experiment.run(size, report))

    return replace(experiment, run=run)
