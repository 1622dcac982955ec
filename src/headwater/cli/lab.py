"""`headwater lab`: run, explore, replay and measure algorithms over scenarios."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from headwater.algebra.rows import Rows
from headwater.algebra.values import Json
from headwater.algebra.views import FAILING
from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS
from headwater.algorithms.registry import algorithm as find_algorithm
from headwater.bench.plots import level_grid
from headwater.check.explain import explain
from headwater.cli.lab_arguments import (
    AlgorithmOption,
    FileArgument,
    SetOption,
    parse_settings,
    read_objects,
)
from headwater.cli.lab_mistakes import mistakes
from headwater.cli.lab_system import system
from headwater.demo.anomaly import demo
from headwater.errors import InputError, ScenarioError
from headwater.lab.explore import MOST_STATES, Exploration, explore
from headwater.lab.generate import KINDS, Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.run import Run, run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed, seeded, style_of
from headwater.lab.shrink import shrink_scenario, shrink_schedule
from headwater.lab.simulate import LAB_SETTINGS, run_to_replay, simulate
from headwater.lab.spectrum import Cell, measure_spectrum, shrunk
from headwater.lab.world import Simulation
from headwater.protocol.trace import show_trace
from headwater.protocol.trace_json import rows_to_json, trace_to_json
from headwater.terminal.output import (
    JsonOption,
    console,
    parse_seeds,
    plain,
    print_json,
    print_table,
    styled,
)

app = typer.Typer(
    help="Run algorithms over scenarios and see which consistency level they keep.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("system")(system)
app.command("demo")(demo)
app.command("mistakes")(mistakes)


@app.command("run")
def run_command(
    file: FileArgument,
    algorithm: AlgorithmOption,
    seeds: Annotated[str, typer.Option(help="Schedules to run, FIRST:END or one number.")] = "0:20",
    set_: SetOption = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Write the lowest run, its schedule calmed down, for 'lab replay'."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run each scenario under each seeded schedule and say which level it reaches."""
    settings = parse_settings(set_)
    lowest: list[Object] = []
    if keep is not None:
        _write("--keep", keep, lowest)  # fails now rather than after the runs
    for at, scenario in enumerate(_scenarios(file)):
        simulation = simulate(scenario, algorithm, settings)
        runs = []
        for seed in parse_seeds(seeds):
            done = run(simulation, seeded(seed))
            if as_json:
                print_json({"scenario": at, "seed": seed, "algorithm": algorithm} | run_json(done))
            runs.append((seed, done))
        if not as_json:
            _print_runs(scenario, algorithm, runs)
        if keep is not None:
            worst = min((done for _, done in runs), key=lambda done: done.verdict.level)
            calm = shrink_schedule(simulation, worst.schedule)
            lowest += (
                [found] if (found := run_to_replay(scenario, algorithm, settings, calm)) else []
            )
    if keep is not None:
        _write("--keep", keep, lowest)


def run_json(done: Run) -> Object:
    """The contract's members of one run."""
    return {
        "level": str(done.verdict.level),
        "properties": dict(done.verdict.properties),
        "states": [rows_to_json(state) for state in _readable(done.trace.states)],
        "messages": done.trace.message_count,
        "bytes": done.trace.byte_count,
    }


def _readable(states: list[Rows]) -> Iterator[Rows]:
    """What a reader had: the last state without an error."""
    last = Rows.empty(states[0].schema)
    for state in states:
        last = last if state is FAILING else state
        yield last


def _print_runs(scenario: Scenario, algorithm: str, runs: list[tuple[int, Run]]) -> None:
    levels = Counter(str(done.verdict.level) for _, done in runs)
    found = [Text.assemble(f"{n} ", styled(level)) for level, n in levels.most_common()]
    out = console()
    out.print(
        plain(scenario.name, "bold"),
        f"with {algorithm}, {len(runs)} schedules:",
        Text(", ").join(found),
    )
    messages = sum(done.trace.message_count for _, done in runs) / len(runs)
    answers = sum(done.trace.byte_count for _, done in runs) / len(runs)
    out.print(f"  on average {messages:.1f} messages and {answers:.0f} bytes of answers")
    seed, worst = min(runs, key=lambda item: item[1].verdict.level)
    out.print(f"  lowest with seed {seed} ({style_of(seed)}):", end=" ")
    out.print(explain(scenario.history, worst.verdict))


