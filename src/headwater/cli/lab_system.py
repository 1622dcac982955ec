"""`headwater lab system`: whole deployments, simulated, with crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.terminal.output import (
    JsonOption,
    console,
    parse_seeds,
    plain,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from headwater.simulation.world import Tally


def system(
    seeds: Annotated[str, typer.Option(help="Deployments, FIRST:END or one number.")] = "0:200",
    trace: Annotated[
        bool, typer.Option("--trace", help="Show every step of a deployment that goes wrong.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the running system itself over a disk that loses what was not synced.

    Its machines and its ledger, with sources whose log and visibility differ, runners that are
    killed, paused and replaced, power that fails, clocks that jump and disks that are full. What
    goes wrong is made smaller, and can be repeated by its seed.
    """
    from headwater.simulation.world import Settings, Tally, play  # needs Arrow and Delta

    total = Tally.empty()
    for seed in parse_seeds(seeds):
        tally, wrong = play(Settings.of(seed))
        total.add(tally)
        if wrong is not None:
            _tell(seed, wrong, trace, as_json)
            raise typer.Exit(1)
    if as_json:
        print_json(
            {
                "deployments": total.runs,
                "crashes": total.crashes,
                "commits": total.commits,
                "violations": 0,
                "hit": {f"{doing}/{step}": n for (doing, step), n in sorted(total.hit.items())},
                "not_hit": ["/".join(cell) for cell in total.not_hit],
            }
        )
        return
    _show(total)


def _tell(seed: int, wrong: str, trace: bool, as_json: bool) -> None:
    from headwater.simulation.world import Settings, play, shrink

    smaller = shrink(Settings.of(seed))
    steps: list[str] = []
    shown = play(smaller, steps)[1] or wrong
    if as_json:
        mishaps = [[step, str(what)] for step, what in smaller.given or ()]
        told = {"seed": seed, "violation": shown, "mishaps": mishaps}
        print_json(told | ({"trace": steps} if trace else {}))
        return
    out = console()
    out.print(f"✗ deployment {seed}: {shown}")
    out.print(
        f"  in the smallest found: {smaller.transactions} transactions, {smaller.views} views, "
        + (", ".join(f"{what} at step {step}" for step, what in smaller.given or ()) or "no mishap")
    )
    if trace:
        for line in steps:
            out.print(plain(line))
    else:
        out.print(f"  headwater lab system --seeds {seed} --trace shows every step.")


def _show(total: Tally) -> None:
    rows = []
    for doing in sorted({doing for doing, _ in total.taken}):
        steps = sorted(step for found, step in total.taken if found == doing)
        rows.append((doing, "  ".join(f"{step} {total.hit[doing, step]:,}" for step in steps)))
    print_table("", ["a runner that", "was crashed so often before it could"], rows)
    console().print(
        f"✓ {total.runs:,} deployments, {total.crashes:,} crashes, {total.commits:,} commits "
        "judged: no violation"
    )
    if total.not_hit:
        missed = ", ".join(f"{doing} at {step}" for doing, step in total.not_hit)
        console().print(f"  steps at which no crash was tried yet: {missed}")
