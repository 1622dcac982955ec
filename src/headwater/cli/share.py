"""`headwater share`: updategrams and boosters, published, exchanged and used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import asking
from headwater.cli.serving import (
    AuthoritiesOption,
    CertificateOption,
    KeyOption,
    TokenOption,
    coalesce,
    met,
    mirror,
    print_ways,
    serve,
)
from headwater.cli.sources import ProjectOption
from headwater.errors import HeadwaterError, InputError, one_or_several
from headwater.terminal.output import JsonOption, busy, console, print_json, print_table

if TYPE_CHECKING:
    from headwater.sharing.catalog import Listed
    from headwater.sharing.exchange import Copied, Said
    from headwater.sharing.node import SharingNode
    from headwater.sharing.peers import Peer
    from headwater.sharing.policies import Policy
    from headwater.sharing.publishing import PublishedObjects
    from headwater.sharing.shown_plans import ShownPlan

app = typer.Typer(
    help="Publish changes as updategrams, exchange them with other nodes, and follow them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
CatalogOption = Annotated[
    Path, typer.Option("--catalog", "-c", help="The folder of this node's objects.")
]
NodeOption = Annotated[
    str, typer.Option("--node", help="The name of this node, when its catalog is made.")
]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        help="When views follow, from now on: eager, lazy, hybrid:ROWS or periodic:SECONDS.",
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", help="A vector, RELATION=N,...; by default as far as possible."),
]
_REMEDY = "'headwater share publish' removes it and makes it again; else delete it and exchange."
ViewArgument = Annotated[str, typer.Argument(help="A view's name.")]
app.command("serve")(serve)
app.command("mirror")(mirror)
app.command("coalesce")(coalesce)
app.command("query")(asking.query)
app.command("boost")(asking.boost)


@app.command("publish")
def publish(
    views: Annotated[
        list[str] | None, typer.Argument(help="Views' names; all if none is given.")
    ] = None,
    project: ProjectOption = Path(),
    catalog: Annotated[
        Path | None,
        typer.Option(
            "--catalog",
            "-c",
            help="The folder of objects; by default as [share] says, PROJECT/share.",
        ),
    ] = None,
    node: NodeOption = "",
    system: Annotated[
        str, typer.Option("--system", help="The name of the system, when its catalog is made.")
    ] = "",
    boosters: Annotated[
        list[str] | None,
        typer.Option("--boosters", help="Publish boosters for this view from now on; * for all."),
    ] = None,
    each: Annotated[
        bool | None,
        typer.Option(
            "--each/--together",
            help="An updategram for each transaction, or one for each publication (the default).",
        ),
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Have the runner show first what sources have; peers know how new it is.",
        ),
    ] = False,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="Begin under versions that nobody has seen: where this node was put back to an "
            "earlier state, or copied, and others refuse what it publishes.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Publish what the project's views and relations did since the last time.

    A view that cannot be published, such as one whose SELECT has changed, is told, and so is a
    booster whose source is away: it is owed, and made the next time. The others are published, and
    the exit code is not 0.
    """
    from dataclasses import replace

    from headwater.pipeline.share import open_node, publish_project
    from headwater.pipeline.share_refresh import publish_refreshed
    from headwater.project.project import Project
    from headwater.sharing.policies import Boosters

    opened = Project.open(project)
    sharing = open_node(opened, catalog, node, system)
    policy = sharing.policy
    if boosters is not None:
        chosen = Boosters(tuple(boosters), policy.boosters.most_rows)
        policy = replace(policy, boosters=chosen)
    if each is not None:
        policy = replace(policy, granularity="transaction" if each else "run")
    if policy != sharing.policy:
        sharing.set_policy(policy)
    with busy(as_json) as report:
        publishing = publish_refreshed if refresh else publish_project
        done = publishing(opened, sharing, views or None, report, anew=anew)
    _print_published(sharing.name, done, as_json)
    if failures := [*done.refused.values(), *done.unmade.values()]:
        raise one_or_several(failures)