@app.command("explore")
def explore_command(
    file: FileArgument,
    algorithm: AlgorithmOption,
    set_: SetOption = None,
    shrink: Annotated[bool, typer.Option(help="Make the counterexample's scenario small.")] = False,
    limit: Annotated[int, typer.Option(help="Give up after this many states.")] = MOST_STATES,
    as_json: JsonOption = False,
) -> None:
    """Try every schedule of each scenario and find the lowest level, with a counterexample."""
    settings = parse_settings(set_)
    for at, scenario in enumerate(_scenarios(file)):
        found = explore(simulate(scenario, algorithm, settings), limit)
        if not found.schedules:
            raise InputError(
                f"--limit {limit}: not one schedule of {scenario.name} ends within so few states.",
                "Raise the limit.",
            )
        if shrink and found.counterexample:
            scenario, found = _shrunk(scenario, algorithm, settings, found, limit)
        if as_json:
            replayable = run_to_replay(scenario, algorithm, settings, found.counterexample)
            print_json({"scenario": at, "algorithm": algorithm} | _found_json(found, replayable))
        else:
            _print_exploration(scenario, algorithm, settings, found)


def _shrunk(
    scenario: Scenario, algorithm: str, settings: dict[str, str], found: Exploration, limit: int
) -> tuple[Scenario, Exploration]:
    def still_fails(smaller: Scenario) -> bool:
        return explore(simulate(smaller, algorithm, settings), limit).level <= found.level

    small = shrink_scenario(scenario, still_fails)
    return small, explore(simulate(small, algorithm, settings), limit)


def _found_json(found: Exploration, counterexample: Object | None) -> Object:
    return {
        "schedules": found.schedules,
        "states": found.states,
        "exhaustive": found.exhaustive,
        "level": str(found.level),
        "counterexample": counterexample,
    }


def _print_exploration(
    scenario: Scenario, algorithm: str, settings: dict[str, str], found: Exploration
) -> None:
    out = console()
    level = styled(str(found.level))
    reached = " over all" if found.exhaustive else ", found in the first"
    out.print(
        plain(scenario.name, "bold"),
        f"with {algorithm}:",
        Text.assemble("" if found.exhaustive else "at most ", level, reached),
        f"{found.schedules} schedules ({found.states} states)",
    )
    if not found.exhaustive:
        out.print("  the bound on states was reached: raise it with --limit")
    if found.counterexample is not None:
        simulation = simulate(scenario, algorithm, settings)
        done = run(simulation, replayed(found.counterexample))
        _print_steps(scenario, done)


