"""The experiments of the updategrams paper: their trends, carried out on a small TPC-H."""

import json
from pathlib import Path

from typer.testing import CliRunner

from headwater.bench.commands import app
from headwater.bench.papers.updategrams import QUICK
from headwater.bench.papers.updategrams_planned import Line, measure, ranked_rightly
from headwater.sharing.measuring import measured_speeds
from headwater.sharing.several_steps import Heuristic


def test_the_trends_of_the_paper() -> None:
    lines = list(measure(QUICK))
    found = {(line.heuristic, line.updategrams): line for line in lines}
    few, many = QUICK.updates, max(line.updategrams for line in lines)

    def at(heuristic: Heuristic, updategrams: int) -> Line:
        return found[heuristic, updategrams]

    base, coalesce = at(Heuristic.BASE, few), at(Heuristic.COALESCE, few)
    assert coalesce.steps < base.steps, "figure 5"
    assert coalesce.share < base.share, "figure 6"
    assert at(Heuristic.BASE, many).steps < base.steps, "with more updategrams shorter plans"
    assert at(Heuristic.BASE, many).share < base.share
    assert at(Heuristic.GREEDY, many).share >= at(Heuristic.BASE, many).share
    assert all(share > 0 for line in lines for share in line.by_steps().values())
    for line in lines:  # what was carried out came to what recomputing does, or it had raised
        assert len(line.carried_out) == 2
        assert line.measured_share is not None
    right, pairs = ranked_rightly(lines)
    assert right <= pairs


def test_the_command_writes_figures_and_a_picture(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["papers", "updategrams", "--json", "--into", str(tmp_path)])
    assert done.exit_code == 0, done.output
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {record["figure"] for record in records} == {"4", "5", "6", "7", "6 (carried out)"}
    written = json.loads((tmp_path / "updategrams.json").read_text())
    assert [figure["name"] for figure in written["figures"]] == [
        "4",
        "5",
        "6",
        "7",
        "6 (carried out)",
    ]
    assert all(r["measured_share"] > 0 for r in records if r["figure"] == "6")
    assert "<svg" in (tmp_path / "updategrams.svg").read_text()


def test_speeds_are_measured() -> None:
    speeds = measured_speeds()
    assert 0 < speeds.read_row < 1e-3
    assert 0 < speeds.read_object < 0.1
    assert 0 < speeds.join_row < 1e-3
    assert 0 < speeds.step < 0.1