def _print_published(node: str, done: PublishedObjects, as_json: bool) -> None:
    if as_json:
        vectors = {name: dict(vector) for name, vector in done.vectors.items()}
        refused = {name: str(error) for name, error in done.refused.items()}
        told = {"anew": done.anew, "damaged": done.damaged, "owed": list(map(str, done.owed))}
        about = {"node": node, "published": done.counts, "views": vectors, "refused": refused}
        print_json(about | told)
        return
    shown = counted(done.counts) or "nothing new"
    console().print(f"✓ {node}: {shown}")
    for name, vector in done.vectors.items():
        console().print(f"  {name} is published up to ({vector})")
    for name, why in done.anew.items():
        console().print(f"○ {name} begins anew, since {why}")
    for why in done.damaged.values():
        console().print(f"○ removed: {why}")
    for owed in done.owed:
        console().print(f"○ owed: {owed}")
    for name in done.refused:
        console().print(f"✗ {name} is not published")


@app.command("list")
def list_command(
    catalog: CatalogOption = Path("share"),
    kind: Annotated[
        str, typer.Option("--kind", help="Only one kind: node, relation, view, contents, ...")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """What this node knows: relations, views and their versions, updategrams, boosters."""
    from dataclasses import asdict

    from headwater.sharing.encoding import KINDS
    from headwater.sharing.node import SharingNode
    from headwater.sharing.owed import read_owed

    if kind and kind not in KINDS:
        raise InputError(f"There is no kind '{kind}'.", f"There are {', '.join(KINDS)}.")
    sharing = SharingNode.open(catalog)
    chosen = [listed for listed in sharing.catalog if kind in ("", listed.kind)]
    if as_json:
        for listed in chosen:
            print_json(_listed_json(listed))
        if not kind:
            for name, held in sharing.holdings().items():
                size = sum(count for _, count in held.rows.items())
                print_json({"kind": "held", "subject": name, "versions": dict(held.versions),
                            "rows": size})  # fmt: skip
            for address, damage in sharing.catalog.damaged.items():
                print_json({"kind": "damaged", "address": address, "why": damage.message})
            for owed in read_owed(sharing.catalog.store):
                print_json({"kind": "owed", **asdict(owed)})
        return
    console().print(f"node {sharing.name} of the system {sharing.catalog.system}")
    if not kind:
        _print_relations(sharing)
        _print_held(sharing)
        _print_owed(sharing)
        for told in sharing.catalog.damaged.values():
            console().print(f"✗ {told.message} {_REMEDY}")
    print_table("Objects", ["object", "kind", "by", "rows", "about"], map(_line, chosen))


def _listed_json(listed: Listed) -> dict[str, Any]:
    hidden = ("columns", "format", "relations")
    shown = {key: value for key, value in listed.manifest.items() if key not in hidden}
    if listed.kind in ("booster", "grouping", "window"):
        shown["view"] = shown["view"]["name"]
    return {"address": listed.address, "maker": listed.maker, **shown}


def _print_relations(sharing: SharingNode) -> None:
    catalog = sharing.catalog
    print_table(
        "Relations",
        ["relation", "owner", "updategrams", "newest version"],
        (
            [
                name,
                entry.owner,
                f"{len(catalog.updategrams(name)):,}",
                str(catalog.newest(name)),
            ]
            for name, entry in sorted(catalog.relations.items())
        ),
    )


def _print_held(sharing: SharingNode) -> None:
    print_table(
        "Held here",
        ["name", "rows", "versions"],
        (
            [name, f"{sum(n for _, n in held.rows.items()):,}", str(held.versions)]
            for name, held in sharing.holdings().items()
        ),
    )


def _print_owed(sharing: SharingNode) -> None:
    from headwater.sharing.owed import read_owed

    owed = read_owed(sharing.catalog.store)
    if owed:
        print_table(
            "Owed: boosters that are not made yet",
            ["of", "for", "in view", "what kept it back"],
            ([f"{o.of} {o.version}", str(o.interval), o.view, o.why] for o in owed),
        )


def _line(listed: Listed) -> list[str]:
    return [listed.address[:12], listed.kind, listed.maker, f"{listed.rows:,}", _about(listed)]


def _about(listed: Listed) -> str:
    from headwater.sharing.catalog import (
        ListedBooster,
        ListedContents,
        ListedStored,
        ListedUpdategram,
    )

    match listed:
        case ListedUpdategram(subject=subject, first=first, last=last):
            return f"{subject} from ({first}) to ({last})"
        case ListedContents(subject=subject, versions=versions):
            return f"{subject} at ({versions})"
        case ListedBooster(view=view, interval=interval, versions=versions):
            return f"{versions}, for {interval} in view {view.name}"
        case ListedStored(view=view, first=first, last=last):
            until = f" to ({last})" if last != first else ""
            return f"{view.name} at ({first}){until}"
    if listed.kind == "publication":
        return f"{listed.maker}'s publication {listed.manifest['number']}"
    name = listed.manifest["name"]
    return f"{name}: {listed.manifest['sql']}" if listed.kind == "view" else str(name)


@app.command("exchange")
def exchange(
    other: Annotated[
        str,
        typer.Argument(
            help="The other node: its folder, http(s)://HOST:PORT or s3://BUCKET/FOLDER."
        ),
    ],
    catalog: CatalogOption = Path("share"),
    node: NodeOption = "",
    policy: PolicyOption = "",
    fetch_only: Annotated[
        bool, typer.Option("--fetch-only", help="Take, and give nothing.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Take the cheapest of what this view needs, and bring it there; may be repeated.",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out objects that do not fit, and go on.")
    ] = False,
    trust: Annotated[
        list[Path] | None,
        typer.Option(
            "--trust",
            help="Take a node's key from a copy of its node.json; new nodes from now on only so.",
        ),
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Take objects of nodes that have no key, too.")
    ] = False,
    most_megabytes: Annotated[
        int, typer.Option("--most-megabytes", min=1, help="Take at most so much at once.")
    ] = 64,
    most_values: Annotated[
        int, typer.Option("--most-values", min=1, help="Take at most so many values at once.")
    ] = 2_000_000,
    token_file: TokenOption = None,
    authorities: AuthoritiesOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Meet another node: take what is lacking, once everything has been found to fit.

    A node of one's own takes what it lacks, too; in a folder of somebody else nothing is changed,
    and nothing is given over a network.
    """
    from headwater.sharing.following import catch_up
    from headwater.sharing.limits import Limits
    from headwater.sharing.peers import Peer

    limits = Limits(bytes=most_megabytes << 20, values=most_values)
    with met(other, token_file, authorities, certificate, key) as there:
        here = _opened(catalog, node, there)
        for file in trust or ():
            here.catalog.trust(file)
        if policy:
            here.set_policy(_policy(policy, here.policy))
        if only:
            done = catch_up(here, there, only, skip_bad=skip_bad, unsigned=unsigned, limits=limits)
            _print_copied(done.copied, as_json)
            here.follow("update")
            print_ways(here, done, as_json)
        else:
            taken = here.take(there, skip_bad=skip_bad, unsigned=unsigned, limits=limits)
            _print_copied(taken, as_json)
    if fetch_only or not isinstance(there, Peer):
        return
    if there.is_own:
        _print_copied(_given(here, there, skip_bad), as_json)
    elif not as_json:
        console().print(
            f"  {there.node} is not this user's own node: it takes what it lacks itself"
        )


def _given(here: SharingNode, there: Peer, skip_bad: bool) -> Copied:
    """Let another node of one's own take what it lacks."""
    from headwater.sharing.exchange import Copied
    from headwater.sharing.node import SharingNode

    try:
        return SharingNode.open(there.files.folder).take(here.as_peer(), skip_bad=skip_bad)
    except HeadwaterError as error:
        if not skip_bad:
            raise
        return Copied(here.name, there.node, {}, {there.node: error})


def _opened(catalog: Path, name: str, other: Said) -> SharingNode:
    from headwater.sharing.errors import ForeignObjectError
    from headwater.sharing.node import SharingNode

    if (catalog / "node.json").exists():
        opened = SharingNode.open(catalog)
        opened.require_named(name)
        return opened
    if not name:
        raise InputError(
            f"There is no node in {catalog} yet.", "Name it with --node, and it is made."
        )
    if name == other.node:
        raise ForeignObjectError(
            f"Both catalogs would be those of a node {name}.", "Every node has its own name."
        )
    return SharingNode.create(catalog, name, other.system)


def _policy(text: str, before: Policy) -> Policy:
    from dataclasses import replace

    from headwater.sharing.policies import propagation_of

    kind, colon, value = text.partition(":")
    names = {"hybrid": ("most_rows", int), "periodic": ("every_s", float)}
    try:
        needed = names.get(kind)
        values = {needed[0]: needed[1](value)} if needed else {}
        if colon and not needed:
            raise ValueError(text)
        propagation = propagation_of(kind, **values)
    except (InputError, OverflowError, ValueError) as error:
        why = error.message if isinstance(error, InputError) else "cannot be read."
        raise InputError(
            f"--policy {text}: {why}",
            "Write eager, lazy, hybrid:ROWS with a whole number from 0 on, or periodic:SECONDS "
            "with a number above 0.",
        ) from None
    return replace(before, propagation=propagation)


def _print_copied(copied: Copied, as_json: bool) -> None:
    refused = {address: str(error) for address, error in copied.refused.items()}
    if as_json:
        about = {"from": copied.source, "to": copied.target}
        print_json({**about, "taken": copied.taken, "refused": refused})
        return
    taken = counted(copied.taken) or "nothing new"
    console().print(f"✓ {copied.source} to {copied.target}: {taken}")
    for address, reason in refused.items():
        console().print(f"✗ {address[:12]}: {reason}")


@app.command("advance")
def advance(
    view: ViewArgument,
    catalog: CatalogOption = Path("share"),
    to: ToOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a view that this node holds to other versions by updategrams and boosters."""
    from headwater.sharing.node import SharingNode
    from headwater.sharing.versions import parse_versions

    sharing = SharingNode.open(catalog)
    sharing.hold(view)
    done = sharing.advance(view, parse_versions(to) if to is not None else None)
    if as_json:
        print_json(
            {
                "view": view,
                "first": dict(done.first),
                "last": dict(done.last),
                "inserted": _size(done.updategram and done.updategram.inserted),
                "deleted": _size(done.updategram and done.updategram.deleted),
                "boosters": list(done.boosters),
                "copies": list(done.copies),
            }
        )
        return
    if done.updategram is None:
        console().print(f"✓ {view} stays at ({done.last})")
        return
    used = f"{len(done.boosters)} boosters" if done.boosters else "no booster"
    asked = f", copies of {', '.join(done.copies)}" if done.copies else ""
    net = done.updategram.net
    console().print(
        f"✓ {view} is at ({done.last}), was at ({done.first}): "
        f"+{_size(net.positive())} -{_size(-net.negative())} rows, {used}{asked}"
    )


def _size(rows: Any) -> int:
    return sum(count for _, count in rows.items()) if rows is not None else 0


@app.command("plan")
def plan_command(
    view: ViewArgument,
    catalog: CatalogOption = Path("share"),
    to: ToOption = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .svg or .png file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how `advance` would bring a view there: the plan, its rules and what it costs."""
    from headwater.sharing.node import SharingNode
    from headwater.sharing.shown_plans import shown
    from headwater.sharing.versions import parse_versions

    sharing = SharingNode.open(catalog)
    here = sharing.hold(view)
    plan = sharing.plan(view, parse_versions(to) if to is not None else None)
    if plan is None:
        if as_json:
            print_json({"view": view, "first": dict(here.versions), "last": dict(here.versions),
                        "plan": None})  # fmt: skip
        else:
            console().print(f"{view} stays at ({here.versions}): there is nothing to plan")
        return
    tree = shown(plan.scales, plan.change)
    if plot is not None:
        from headwater.bench.plots import tree_picture

        title = f"{view} from ({plan.first}) to ({plan.last})"
        tree_picture(plot, title, _picture(tree))
    if as_json:
        ends = {"first": dict(plan.first), "last": dict(plan.last)}
        print_json({"view": view, **ends, "seconds": plan.seconds, "plan": tree.to_json()})
        return
    console().print(f"{view} from ({plan.first}) to ({plan.last})")
    for text, node in tree.lines():
        console().print(shown_node(text, node))


def shown_node(text: str, node: ShownPlan) -> str:
    """A line of a plan, with what is estimated of it."""
    place = f", {node.place}" if node.place else ""
    return f"{text} ({_rows(node.rows)}, {show_seconds(node.seconds)}{place})"


def _picture(tree: ShownPlan) -> tuple[str, Any]:
    """What a node's box says, and what is below it."""
    numbers = f"{_rows(tree.rows)}, {show_seconds(tree.seconds)}"
    said = [tree.rule or tree.place, *wrap(tree.about, 26), numbers]
    return "\n".join(said), [_picture(part) for part in tree.below]


def _rows(rows: float) -> str:
    return "1 row" if round(rows) == 1 else f"{round(rows):,} rows"


def show_seconds(seconds: float) -> str:
    """Of an estimate: three digits are more than enough."""
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def counted(counts: Any) -> str:
    items: Iterable[tuple[str, int]] = counts.items()
    return ", ".join(_plural(kind, number) for kind, number in items if number)


def _plural(kind: str, number: int) -> str:
    kind = "grouping booster" if kind == "grouping" else kind
    if number == 1 or kind == "contents":
        return f"{number} {kind}"
    return f"{number:,} {kind}s"
