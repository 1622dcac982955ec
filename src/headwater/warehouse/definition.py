"""What a view was loaded with: kept beside its table, to read it by and to see when it has changed.

The level, the algorithm and how often a view is refreshed and published are not in it: these may
change at any time. So may the columns of a relation that the view does not use.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headwater.algebra.copies import Copy
from headwater.algebra.expressions import show_expression
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import normalised, parse_group, parse_view
from headwater.algebra.values import Json, text_of
from headwater.algebra.views import View
from headwater.errors import EngineError, SqlError


def unreadable(view: str) -> EngineError:
    return EngineError(
        f"What view {view} was loaded with cannot be read.", f"Run headwater reload {view}."
    )


def other_layout(view: str) -> str:
    return f"What is stored for view {view} has another form in this release than it was loaded in."


_FORM = 2
"""Of stored parts: 2 since each row stands once, with its count, and sums for their groups."""


def layout_of(view: View) -> str:
    """What tells how a view with a top is stored: which parts, and what their columns mean.

    Empty for a view without one: what is stored of it follows from its SELECT. A group has several.
    """
    if view.top is None and not view.members:
        return ""
    parts = [
        [list(map(show_expression, (*join.condition, *join.outputs))), join.schema.to_json()]
        for join in view.joins
    ]
    sums = repr(view.compact.parts) if view.compact is not None else ""
    copies = view.copy_parts.copies if view.copy_parts is not None else ()
    told = (_FORM, parts, sums, *map(_told_of, copies))
    return hashlib.sha256(repr(told).encode()).hexdigest()


def _told_of(copy: Copy) -> tuple[object, ...]:
    condition = "" if copy.condition is None else show_expression(copy.condition)
    return copy.relation.name, copy.number, condition, *sorted(copy.stored.items())


@dataclass(frozen=True)
class StoredRelation:
    """A relation as its source described it, and the columns of it that the view uses."""

    relation: Relation
    used: tuple[str, ...]

    def to_json(self) -> Json:
        columns = self.relation.schema.columns
        texts: dict[str, Json] = {c.name: c.text_of for c in columns if c.text_of}
        printed: dict[str, Json] = {c.name: c.printed for c in columns if c.printed}
        return {
            "columns": self.relation.schema.to_json(),
            "key": list(self.relation.key),
            "used": list(self.used),
            **({"texts": texts} if texts else {}),
            **({"printed": printed} if printed else {}),
        }

    @classmethod
    def from_json(cls, name: str, found: Any) -> StoredRelation:
        schema = Schema.from_json(found["columns"])
        texts = {text_of(n): text_of(of) for n, of in found.get("texts", {}).items()}
        printed = {text_of(n): text_of(kind) for n, kind in found.get("printed", {}).items()}
        schema = Schema(
            tuple(
                replace(c, text_of=texts.get(c.name, ""), printed=printed.get(c.name, ""))
                for c in schema.columns
            )
        )
        key = tuple(map(text_of, found["key"]))
        relation = Relation(name, name.partition(".")[0], schema, key)
        return cls(relation, tuple(map(text_of, found.get("used", schema.names))))


@dataclass(frozen=True)
class StoredMember:
    """A view of a group: its SELECT in its normal form, and the relations that it reads."""

    name: str
    select: str
    relations: tuple[str, ...]

    def to_json(self) -> Json:
        return {"view": self.name, "select": self.select, "relations": list(self.relations)}

    @classmethod
    def from_json(cls, found: Any) -> StoredMember:
        relations = tuple(map(text_of, found["relations"]))
        return cls(text_of(found["view"]), text_of(found["select"]), relations)


@dataclass(frozen=True)
class StoredDefinition:
    """A view by its name, its SELECT in its normal form, its columns and its relations.

    A group has the SELECTs of its members in place of one.
    """

    name: str
    select: str
    schema: Schema
    """The columns that are stored."""
    relations: tuple[StoredRelation, ...] = ()
    layout: str = ""
    """Of a view with a top, what its stored columns mean (see `layout_of`)."""
    members: tuple[StoredMember, ...] = ()
    kept: str = ""
    """What is stored beyond what the SELECT needs (see `View.kept`)."""
    copies: tuple[str, ...] = ()
    """The relations of which copies are stored beside the view's rows."""

    @classmethod
    def of(cls, view: View) -> StoredDefinition:
        used = view.used_columns
        relations = tuple(StoredRelation(r, tuple(used[r.name])) for r in view.relations)
        select = "" if view.members else normalised(view.sql)
        members = tuple(
            StoredMember(member.name, normalised(member.sql), member.relations)
            for member in view.members
        )
        return cls(
            view.name,
            select,
            view.stored_schema,
            relations,
            layout_of(view),
            members,
            view.kept,
            view.copies,
        )

    @property
    def selects(self) -> tuple[str, ...]:
        """The SELECT, or those of all members."""
        return tuple(member.select for member in self.members) or (self.select,)

    @cached_property
    def view(self) -> View:
        """The view over its relations as they were then; EngineError if it is damaged."""
        try:
            view = self._group() if self.members else self._view()
            if self.kept:
                view = view.with_keys() if self.kept == "keys" else view.with_rows()
            view = view.with_copies(self.copies)
        except (AttributeError, KeyError, SqlError, TypeError, ValueError):
            raise unreadable(self.name) from None
        if layout_of(view) != self.layout:
            raise EngineError(other_layout(self.name), f"Run headwater reload {self.name}.")
        return view

    @property
    def error_column(self) -> str | None:
        """The stored column that tells of errors, where all others are shown."""
        return self.view.error_column if self.layout else None

    def _view(self) -> View:
        return parse_view(self.select, [stored.relation for stored in self.relations], self.name)

    def _group(self) -> View:
        known = {stored.relation.name: stored.relation for stored in self.relations}
        listed = [
            (member.name, member.select, [known[name] for name in member.relations])
            for member in self.members
        ]
        return parse_group(listed, self.name)

    def to_json(self) -> dict[str, Json]:
        told: dict[str, Json] = {"layout": self.layout} if self.layout else {}
        if self.kept:
            told["kept"] = self.kept
        if self.copies:
            told["copies"] = list(self.copies)
        if self.members:
            told["members"] = [member.to_json() for member in self.members]
        else:
            told["select"] = self.select
        return told | {
            "view": self.name,
            "columns": self.schema.to_json(),
            "relations": {stored.relation.name: stored.to_json() for stored in self.relations},
        }

    @classmethod
    def from_json(cls, found: Any) -> StoredDefinition:
        """What `to_json` gave; ValueError if it is something else."""
        try:
            if found.get("kept", "") not in ("", "rows", "keys"):
                raise ValueError("keeps what this release does not know")
            members = tuple(map(StoredMember.from_json, found.get("members", ())))
            return cls(
                text_of(found["view"]),
                "" if members else text_of(found["select"]),
                Schema.from_json(found["columns"]),
                tuple(StoredRelation.from_json(*item) for item in found["relations"].items()),
                text_of(found.get("layout", "")),
                members,
                text_of(found.get("kept", "")),
                tuple(map(text_of, found.get("copies", ()))),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("is not what a view was loaded with") from error
