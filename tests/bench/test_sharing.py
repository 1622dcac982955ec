"""The experiments of the updategrams paper: their trends, carried out on a small TPC-H."""

import json
from pathlib import Path

from typer.testing import CliRunner

from headwater.bench.commands import app
from headwater.bench.sharing import Line, Setting, measure, ranked_rightly
from headwater.sharing.measuring import measured_speeds
from headwater.sharing.plan_costs import Speeds
from headwater.sharing.several_steps import Heuristic

SMALL = Setting(
    0.001,
    updates=24,
    rows=8,
    added=(0, 40),
    intervals=3,
    sample=1,
    timed=1,
    queries=["Q12", "Q21"],
    speeds=Speeds(),  # not those of this machine, whose noise would choose the plans
)


def test_the_trends_of_the_paper() -> None:
    lines = list(measure(SMALL))
    found = {(line.heuristic, line.updategrams): line for line in lines}
    few, many = SMALL.updates, max(line.updategrams for line in lines)

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


def test_the_command_tells_estimates_beside_what_was_measured(tmp_path: Path) -> None:
    picture = tmp_path / "figures.svg"
    arguments = "sharing --scale 0.001 --updates 9 --intervals 1 --sample 1 --most 0 --json --plot"
    done = CliRunner().invoke(app, [*arguments.split(), str(picture)])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line.get("heuristic") for line in lines[:-1]} == {h.value for h in Heuristic}
    assert all(line["measured_share"] > 0 for line in lines[:-1])
    assert "ranked_rightly" in lines[-1]
    assert "<svg" in picture.read_text()


def test_speeds_are_measured() -> None:
    speeds = measured_speeds()
    assert 0 < speeds.read_row < 1e-3
    assert 0 < speeds.read_object < 0.1
    assert 0 < speeds.join_row < 1e-3
    assert 0 < speeds.step < 0.1
