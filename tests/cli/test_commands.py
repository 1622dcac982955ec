"""What the commands print, for people and for machines."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater import __version__
from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS
from headwater.check.levels import PROPERTIES, Level
from headwater.cli.main import COMMANDS
from headwater.errors import InputError
from headwater.lab.library import example_names
from tests.cli.commands import headwater, loaded_by, quick
from tests.scenarios import counters, edited
from tests.traces import trace_from_json

LEVELS = [str(level) for level in Level]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# Every command


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("lab",),
        ("bench",),
        ("demo",),
        *(
            ("lab", name)
            for name in (
                "run",
                "explore",
                "replay",
                "algorithms",
                "spectrum",
                "examples",
                "generate",
                "mistakes",
                "demo",
            )
        ),
        ("bench", "explore"),
        ("bench", "papers"),
        ("bench", "backlog"),
    ],
)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    found = quick(*command, "--help")
    assert found.code == 0
    assert "--help" in found.out


def test_the_version_is_printed() -> None:
    assert quick("--version").out == f"headwater {__version__}\n"


def test_the_lab_never_loads_spark() -> None:
    loaded = {
        name.partition(".")[0] for name in loaded_by("lab", "explore", "eca-2", "-a", "sweep")
    }
    assert "headwater" in loaded
    assert not loaded & {"pyspark", "py4j", "deltalake", "pyarrow", "pandas", "numpy", "sqlite3"}


def test_what_there_is_is_told_without_loading_it() -> None:
    loaded = loaded_by("--help")
    assert "headwater.cli.main" in loaded
    assert not loaded & {"headwater.cli.maintenance", "headwater.algebra.rows", "sqlglot"}


def test_a_command_loads_no_other_group_of_commands() -> None:
    loaded = loaded_by("status", "--help")
    assert "headwater.cli.maintenance" in loaded
    assert not loaded & {"headwater.cli.lab", "headwater.cli.share", "headwater.bench.commands"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_is_told_can_be_called(name: str) -> None:
    assert COMMANDS[name].load(name).get_short_help_str()


def test_an_error_in_a_process_of_its_own_is_one_line() -> None:
    found = headwater("lab", "run", "eca-2", "-a", "copie")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("headwater: There is no algorithm 'copie'.")
    assert found.err.count("\n") == 1


# lab run


def test_a_run_has_exactly_the_members_that_are_documented() -> None:
    found = lines(quick("lab", "run", "eca-2", "-a", "conventional", "--seeds", "3", "--json").out)
    (one,) = found
    assert list(one) == [
        "scenario",
        "seed",
        "algorithm",
        "level",
        "properties",
        "states",
        "messages",
        "bytes",
    ]
    assert (one["scenario"], one["seed"], one["algorithm"]) == (0, 3, "conventional")
    assert one["level"] in LEVELS
    assert list(one["properties"]) == [p.name for p in PROPERTIES]
    assert all(value in (True, False, None) for value in one["properties"].values())
    assert type(one["messages"]) is type(one["bytes"]) is int
    assert one["states"][0] == []
    for state in one["states"]:
        for row, count in state:
            assert isinstance(row, list)
            assert count > 0


def test_every_seed_of_every_scenario_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(quick("lab", "generate", "--seeds", "0:3").out)
    found = lines(quick("lab", "run", str(path), "-a", "copies", "--seeds", "2:4", "--json").out)
    assert [(one["scenario"], one["seed"]) for one in found] == [
        (scenario, seed) for scenario in range(3) for seed in (2, 3)
    ]


def test_a_run_is_the_same_again() -> None:
    command = ("lab", "run", "strobe-0", "-a", "conventional", "--seeds", "0:10", "--json")
    assert quick(*command).out == quick(*command).out


def test_people_get_levels_and_averages_and_the_lowest_run() -> None:
    found = quick("lab", "run", "eca-2", "-a", "conventional", "--seeds", "0:5").out
    assert "eca-2 with conventional, 5 schedules: " in found
    assert "on average 4.0 messages" in found
    assert "None: not even the last state of the view is right." in found


def test_parameters_reach_the_algorithm() -> None:
    def messages(every: str) -> int:
        command = ("lab", "run", "eca-2", "-a", "recompute", "--seeds", "0", "--json")
        return int(lines(quick(*command, "--set", f"every={every}").out)[0]["messages"])

    assert (messages("1"), messages("2")) == (2, 4)


def test_a_name_may_look_like_markup(tmp_path: Path) -> None:
    data = json.loads(quick("lab", "generate", "--seeds", "0").out)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(edited(data, ("name",), "[/odd] [red]")))
    assert quick("lab", "run", str(path), "-a", "copies").out.startswith("[/odd] [red] with copies")


# lab explore and lab replay


def test_an_exploration_has_exactly_the_members_that_are_documented() -> None:
    (found,) = lines(quick("lab", "explore", "eca-2", "-a", "conventional", "--json").out)
    assert list(found) == [
        "scenario",
        "algorithm",
        "schedules",
        "states",
        "exhaustive",
        "level",
        "counterexample",
    ]
    assert (found["schedules"], found["level"], found["exhaustive"]) == (2, "none", True)
    assert found["counterexample"]["schedule"] == ["commit x", "commit x", "answer x", "answer x"]


def test_where_every_run_is_complete_there_is_no_counterexample() -> None:
    (found,) = lines(quick("lab", "explore", "eca-2", "-a", "copies", "--json").out)
    assert (found["level"], found["counterexample"]) == ("complete", None)


@pytest.mark.parametrize("settings", [(), ("--set", "channels=unordered")])
def test_what_explore_finds_can_be_replayed(settings: tuple[str, ...]) -> None:
    explored = quick("lab", "explore", "eca-3", "-a", "conventional", *settings, "--json").out
    (replayed,) = lines(quick("lab", "replay", "-", "--json", stdin=explored).out)
    (found,) = lines(explored)
    assert replayed["level"] == found["level"] == "none"


def test_several_counterexamples_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(quick("lab", "generate", "--seeds", "0:3").out)
    explored = quick("lab", "explore", str(path), "-a", "conventional", "--json").out
    replayed = lines(quick("lab", "replay", "-", "--json", stdin=explored).out)
    assert [one["level"] for one in replayed] == [one["level"] for one in lines(explored)]


def test_a_pipe_of_two_processes_works() -> None:
    explored = headwater("lab", "explore", "eca-2", "-a", "conventional", "--json")
    replayed = headwater("lab", "replay", "-", stdin=explored.out)
    assert (replayed.code, replayed.err) == (0, "")
    assert "the view becomes ([1], [4], [4])" in replayed.out


def test_a_shrunk_counterexample_is_smaller_and_replays(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(quick("lab", "generate", "--seeds", "1").out)
    explored = quick("lab", "explore", str(path), "-a", "conventional", "--shrink", "--json").out
    (found,) = lines(explored)
    assert len(found["counterexample"]["transactions"]) < 4
    (replayed,) = lines(quick("lab", "replay", "-", "--json", stdin=explored).out)
    assert replayed["level"] == "none"


def test_an_exploration_that_was_cut_short_says_so() -> None:
    found = quick(
        "lab", "explore", "recompute-visits-twice", "-a", "recompute", "--limit", "40"
    ).out
    assert "at most complete, found in the first 10 schedules" in found
    assert "raise it with --limit" in found


def test_a_replay_of_another_algorithm_takes_what_is_possible() -> None:
    found = quick("lab", "replay", "eca-2", "-a", "copies")
    assert (found.code, "Complete" in found.out) == (0, True)


def test_a_replay_has_its_steps() -> None:
    (found,) = lines(quick("lab", "replay", "eca-2", "--json").out)
    assert found["steps"][0] == "1. Source x executes U1 = insert(r2, [2, 3])."
    assert len(found["steps"]) == 8


def test_a_saved_trace_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    quick("lab", "replay", "eca-2", "--save", str(path))
    assert len(trace_from_json(json.loads(path.read_text("utf-8"))).states) == 3


# Lists and tables


def test_the_algorithms_are_listed() -> None:
    found = lines(quick("lab", "algorithms", "--json").out)
    assert [one["name"] for one in found] == list(ALGORITHMS)
    assert all(set(one["promises"].values()) <= set(LEVELS) for one in found)
    shown = quick("lab", "algorithms").out
    assert all(re.search(rf"^{name}  ", shown, re.MULTILINE) for name in ALGORITHMS)


def test_the_examples_are_listed() -> None:
    found = lines(quick("lab", "examples", "--json").out)
    assert [one["name"] for one in found] == example_names()
    assert all(name in quick("lab", "examples").out for name in example_names())


def test_the_spectrum_keeps_the_promises() -> None:
    some = ("-a", "conventional", "-a", "eca", "-a", "t-strobe", "-a", "sweep")
    cells = lines(quick("lab", "spectrum", "--seeds", "0:1", *some, "--json").out)
    assert len(cells) == 4 * len(SCENARIO_KINDS)
    for cell in cells:
        assert LEVELS.index(cell["measured"]) >= LEVELS.index(cell["promised"]), cell["algorithm"]


STROBE_CELLS = ("lab", "spectrum", "--seeds", "0:1", "-a", "strobe", "-a", "c-strobe")


def test_the_spectrum_lists_what_differs_from_the_promise() -> None:
    shown = quick(*STROBE_CELLS, "--kind", "multi-source", "--kind", "global").out
    assert re.search(r"^strobe +strong +weak\*", shown, re.MULTILINE)
    assert "* strobe global: more than promised, weak instead of convergent" in shown


def test_a_broken_promise_is_marked_and_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    boastful = replace(ALGORITHMS["strobe"], promises=dict.fromkeys(SCENARIO_KINDS, "complete"))
    monkeypatch.setitem(ALGORITHMS, "strobe", boastful)
    found = quick(*STROBE_CELLS, "--kind", "global")
    assert found.code == 1
    assert "! strobe global: less than promised, weak instead of complete" in found.out


def test_counterexamples_of_the_spectrum_can_be_replayed() -> None:
    cells = quick(*STROBE_CELLS, "--shrink", "--json").out
    measured = [c["measured"] for c in lines(cells) if c["counterexample"] is not None]
    replayed = lines(quick("lab", "replay", "-", "--json", stdin=cells).out)
    assert [run["level"] for run in replayed] == measured
    assert len(measured) > 4


def test_the_spectrum_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "spectrum.svg"
    quick(*STROBE_CELLS, "--plot", str(picture))
    assert picture.read_text(encoding="utf-8").count('<g id="text_') > 2 * len(SCENARIO_KINDS)


def test_generated_scenarios_are_one_a_line() -> None:
    found = lines(quick("lab", "generate", "--seeds", "4:6", "--kind", "global", "--keys").out)
    assert [one["name"] for one in found] == ["global seed 4", "global seed 5"]


def test_the_labs_demo_shows_the_anomaly_and_its_repair() -> None:
    found = quick("lab", "demo").out
    assert "✗ None: not even the last state of the view is right." in found
    assert "✓ Complete: every state of the sources in that order is shown." in found


# The Rings protocols


def test_a_run_of_the_rings_can_be_replayed_step_by_step() -> None:
    found = quick("lab", "replay", "rings-concurrent", "--json")
    assert found.code == 0
    done = json.loads(found.out)
    assert done["level"] == "complete"
    assert done["properties"]["view_management"] is True
    assert done["steps"][3] == (
        "4. Node y receives token1 from node x and sends token1 [y: r1 ⋈ [2, 5]] to node x."
    )
    assert (done["messages"], done["bytes"]) == (9, 176)


def test_a_counterexample_of_the_rings_is_shrunk_and_replayed(tmp_path: Path) -> None:
    scenario = tmp_path / "global.json"
    scenario.write_text(json.dumps(counters("xy", "x").data))
    arguments = ["lab", "explore", str(scenario), "-a", "rings-star", "--shrink", "--json"]
    found = quick(*arguments)
    assert found.code == 0
    (tmp_path / "found.json").write_text(found.out)
    replayed = json.loads(quick("lab", "replay", str(tmp_path / "found.json"), "--json").out)
    assert (json.loads(found.out)["level"], replayed["level"]) == ("weak", "weak")


def test_random_scenarios_may_have_several_terms() -> None:
    found = quick("lab", "generate", "--seeds", "0:3", "--terms", "3")
    views = [json.loads(line)["view"] for line in found.out.splitlines()]
    assert [view.count("UNION ALL") for view in views] == [2, 2, 2]


def test_figures_of_a_paper_are_printed_for_machines() -> None:
    rows = lines(quick("bench", "papers", "eca", "--json").out)
    assert {row["paper"] for row in rows} == {"eca"}
    messages = [row for row in rows if row["figure"] == "6.1"]
    assert messages
    assert all(row["messages"] == row["formula"] for row in messages)


def test_figures_of_a_paper_are_told_with_its_claims(tmp_path: Path) -> None:
    found = quick("bench", "papers", "eca", "--into", str(tmp_path))
    assert found.out.count("Published: ") == found.out.count("Found: ") == 7
    written = json.loads((tmp_path / "eca.json").read_text())
    assert len(written["figures"]) == 7
    assert "<svg" in (tmp_path / "eca.svg").read_text()


def test_a_paper_that_is_not_one_of_the_five_is_answered_with_those() -> None:
    with pytest.raises(InputError, match="no paper 'lord'") as raised:
        quick("bench", "papers", "lord")
    assert "eca, strobe, pvm, rings, updategrams" in str(raised.value.hint)


# lab system


def test_deployments_go_on_until_so_many_crashes_were_counted() -> None:
    (found,) = lines(quick("lab", "system", "--seeds", "5", "--crashes", "10", "--json").out)
    assert found["crashes"] >= 10
    assert found["deployments"] >= 2
    assert found["violations"] == 0
