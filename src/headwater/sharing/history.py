"""From one version to another: which updategrams lead there, forwards and backwards.

Versions are places and updategrams are ways between them, which can be gone in both directions.
A way is as short as possible. With it, contents of any version give those of any other that
can be reached (section 1.2 of the paper: queries about previous versions).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from headwater.sharing.catalog import Catalog, ListedUpdategram
from headwater.sharing.contents import Contents
from headwater.sharing.errors import MissingContentsError, VersionGapError
from headwater.sharing.updategram import Updategram, composed
from headwater.sharing.versions import Interval, Versions

FEW = 16
"""Up to so many versions are tried one after the other."""
Step = tuple[ListedUpdategram, bool]
"""An updategram, and whether it is gone ahead or back."""


def updategram_between(
    catalog: Catalog, subject: str, first: Versions, last: Versions, *, forwards: bool = False
) -> Updategram:
    """The composition of the updategrams that lead from one version to another; GapError if none.

    With `forwards`, only along versions that increase: what is touched then lies in between.
    """
    steps = _way(catalog.updategrams(subject), first, last, forwards)
    if steps is None:
        raise gap(catalog, subject, first, last)
    assert steps, "the versions differ"
    return _composed(catalog, steps)


def _composed(catalog: Catalog, steps: Iterable[Step]) -> Updategram:
    loaded = ((catalog.load_updategram(listed), ahead) for listed, ahead in steps)
    return composed([step if ahead else step.inverse() for step, ahead in loaded])


def relation_between(catalog: Catalog, relation: str, first: int, last: int) -> Updategram:
    """Of a base relation, along increasing versions, or the inverse of such a way."""
    low, high = Versions({relation: min(first, last)}), Versions({relation: max(first, last)})
    found = updategram_between(catalog, relation, low, high, forwards=True)
    return found if first < last else found.inverse()


def reachable(catalog: Catalog, relation: str, first: int) -> list[int]:
    """The versions to which updategrams lead forwards from one, the highest first."""
    leaving: dict[int, list[int]] = {}
    for edge in catalog.updategrams(relation):
        leaving.setdefault(edge.first[relation], []).append(edge.last[relation])
    seen = {first}
    waiting = deque(seen)
    while waiting:
        new = [there for there in leaving.get(waiting.popleft(), ()) if there not in seen]
        seen.update(new)
        waiting += new
    return sorted(seen - {first}, reverse=True)


def farthest(versions: Sequence[int], leads_to: Callable[[int], bool]) -> int | None:
    """The first of these versions to which there is a way; they come with the highest first.

    Of many, it is looked for by halves: what leads to a version as a rule leads to those before.
    """
    if len(versions) <= FEW:
        return next(filter(leads_to, versions), None)
    if leads_to(versions[0]):
        return versions[0]
    if not leads_to(versions[-1]):
        return None
    too_far, near = 0, len(versions) - 1
    while near - too_far > 1:
        middle = (near + too_far) // 2
        if leads_to(versions[middle]):
            near = middle
        else:
            too_far = middle
    return versions[near]


def _way(
    edges: Iterable[ListedUpdategram], first: Versions, last: Versions, forwards: bool
) -> list[Step] | None:
    """The fewest steps, each with whether it is gone ahead; of equal ways one with few rows."""
    leaving: dict[Versions, list[tuple[Versions, Step]]] = {}
    for edge in sorted(edges, key=lambda edge: (edge.rows, edge.address)):
        leaving.setdefault(edge.first, []).append((edge.last, (edge, True)))
        if not forwards:
            leaving.setdefault(edge.last, []).append((edge.first, (edge, False)))
    came: dict[Versions, tuple[Versions, Step] | None] = {first: None}
    waiting = deque([first])
    while waiting and last not in came:
        here = waiting.popleft()
        for there, step in leaving.get(here, ()):
            if there not in came:
                came[there] = here, step
                waiting.append(there)
    if last not in came:
        return None
    way: list[Step] = []
    while (before := came[last]) is not None:
        last, step = before
        way.append(step)
    return way[::-1]


def gap(catalog: Catalog, subject: str, first: Versions, last: Versions) -> VersionGapError:
    """Why there is no way, in words."""
    there = catalog.updategrams(subject)
    if not there:
        return VersionGapError(
            f"There is no updategram of {subject}.", "Exchange with a node that has some."
        )
    if subject not in first:  # a view
        return VersionGapError(
            f"No updategrams of {subject} lead from ({first}) to ({last}).",
            "Exchange with a node that has them.",
        )
    (name,) = first
    low, high = sorted((first[name], last[name]))
    reached = max([low, *(n for n in reachable(catalog, subject, low) if n <= high)])
    beyond = [Interval(name, u.first[name], u.last[name]) for u in there if u.last[name] > reached]
    overlapping = [i for i in beyond if i.first < reached]
    words = f"{subject} cannot be taken from version {low} to {high}: "
    if any(i.first == reached for i in beyond):
        words += f"no updategram ends at {high}."
    elif overlapping:
        words += (
            f"updategrams lead up to {reached}, and the next, {overlapping[0].first} to "
            f"{overlapping[0].last}, overlaps what is there instead of going on from it."
        )
    elif beyond:
        following = min(i.first for i in beyond)
        words += f"updategrams lead up to {reached}, and the next starts at {following}."
    else:
        words += f"updategrams lead up to {reached} only."
    return VersionGapError(
        words, "Exchange with a node that has what is missing; nothing was applied."
    )


def contents_at(
    catalog: Catalog, subject: str, versions: Versions, held: Contents | None = None
) -> Contents:
    """A relation or view at a version, from contents of any version and updategrams.

    `held` is what the node itself has; else the nearest published contents are taken.
    """
    if held is not None and held.versions == versions:
        return held
    starts = [listed.versions for listed in catalog.contents(subject)]
    starts += [held.versions] if held is not None else []
    if not starts:
        raise MissingContentsError(
            f"Nobody here has rows of {subject}, of any version.",
            "Exchange with a node that publishes its contents.",
        )
    edges = catalog.updategrams(subject)
    ways = [
        (start, way) for start in starts if (way := _way(edges, start, versions, False)) is not None
    ]
    if not ways:
        raise gap(catalog, subject, starts[-1], versions)
    start, way = min(ways, key=lambda item: sum(1 + step.rows for step, _ in item[1]))
    if held is not None and held.versions == start:
        found = held
    else:
        found = catalog.load_contents(
            next(listed for listed in catalog.contents(subject) if listed.versions == start)
        )
    return found.after(_composed(catalog, way)) if way else found