@app.command("replay")
def replay_command(
    file: FileArgument,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", "-a", help="Instead of the file's own.")
    ] = None,
    set_: SetOption = None,
    save: Annotated[Path | None, typer.Option(help="Also write the trace to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a scenario's own schedule, or a counterexample of 'explore --json', step by step."""
    traces: list[Object] = []
    if save is not None:
        _write("--save", save, traces)  # fails now rather than after the run
    objects = read_objects(file)
    if any(given.get("counterexample") for given, _ in objects):
        objects = [(g, where) for g, where in objects if g.get("counterexample", g) is not None]
    for at, (given, where) in enumerate(objects):
        data = given.get("counterexample", given)
        if not isinstance(data, dict):
            raise InputError(
                f"{where}: there is no counterexample in it.", "Every run is complete."
            )
        if "schedule" not in data:
            raise InputError(f"{where}: it has no 'schedule' to replay.", "Try 'lab explore'.")
        scenario = scenario_from_json(data, where)
        name = algorithm or str(data.get("algorithm", ""))
        if not name:
            raise InputError(f"{where}: it names no algorithm.", "Add --algorithm NAME.")
        settings = _own_settings(data, where) | parse_settings(set_)
        simulation = simulate(scenario, name, settings)
        done = _replay(simulation, data["schedule"], where, to_the_end=algorithm is None)
        traces.append(trace_to_json(done.trace))
        if as_json:
            steps: list[Json] = list(show_trace(done.trace))
            print_json({"scenario": at, "algorithm": name, "steps": steps} | run_json(done))
        else:
            console().print(plain(scenario.name, "bold"), f"with {name}")
            _print_steps(scenario, done)
    if save is not None:
        _write("--save", save, traces)


def _replay(simulation: Simulation, schedule: Json, where: str, to_the_end: bool) -> Run:
    """Replay a schedule; another algorithm than its own may be done before its end."""
    try:
        steps = parse_schedule(schedule)
        done = run(simulation, replayed(steps))
    except ScenarioError as error:
        raise ScenarioError(f"{where}: {error.message}", error.hint) from None
    at = len(done.schedule)
    if to_the_end and at < len(steps):
        raise ScenarioError(
            f"{where}: schedule[{at}]: '{steps[at]}' comes after the end of the run.",
            "Leave it out.",
        )
    return done


def _write(option: str, path: Path, objects: list[Object]) -> None:
    """Write JSON objects to a file, one a line."""
    text = "".join(json.dumps(data, ensure_ascii=False) + "\n" for data in objects)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{option} {path}: cannot be written: {error.strerror}.", "Check the path."
        ) from None


def _own_settings(data: Object, where: str) -> dict[str, str]:
    given = data.get("set", {})
    if not isinstance(given, dict):
        raise InputError(f"{where}: 'set' must be an object.", 'Write for example {"p": "4"}.')
    return {name: str(value) for name, value in given.items()}


def _print_steps(scenario: Scenario, done: Run) -> None:
    out = console()
    for step in show_trace(done.trace):
        out.print(f"  {step}")
    out.print(plain("  →", "red" if done.verdict.level == 0 else "bold"), end=" ")
    out.print(explain(scenario.history, done.verdict))


@app.command("algorithms")
def algorithms_command(as_json: JsonOption = False) -> None:
    """List the algorithms with paper, assumptions and promises."""
    if as_json:
        for found in ALGORITHMS.values():
            print_json(
                {
                    "name": found.name,
                    "paper": found.paper,
                    "summary": found.summary,
                    "assumes": list(found.assumes),
                    "promises": dict(found.promises),
                    "parameters": {
                        name: {"meaning": p.meaning, "default": p.default}
                        for name, p in found.parameters.items()
                    },
                }
            )
        return
    out = console()
    for found in ALGORITHMS.values():
        out.print(plain(found.name, "bold"), f" {found.summary}")
        out.print(f"  {found.paper}")
        promised = [Text.assemble(f"{k} ", styled(found.promises[k])) for k in SCENARIO_KINDS]
        out.print("  promises:", Text(", ").join(promised))
        for text in found.assumes:
            out.print(f"  assumes: {text}")
        for name, parameter in found.parameters.items():
            out.print(f"  --set {name}={parameter.default}: {parameter.meaning}")
    out.print(plain("the lab itself", "bold"))
    for name, choices in LAB_SETTINGS.items():
        for choice, meaning in choices.items():
            out.print(f"  --set {name}={choice}: {meaning}")


@app.command("spectrum")
def spectrum_command(
    seeds: Annotated[str, typer.Option(help="Random scenarios of each kind.")] = "0:12",
    algorithm: Annotated[
        list[str] | None,
        typer.Option("--algorithm", "-a", help="Only this one; may be repeated."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this kind, one of {', '.join(SCENARIO_KINDS)}; may be repeated."),
    ] = None,
    set_: SetOption = None,
    shrink: Annotated[bool, typer.Option(help="Make the counterexamples small.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .svg or .png file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure every algorithm in every kind of scenario: promised beside measured.

    The level measured is the lowest over all schedules. Exit code 1 if a promise is broken. With
    other settings of the lab, such as --set channels=updates, nothing is promised.
    """
    names = [find_algorithm(name).name for name in algorithm or ALGORITHMS]
    kinds = [_known_kind(given) for given in kind or SCENARIO_KINDS]
    cells = []
    found = measure_spectrum(parse_seeds(seeds), names, kinds, parse_settings(set_))
    for cell in _with_progress(found, len(names) * len(kinds)):
        cells.append(shrunk(cell) if shrink else cell)
        if as_json:
            print_json(_cell_json(cells[-1]))
    if not as_json:
        _print_spectrum(cells, names, kinds)
    if plot is not None:
        level_grid(
            plot,
            "The consistency spectrum: the lowest level over all schedules",
            kinds,
            [(paper, list(group)) for paper, group in groupby(names, key=_paper)],
            {(cell.algorithm, cell.kind): (cell.promised, cell.measured) for cell in cells},
        )
    if not all(cell.is_kept for cell in cells):
        raise typer.Exit(1)


def _known_kind(kind: str) -> str:
    if kind not in SCENARIO_KINDS:
        raise InputError(
            f"--kind {kind}: there is no such kind.", f"There are: {', '.join(SCENARIO_KINDS)}."
        )
    return kind


def _paper(algorithm: str) -> str:
    """The paper that an algorithm comes from, in a word."""
    return ALGORITHMS[algorithm].paper.split(",")[0]


def _with_progress(cells: Iterator[Cell], total: int) -> Iterator[Cell]:
    """The cells, with a bar on standard error while they are measured, if somebody looks."""
    with Progress(
        TextColumn("measuring the spectrum"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        yield from progress.track(cells, total=total)


def _cell_json(cell: Cell) -> Object:
    return {
        "algorithm": cell.algorithm,
        "kind": cell.kind,
        "promised": str(cell.promised),
        "measured": str(cell.measured),
        "scenarios": cell.scenarios,
        "schedules": cell.schedules,
        "exhaustive": cell.exhaustive,
        "counterexample": cell.counterexample,
    }


def _print_spectrum(cells: list[Cell], names: list[str], kinds: list[str]) -> None:
    table = {(cell.algorithm, cell.kind): cell for cell in cells}
    print_table(
        "The consistency spectrum: the lowest level over all schedules",
        ["algorithm", *kinds],
        ([name, *(_spectrum_cell(table[name, kind]) for kind in kinds)] for name in names),
    )
    out = console()
    total = sum(cell.schedules for cell in cells)
    count = sum(cell.scenarios for cell in cells)
    out.print(f"{total:,} schedules of {count} scenarios. What is not marked is as promised.")
    for cell in cells:
        if cell.measured != cell.promised:
            word = "more" if cell.is_kept else "less"
            out.print(
                f"  {_mark(cell)} {cell.algorithm} {cell.kind}: {word} than promised, "
                f"{cell.measured} instead of {cell.promised}"
            )
    if any(cell.counterexample for cell in cells):
        out.print(
            "Counterexamples: headwater lab spectrum -a NAME --kind KIND --json | "
            "headwater lab replay -"
        )


def _spectrum_cell(cell: Cell) -> Text:
    return Text.assemble(styled(str(cell.measured)), _mark(cell))


def _mark(cell: Cell) -> str:
    return "!" if not cell.is_kept else "*" if cell.measured > cell.promised else ""


@app.command("examples")
def examples_command(as_json: JsonOption = False) -> None:
    """List the shipped scenarios: the papers' examples and kept counterexamples."""
    found = [(name, str(example(name).data.get("about", ""))) for name in example_names()]
    if as_json:
        for name, about in found:
            print_json({"name": name, "about": about})
        return
    print_table("Shipped scenarios", ["name", "about"], found)


@app.command("generate")
def generate_command(
    seeds: Annotated[str, typer.Option(help="Which random scenarios.")] = "0:10",
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.")] = "multi-source",
    relations: Annotated[int, typer.Option(help="How many relations.", min=1)] = 3,
    sources: Annotated[int, typer.Option(help="How many sources.", min=1)] = 3,
    transactions: Annotated[int, typer.Option(help="How many transactions.", min=0)] = 4,
    keys: Annotated[bool, typer.Option(help="Whether relations have keys.")] = False,
    terms: Annotated[int, typer.Option(help="How many joins the view adds up.", min=1)] = 1,
) -> None:
    """Print random scenarios, one a line, to be saved as a .jsonl file."""
    shape = Shape(kind, relations, sources, transactions, keys, terms=terms)
    for seed in parse_seeds(seeds):
        print_json(generate(seed, shape).data)


def _scenarios(file: Path) -> list[Scenario]:
    return [scenario_from_json(data, where) for data, where in read_objects(file)]
