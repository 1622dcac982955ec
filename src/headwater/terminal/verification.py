"""How a verification looks: while it reads, and what it found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.terminal.output import console, print_json

if TYPE_CHECKING:
    from headwater.pipeline.bulk_read import Tally
    from headwater.pipeline.verify import Verification

_REFRESH_S = 0.25


def verification_json(found: Verification) -> dict[str, object]:
    from headwater.protocol.trace_json import rows_to_json

    return {
        "view": found.view,
        "holds": found.holds,
        "version": found.number,
        "vector": {s: reached.number for s, reached in found.vector.items()},
        "rows": found.rows,
        "missing": rows_to_json(found.missing),
        "extra": rows_to_json(found.extra),
        **({"place": found.place} if found.place else {}),
        **({"promises_nothing": True} if found.promises_nothing else {}),
        "seconds": round(found.seconds, 3),
    }


def print_verification(found: Verification, as_json: bool = False) -> None:
    if as_json:
        print_json(verification_json(found))
        return
    out = console()
    at = ", ".join(f"{source} {reached.number}" for source, reached in found.vector.items())
    if found.holds:
        out.print(
            f"✓ {found.view}: {found.rows:,} rows at version {found.number} equal "
            f"the view recomputed at ({at}); {found.taken_back:,} later transactions taken back; "
            f"{found.seconds:.1f} s"
        )
        return
    where = f"; readers do not see it yet, it is in {found.place}" if found.place else ""
    out.print(f"✗ {found.view}: version {found.number} is not the view at ({at}){where}")
    for title, rows in (("missing", found.missing), ("too many", found.extra)):
        for row, count in rows.sorted_items():
            out.print(f"  {title}: {count} × {_row(row)}")
    if found.promises_nothing:
        out.print("  It is WITH NO CONSISTENCY: it promised nothing. Any other level would hold.")


def print_failing(view: str, error: HeadwaterError, as_json: bool = False) -> None:
    """A view that cannot be compared, such as one with an expression that fails on a row."""
    if as_json:
        print_json({"view": view, "holds": False, "error": str(error)})
    else:
        console().print(f"✗ {view} cannot be verified: {error}", markup=False)


def _row(row: Sequence[object]) -> str:
    from headwater.algebra.rows import show_row

    return show_row(row)  # type: ignore[arg-type]


@contextmanager
def reading(title: str, quiet: bool) -> Iterator[Callable[[Tally], None]]:
    """A line that counts the rows that are read, where a person looks on."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    out = console()
    if quiet or not out.is_terminal:
        yield lambda tally: None
        return
    done = threading.Event()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        transient=True,
        console=out,
    ) as bar:
        task = bar.add_task(title)
        tallies: list[Tally] = []

        def refresh() -> None:
            began = time.monotonic()
            while not done.wait(_REFRESH_S):
                rows = sum(tallies[0].counted().values()) if tallies else 0
                rate = rows / (time.monotonic() - began)
                bar.update(task, description=f"{title}: {rows:,} rows read, {rate:,.0f} a second")

        thread = threading.Thread(target=refresh, daemon=True)
        thread.start()
        try:
            yield tallies.append
        finally:
            done.set()
            thread.join()
