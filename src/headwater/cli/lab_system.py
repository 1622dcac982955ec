"""`headwater lab system`: whole deployments, simulated, with crashes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

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
    from headwater.simulation.mishaps import Settings, Tally

_MOST_WRONG = 5
"""So many deployments that go wrong are enough to stop."""
_TELLING_EVERY = 1000


def system(
    seeds: Annotated[str, typer.Option(help="Deployments, FIRST:END or one number.")] = "0:200",
    crashes: Annotated[
        int | None,
        typer.Option(min=1, help="Go on from FIRST until so many crashes were counted."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Processes that run deployments.")
    ] = 1,
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
    from headwater.simulation.many import aimed, outcomes  # needs Arrow and Delta
    from headwater.simulation.mishaps import Settings, Tally

    wanted = parse_seeds(seeds)
    total, wrong, told = Tally.empty(), dict[Settings, str](), 0
    for seed, tally, found in outcomes(wanted if crashes is None else count(wanted[0]), jobs):
        total.add(tally)
        if found is not None:
            wrong[Settings.of(seed)] = found
        if len(wrong) == _MOST_WRONG or (crashes is not None and total.crashes >= crashes):
            break
        if total.crashes >= told + _TELLING_EVERY and not as_json:
            told = total.crashes
            console().print(f"  {total.runs:,} deployments, {told:,} crashes, {len(wrong)} wrong")
    for settings, tally, found in aimed(total):
        total.add(tally)
        if found is not None:
            wrong[settings] = found
    smallest = [_smallest(settings, found, trace) for settings, found in wrong.items()]
    if as_json:
        _print_json(total, smallest)
    else:
        _show(total, smallest)
    if wrong:
        raise typer.Exit(1)


def _smallest(settings: Settings, wrong: str, trace: bool) -> dict[str, Any]:
    """A deployment that goes wrong, with as little as is needed for it."""
    from headwater.simulation.shrinking import shrink
    from headwater.simulation.world import play

    smaller = shrink(settings)
    steps: list[str] = []
    shown = play(smaller, steps)[1] or wrong
    return {
        "seed": settings.seed,
        "violation": shown,
        "transactions": smaller.transactions,
        "views": smaller.views,
        "mishaps": [[step, str(what)] for step, what in smaller.given or ()],
    } | ({"trace": steps} if trace else {})


def _print_json(total: Tally, wrong: list[dict[str, Any]]) -> None:
    for found in wrong:
        print_json(found)
    print_json(
        {
            "deployments": total.runs,
            "crashes": total.crashes,
            "commits": total.commits,
            "violations": len(wrong),
            "hit": {f"{doing}/{step}": n for (doing, step), n in sorted(total.hit.items())},
            "not_hit": ["/".join(cell) for cell in total.not_hit],
            "harmless": ["/".join(cell) for cell in total.harmless],
        }
    )


def _show(total: Tally, wrong: list[dict[str, Any]]) -> None:
    rows = []
    for doing in sorted({doing for doing, _ in total.taken}):
        cells = sorted(cell for cell in total.owing if cell[0] == doing)
        told = (f"{cell[1]} {total.hit[cell]:,}" for cell in cells)
        rows.append((doing, "  ".join(told)))
    print_table("", ["a runner that", "was crashed so often before it could"], rows)
    out = console()
    for found in wrong:
        _show_wrong(found)
    verdict = f"{len(wrong)} went wrong" if wrong else "no violation"
    out.print(
        f"{'✗' if wrong else '✓'} {total.runs:,} deployments, {total.crashes:,} crashes, "
        f"{total.commits:,} commits judged: {verdict}"
    )
    for cells, said in (
        (total.not_hit, "steps at which no crash was tried yet"),
        (total.harmless, "steps at which a crash could never cost anything"),
    ):
        if cells:
            out.print(f"  {said}: {', '.join(f'{doing} at {step}' for doing, step in cells)}")


def _show_wrong(found: dict[str, Any]) -> None:
    out = console()
    mishaps = ", ".join(f"{what} at step {step}" for step, what in found["mishaps"])
    out.print(plain(f"✗ deployment {found['seed']}: {found['violation']}"))
    out.print(
        f"  in the smallest found: {found['transactions']} transactions, {found['views']} views, "
        + (mishaps or "no mishap")
    )
    for line in found.get("trace", ()):
        out.print(plain(line))
    if "trace" not in found:
        out.print(f"  headwater lab system --seeds {found['seed']} --trace shows every step.")
