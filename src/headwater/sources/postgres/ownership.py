"""Whose publication it is, and what was before it: written into the publication's comment.

A replication slot has no comment, so the publication's says which slot goes with it. It also
keeps the replica identity that each table had, so that it can be put back. A comment that
somebody else wrote stays in front.

Whoever may make publications may write such a comment, so it is believed only as far as it could
be ours, and only about tables that are in the publication.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.reading import parse_json
from headwater.sources.postgres.connect import Access, Connection

_TAG = "headwater: "
_READ = """
SELECT p.pubname, CASE WHEN pg_catalog.length(d.text) <= 1000000 THEN d.text END,
       pg_catalog.pg_has_role(p.pubowner, current_user, 'MEMBER')
FROM pg_catalog.pg_publication p,
     pg_catalog.obj_description(p.oid, 'pg_publication') AS d(text)
"""
_OWNER = re.compile(r"(?:[0-9a-f]{8})?")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_IDENTITY = re.compile(r"d|n|f|i:.+", re.DOTALL)
_OWNED = re.compile(r"headwater_\w*_([0-9a-f]{8})", re.ASCII)


def named_for(slot: str) -> str | None:
    """The warehouse that a slot is named for, if it has a name that setup gives."""
    match = _OWNED.fullmatch(slot)
    return None if match is None else match[1]


@dataclass(frozen=True)
class Note:
    """What Headwater has written about a publication."""

    owner: str
    slot: str
    made: bool
    """Whether the publication was made by setup, and so goes with it."""
    identities: Mapping[str, str] = field(default_factory=dict)
    """The replica identities before setup, by the tables' numbers: d, n, or i:index."""
    comment: str = ""
    """What somebody else has written."""

    @classmethod
    def parse(cls, text: str | None) -> Note | None:
        before, tag, written = (text or "").rpartition(_TAG)
        if not tag:
            return None
        try:
            found = parse_json(written)
            note = cls(
                found["owner"],
                found["slot"],
                bool(found["made"]),
                dict(found["identities"]),
                before.removesuffix("\n"),
            )
            return note if note._is_ours() else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _is_ours(self) -> bool:
        """Whether it could have been written by setup."""
        known = _OWNER.fullmatch(self.owner) and _SLOT.fullmatch(self.slot)
        return known is not None and all(
            oid.isascii() and oid.isdecimal() and int(oid) < 1 << 32 and _IDENTITY.fullmatch(kind)
            for oid, kind in self.identities.items()
        )

    def __str__(self) -> str:
        written = {
            "owner": self.owner,
            "slot": self.slot,
            "made": self.made,
            "identities": dict(self.identities),
        }
        before = f"{self.comment}\n" if self.comment else ""
        return before + _TAG + json.dumps(written, sort_keys=True)


@dataclass(frozen=True)
class Publication:
    """A publication, with what is written about it."""

    name: str
    note: Note | None
    comment: str
    is_trusted: bool = True
    """Whether its owner may act as our role anyway."""

    @property
    def slot(self) -> str | None:
        """The slot that goes with it: nobody else's is believed, unless it is named for them."""
        if self.note is None:
            return None
        owner = named_for(self.note.slot)
        is_believed = owner == self.note.owner if owner or not self.is_trusted else True
        return self.note.slot if is_believed else None


def publications(access: Access, connection: Connection) -> dict[str, Publication]:
    with access.errors("read the catalog"):
        rows = connection.execute(_READ.encode()).fetchall()
    return {
        name: Publication(name, Note.parse(text), text or "", is_trusted)
        for name, text, is_trusted in rows
    }
