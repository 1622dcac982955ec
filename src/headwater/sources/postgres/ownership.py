"""Whose publication it is, and what was before it: written into the publication's comment.

A replication slot has no comment, so the publication's says which slot goes with it. It also
keeps the replica identity that each table had, so that it can be put back. A comment that
somebody else wrote stays in front.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.sources.postgres.connect import Access, Connection

_TAG = "headwater: "
_READ = """
SELECT p.pubname, pg_catalog.obj_description(p.oid, 'pg_publication')
FROM pg_catalog.pg_publication p
"""


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
            found = json.loads(written)
            return cls(
                str(found["owner"]),
                str(found["slot"]),
                bool(found["made"]),
                {str(oid): str(kind) for oid, kind in found["identities"].items()},
                before.removesuffix("\n"),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

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


def publications(access: Access, connection: Connection) -> dict[str, Publication]:
    with access.errors("read the catalog"):
        rows = connection.execute(_READ.encode()).fetchall()
    return {name: Publication(name, Note.parse(text), text or "") for name, text in rows}
