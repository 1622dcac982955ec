"""`headwater share query` and `share boost`: questions on demand, and boosters for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.terminal.output import JsonOption, console, print_json, print_table

if TYPE_CHECKING:
    from headwater.algebra.order import Order
    from headwater.algebra.values import Row
    from headwater.sharing.answering import Way
    from headwater.sharing.contents import Contents

CatalogOption = Annotated[
    Path, typer.Option("--catalog", "-c", help="The folder of this node's objects.")
]


def query(
    name: Annotated[str, typer.Argument(help="A view's or a base relation's name.")],
    catalog: CatalogOption = Path("share"),
    at: Annotated[
        str | None, typer.Option("--at", help="A version vector of the past, RELATION=N,...")
    ] = None,
    fresh: Annotated[
        str | None, typer.Option("--fresh", help="How old the answer may be: 90s, 5m, 2h, 1d.")
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", help="Another node's folder, met if what is here does not do; repeatable."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the ways to an answer, and go none.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Show at most so many rows.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Read a view or a relation as this node knows it, now or at earlier versions.

    Of all ways to an answer the cheapest is taken: what is held, brought up to date, contents that
    somebody published, or its relations. What cannot be had as fresh as asked is told, with what
    can.
    """
    from headwater.sharing.freshness import parse_seconds
    from headwater.sharing.node import SharingNode
    from headwater.sharing.peers import Peer
    from headwater.sharing.versions import parse_versions
    from headwater.sharing.windows import shown_order

    sharing = SharingNode.open(catalog)
    versions = parse_versions(at) if at is not None else None
    fresh_s = parse_seconds(fresh) if fresh is not None else None
    peers = [Peer(folder) for folder in others or ()]
    if explain:
        _print_ways(sharing.ways(name, versions, fresh_s=fresh_s, peers=peers), as_json)
        return
    found = sharing.query(name, versions, fresh_s=fresh_s, peers=peers)
    view = sharing.catalog.views.get(name)
    rows = _in_order(found, shown_order(view) if view is not None else ())
    if as_json:
        _print_rows_json(found, rows)
    else:
        _print_rows(found, rows, limit)


def boost(
    views: Annotated[
        list[str] | None, typer.Argument(help="Views' names; by default those of the policy.")
    ] = None,
    catalog: CatalogOption = Path("share"),
    volunteer: Annotated[
        bool,
        typer.Option(
            "--volunteer", help="From now on, at every meeting, and of relations of others too."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make boosters that views could use and nobody has published, for whoever meets this node.

    Of views with groups these are grouping boosters, of those with first rows windows. A volunteer
    makes them for views of others, of all relations whose rows it has.
    """
    from headwater.sharing.node import SharingNode

    sharing = SharingNode.open(catalog)
    if volunteer:
        policy = sharing.policy
        chosen = tuple(views) if views else ("*",)
        boosters = replace(policy.boosters, views=chosen, volunteers=True)
        sharing.set_policy(replace(policy, boosters=boosters))
    made = sharing.boost(views or None)
    if as_json:
        for found in made:
            print_json({"booster": str(found), "rows": len(found.rows)})
        return
    for found in made:
        console().print(f"✓ {found}: {_plural(len(found.rows), 'row')}")
    if not made:
        console().print("✓ nothing new")


def _print_ways(ways: list[Way], as_json: bool) -> None:
    from headwater.cli.share import show_seconds, shown_node
    from headwater.sharing.shown_plans import shown

    for place, way in enumerate(ways):
        tree = shown(way.plan.scales, way.plan.change) if way.plan is not None else None
        if as_json:
            plan = tree.to_json() if tree is not None else None
            print_json({"view": way.view.name, "versions": dict(way.versions), "about": way.about,
                        "seconds": way.seconds, "chosen": place == 0, "plan": plan})  # fmt: skip
            continue
        mark = "→" if place == 0 else " "
        about = f"{way.about}: {way.view.name} at ({way.versions})"
        console().print(f"{mark} {about}, {show_seconds(way.seconds)}")
        for text, node in tree.lines() if tree is not None else ():
            console().print(f"    {shown_node(text, node)}")


def _in_order(found: Contents, order: Sequence[Order]) -> list[tuple[Row, int]]:
    """The rows with their counts, in the order of the view, which all columns complete."""
    from headwater.algebra.order import order_key

    rows = list(found.rows.sorted_items())
    if order:
        key = order_key(found.schema, order)
        rows.sort(key=lambda item: key(item[0]))
    return rows


def _print_rows_json(found: Contents, rows: Sequence[tuple[Row, int]]) -> None:
    from headwater.algebra.values import to_json

    print_json({"name": found.subject, "versions": dict(found.versions)})
    for row, count in rows:
        values = dict(zip(found.schema.names, map(to_json, row), strict=True))
        print_json({"count": count, "row": values})


def _print_rows(found: Contents, rows: Sequence[tuple[Row, int]], limit: int) -> None:
    every = (row for row, count in rows for row in repeat(row, count))
    total = _size(found.rows)
    print_table(
        "",
        list(found.schema.names),
        (["NULL" if v is None else str(v) for v in row] for row in islice(every, limit)),
    )
    more = f"; the first {limit} are shown" if total > limit else ""
    console().print(f"{total:,} rows of {found.subject} at ({found.versions}){more}")


def _size(rows: Any) -> int:
    return sum(count for _, count in rows.items())


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
