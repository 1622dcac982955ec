"""Why a view no longer fits what it was loaded with, in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import normalised
from headwater.check.levels import Level
from headwater.errors import SqlError
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.definition import StoredDefinition, StoredRelation, other_layout


def describe_difference(before: StoredDefinition, now: StoredDefinition) -> str | None:
    """Why a view's table does not fit its definition any more, and what to do; or None."""
    view = now.name
    difference = (
        _members_differ(before, now)
        or _selects_differ(view, before.select, now.select)
        or _relations_differ(view, _by_name(before), _by_name(now))
        or _kept_differs(before, now)
        or _copies_differ(before, now)
        or (other_layout(view) if before.layout != now.layout else None)
        or _columns_differ(f"view {view}", before.schema, now.schema, "it")
    )
    return f"{difference} Run headwater reload {view}." if difference else None


def cannot_be_relied_on(latest: ViewCommit, level: Level) -> str | None:
    """Why a view cannot go on at a level: what it has shown so far may be wrong."""
    if level == Level.NONE or not latest.promises_nothing:
        return None
    return (
        f"View {latest.view} was kept WITH NO CONSISTENCY so far, and may be wrong. "
        f"Run headwater reload {latest.view}."
    )


def _members_differ(before: StoredDefinition, now: StoredDefinition) -> str | None:
    """Why a group is not what it was loaded as."""
    if bool(before.members) != bool(now.members):
        kinds = ("a view", "a group") if now.members else ("a group", "a view")
        return f"{now.name} was loaded as {kinds[0]}, and is {kinds[1]} now."
    old, new = ({m.name: m.select for m in each.members} for each in (before, now))
    for name, select in new.items():
        if name not in old:
            return f"View {name} is new in group {now.name}, and was not there when it was loaded."
        if difference := _selects_differ(name, old[name], select):
            return difference
    for name in old:
        if name not in new:
            return f"View {name} is no longer in group {now.name}, and was when it was loaded."
    return None


def _selects_differ(view: str, before: str, now: str) -> str | None:
    """The older one is normalised anew: another release may have written it differently."""
    try:
        if before == now or normalised(before) == now:
            return None
    except SqlError:
        return f"What view {view} was loaded with cannot be read."
    return f"The SELECT of view {view} has changed since it was loaded."


def _kept_differs(before: StoredDefinition, now: StoredDefinition) -> str | None:
    """Why what is stored for the algorithm is not what was stored when the view was loaded."""
    if before.kept == now.kept:
        return None
    words = {
        "": "nothing that is looked up by key",
        "rows": "rows that are looked up by key",
        "keys": "hidden keys",
    }
    then = _by_name(before)
    lost = [n for n, r in _by_name(now).items() if then[n].relation.key and not r.relation.key]
    if before.kept == "keys" and lost:
        return (
            f"{lost[0]} has no key any more, and view {now.name} kept it out of sight when it was "
            "loaded."
        )
    return (
        f"View {now.name} now stores {words[now.kept]}, for its algorithm, and stored "
        f"{words[before.kept]} when it was loaded."
    )


def _copies_differ(before: StoredDefinition, now: StoredDefinition) -> str | None:
    """Why the relations that are copied are not those that were when the view was loaded."""
    if set(before.copies) == set(now.copies):
        return None
    kept, was = (" and ".join(sorted(each.copies)) or "nothing" for each in (now, before))
    return (
        f"View {now.name} is now to have copies of {kept} beside it, and had copies of {was} when "
        "it was loaded."
    )


def _by_name(definition: StoredDefinition) -> dict[str, StoredRelation]:
    return {stored.relation.name: stored for stored in definition.relations}


def _relations_differ(
    view: str, before: dict[str, StoredRelation], now: dict[str, StoredRelation]
) -> str | None:
    if before.keys() != now.keys():
        return (
            f"View {view} now reads {', '.join(sorted(now))}, and read "
            f"{', '.join(sorted(before))} when it was loaded."
        )
    for name, stored in now.items():
        was, is_now = (_only(found[name].relation, stored.used) for found in (before, now))
        if found := _columns_differ(name, was.schema, is_now.schema, f"view {view}"):
            return found
        if was.key != is_now.key:
            return (
                f"The key of {name} is now {_listed(is_now.key)}, was {_listed(was.key)} "
                f"when view {view} was loaded."
            )
    return None


def _only(relation: Relation, used: Collection[str]) -> Relation:
    """A relation without what a view does not look at, in an order that does not matter."""
    return relation.only(sorted(name for name in relation.schema.names if name in used))


def _columns_differ(owner: str, before: Schema, now: Schema, loaded: str) -> str | None:
    if before == now:
        return None
    old, new = ({c.name: c.type for c in schema.columns} for schema in (before, now))
    when = f"when {loaded} was loaded."
    for column, kind in old.items():
        if column not in new:
            return f"Column {column} of {owner} is gone, and was there {when}"
        if new[column] != kind:
            return f"Column {column} of {owner} is now {new[column]}, was {kind} {when}"
    for column in new:
        if column not in old:
            return f"Column {column} of {owner} is new, and was not there {when}"
    return f"The columns of {owner} are not in the order that they had {when}"


def _listed(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if key else "none"
