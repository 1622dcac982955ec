"""Freshness: at which moment a version of a relation was the newest, as far as a node has heard.

Objects carry no times, since the same content has the same name everywhere. So a node keeps beside
them, in its public file, of each relation a version and a moment at which its owner had no newer
one: the owner says it when it publishes, and whoever meets a node takes over what it has heard. A
view is as fresh as the relation that was last heard of longest ago.

Choices: the folder of a node may be a copy that somebody made last week, so what it says counts
from when it was said, and not from when it is read. A node of one's own, which has its private key
with it, is no copy: its relations are heard of now. Moments are by the clocks of the nodes that say
them, and none lies in the future. They are not signed: a node believes of them what it is told.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import InputError
from headwater.sharing.catalog import Catalog
from headwater.sharing.errors import DamagedObjectError, NotFreshError
from headwater.sharing.limits import MOST_VERSION
from headwater.sharing.peers import Peer
from headwater.sharing.store import ObjectStore
from headwater.sharing.versions import Versions

_LONGEST_S = 36_500 * 86_400.0
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True)
class Heard:
    """A version of a relation than which its owner had no newer one at a moment."""

    version: int
    at: float
    """Seconds since 1970."""


HeardOf = Mapping[str, Heard]


def heard_from_json(json: Any, now: float | None = None) -> dict[str, Heard]:
    """What a public file says; what is no such statement says nothing."""
    now = time.time() if now is None else now
    found = {}
    for name, said in json.items() if isinstance(json, dict) else ():
        match said:
            case [int(version), int() | float() as at] if 0 <= version <= MOST_VERSION and at > 0:
                found[str(name)] = Heard(version, min(float(at), now))
    return found


def _to_json(heard: HeardOf) -> dict[str, list[float]]:
    return {name: [found.version, round(found.at, 3)] for name, found in sorted(heard.items())}


def latest(one: HeardOf, other: HeardOf) -> dict[str, Heard]:
    """Of each relation what was heard last."""
    return {
        name: max(
            (heard[name] for heard in (one, other) if name in heard),
            key=lambda found: (found.at, found.version),
        )
        for name in {**one, **other}
    }


def heard_of(catalog: Catalog) -> dict[str, Heard]:
    """What a node has heard, and what it knows of the relations that it owns and holds itself."""
    heard = heard_from_json(catalog.description.get("heard"))
    return latest(heard, _own(catalog)) if catalog.store.signer() is not None else heard


def _own(catalog: Catalog) -> dict[str, Heard]:
    now, held = time.time(), catalog.store.held()
    return {
        name: Heard(catalog.newest(name), now)
        for name, entry in catalog.relations.items()
        if entry.owner == catalog.node and name in held and _is_published(catalog, name)
    }


def _is_published(catalog: Catalog, name: str) -> bool:
    return bool(catalog.updategrams(name) or catalog.contents(name))


def note(catalog: Catalog, heard: HeardOf) -> None:
    """Keep what was heard, where it is later than what was heard before."""
    if heard:
        with catalog.store.locked():
            before = heard_from_json(catalog.description.get("heard"))
            catalog.describe(heard=_to_json(latest(before, heard)))


def say(catalog: Catalog) -> None:
    """An owner says which versions of its relations are the newest."""
    note(catalog, _own(catalog))


def note_published(catalog: Catalog, relations: Iterable[str], at: float) -> None:
    """A warehouse has published its relations up to what it had at a moment."""
    note(catalog, {name: Heard(catalog.newest(name), at) for name in relations})


def heard_from(peer: Peer, catalog: Catalog, met: float) -> dict[str, Heard]:
    """What a peer says, once its objects are here: all that it had when it was met.

    A node of one's own is no copy, so that its owner had no newer ones of its relations then.
    """
    said = heard_from_json(peer.heard)
    if not peer.is_own:
        return said
    try:
        held = ObjectStore(peer.files.folder).held()
    except DamagedObjectError:  # whoever gives it something tells
        return said
    own = {
        name: Heard(catalog.newest(name), met)
        for name, entry in catalog.relations.items()
        if entry.owner == peer.node and name in held and _is_published(catalog, name)
    }
    return latest(said, own)


# What is asked for


def fresh_versions(
    catalog: Catalog, name: str, relations: Iterable[str], heard: HeardOf, seconds: float
) -> Versions:
    """The lowest versions that were the newest so many seconds ago; NotFreshError if not known."""
    now = time.time()
    wanted = tuple(relations)
    late = {
        relation: now - heard[relation].at if relation in heard else None
        for relation in wanted
        if relation not in heard or now - heard[relation].at > seconds
    }
    if late:
        raise _not_fresh(catalog, name, heard, late, seconds)
    return Versions({relation: heard[relation].version for relation in wanted})


def _not_fresh(
    catalog: Catalog,
    subject: str,
    heard: HeardOf,
    late: Mapping[str, float | None],
    seconds: float,
) -> NotFreshError:
    said = [
        f"{name} was last heard of {show_seconds(ago)} ago, at version {heard[name].version}"
        if ago is not None
        else f"nobody has said when which version of {name} was the newest"
        for name, ago in late.items()
    ]
    owners = {catalog.relations[name].owner for name in late if name in catalog.relations}
    known = [ago for ago in late.values() if ago is not None]
    owner = " or ".join(sorted(owners)) or "the owner"
    if len(known) < len(late):
        hint = (
            "A warehouse says it when its runner publishes by itself, and with 'headwater share "
            f"publish --refresh' beside a runner: have {owner} do that, and meet it then. Or ask "
            "without a freshness."
        )
    else:
        hint = (
            f"Ask for {show_seconds(max(known) + 1)}, or meet {owner}, or a node that has; --from "
            "names folders to look in."
        )
    return NotFreshError(
        f"{subject} cannot be had as it was {show_seconds(seconds)} ago: {', and '.join(said)}.",
        hint,
    )


def parse_seconds(text: str) -> float:
    """Read `90s`, `5m`, `2h` or `1d`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])", text.strip())
    if found is None:
        raise InputError(f"'{text:.40}' is no time.", "Write for example 90s, 5m, 2h or 1d.")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > _LONGEST_S:
        raise InputError(
            f"'{text:.40}' is too long a time.",
            f"Up to {_LONGEST_S / _UNITS['d']:.0f}d can be asked for; leave it out if it may be of "
            "any age.",
        )
    return seconds


def show_seconds(seconds: float) -> str:
    """In the largest unit in which it is at least two, rounded up, so that it can be asked for."""
    for unit, length in reversed(_UNITS.items()):
        if seconds >= 2 * length:
            return f"{-(-seconds // length):.0f}{unit}"
    return f"{-(-seconds // 1):.0f}s"
