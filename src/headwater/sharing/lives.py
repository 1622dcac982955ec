"""The lives of what a warehouse publishes: which versions belong to one history of a source.

A version is the number of a source's transaction. A warehouse that was made anew or put back to an
earlier state counts again from where it has been, and gives the same numbers to other
transactions. So the node and the warehouse both keep the token of their last publication. Where
these differ, or the change log ends before what was published, one of the two is not what it was:
then a life begins, in which versions are the numbers and an offset, behind all that was
used. No updategram leads from one life to another, so nothing of two is ever combined, and peers go
on from contents as behind any hole.

Both put back to one moment, or copied to two places, look as if nothing had happened. Peers notice
that (see `publications`).

Choices: the offset is taken from the clock, in milliseconds. What was published last need not be
known any more, and nobody has a thousand transactions a second for good.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from headwater.errors import HeadwaterError
from headwater.sharing.catalog import Catalog
from headwater.sharing.entries import Publication
from headwater.sharing.owed import OwedBooster
from headwater.sharing.publications import Publications
from headwater.storage.location import Location
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.identity import owner_of
from headwater.warehouse.own_files import read_own
from headwater.warehouse.warehouse import Warehouse

_KEY = "lives"
_FOLDER = "published"


def source_of(relation: str) -> str:
    """Relations are named by their sources."""
    return relation.partition(".")[0]


def offset_of(description: Mapping[str, Any], source: str) -> int:
    """What a node adds to numbers of a source's transactions; a life's versions begin with it."""
    known = description.get(_KEY, {}).get("sources", {}).get(source)
    return 0 if known is None else int(known[1])


class Lives:
    """How one warehouse goes on in one node, while that is locked."""

    def __init__(self, catalog: Catalog, warehouse: Warehouse, *, anew: bool = False) -> None:
        self._catalog, self._warehouse, self._anew = catalog, warehouse, anew
        self._id = owner_of(warehouse.own)
        said = catalog.description.get(_KEY, {})
        self._sources: dict[str, list[Any]] = dict(said.get("sources", {}))
        self._warehouses: dict[str, Any] = dict(said.get("warehouses", {}))
        self._mine: Mapping[str, Any] = self._warehouses.get(self._id, {})
        self._theirs = (read_own(self._record) or {}).get("token")
        self._offsets: dict[str, int] = {}
        self._made: Publication | None = None
        self.begun: dict[str, str] = {}
        """The sources of which a life begins now, and why."""
        self._is_broken = not self._mended()

    def _mended(self) -> bool:
        """Whether the chain of publications is there, or could be made whole again."""
        last, known = self._mine.get("last"), self._catalog.known.publications
        mine = known.get(self._catalog.node, Publications())
        if last and not mine.has(Publication(**last)):
            if last["before"] and not mine.knows(last["number"] - 1):
                return False
            self._catalog.add(Publication(**last))
        missing = known[self._catalog.node].missing() if self._catalog.node in known else []
        told = [publication for _, publication in missing if publication is not None]
        if len(told) == len(missing):
            self._catalog.add_all(told)
            return True
        return False

    def offset(self, source: str, relations: Iterable[str], shown: int = 0) -> int:
        """For the relations of a source; a life begins if theirs is over.

        `shown` is up to which number a view has come, so that the change log has had it.
        """
        if source not in self._offsets:
            known = {*self._catalog.relations, *self._catalog.description.get("reached", ())}
            published = [name for name in relations if name in known]
            why = self._why_anew(source, published, shown) if published else ""
            if why:
                self.begun[source] = why
                self._offsets[source] = self._behind(source)
            else:
                self._offsets[source] = offset_of(self._catalog.description, source)
            self._sources[source] = [self._id, self._offsets[source]]
        return self._offsets[source]

    def _why_anew(self, source: str, relations: Collection[str], shown: int) -> str:
        if self._anew:
            return "that was asked for"
        if self._is_broken:
            return "files of what was published here are gone"
        known = self._sources.get(source)
        if known is not None and known[0] != self._id:
            return "another warehouse has published it here before"
        if known is not None and self._theirs is None:
            return "the warehouse was put back to a state before it was published here"
        if known is not None and self._theirs not in self._tokens:
            return "the warehouse or the node's folder was put back to an earlier state"
        reached = self._catalog.description.get("reached", {})
        if known is None and any(n in reached or self._catalog.updategrams(n) for n in relations):
            return "it is not known of which state of the warehouse what was published here is"
        offset = offset_of(self._catalog.description, source)
        number = max((reached[name] - offset for name in relations if name in reached), default=0)
        if number <= shown:
            return ""
        log = ChangeLog(self._warehouse.changes, source)
        if number >= log.first:
            log.scan()
            if log.end < number:
                return f"its change log ends with number {log.end}, and {number} was published"
        elif number > 0 and log.first == 1:
            return f"its change log is empty, and number {number} was published"
        return ""

    @property
    def _tokens(self) -> set[str]:
        """With which the warehouse may know the last publication; a killed process leaves two."""
        return {self._mine[name]["token"] for name in ("last", "next") if self._mine.get(name)}

    def _behind(self, source: str) -> int:
        names = [name for name in self._catalog.relations if source_of(name) == source]
        newest = max(map(self._catalog.newest, names), default=0)
        return max(int(time.time() * 1000), newest + 1)

    def is_current(self, owed: OwedBooster) -> bool:
        """Whether what is owed is of a life that goes on."""
        first, of = source_of(owed.changed), owed.source
        return owed.first >= self._least(first) and owed.version >= self._least(of)

    def _least(self, source: str) -> int:
        known = self._sources.get(source)
        return 0 if known is None else int(known[1])

    # What is published in them

    def publication(self) -> Publication:
        """The one that is being made; it is written down before anything of it is published."""
        waiting = self._mine.get("next")
        if waiting and not self.begun and self._goes_on(Publication(**waiting)):
            self._made = Publication(**waiting)
            return self._made
        token, newest = secrets.token_hex(16), self._newest
        node = self._catalog.node
        if self.begun:
            behind = newest.number + 1 if newest is not None else 0
            self._made = Publication(node, max(int(time.time() * 1000), behind), token, "")
        elif newest is None:
            self._made = Publication(node, 1, token, "")
        else:
            self._made = Publication(node, newest.number + 1, token, newest.token)
        description = self._catalog.description
        reached = description.get("reached", {})
        self._catalog.describe(
            reached={n: at for n, at in reached.items() if source_of(n) not in self.begun},
            **self._described(next=asdict(self._made)),
        )
        return self._made

    @property
    def _newest(self) -> Publication | None:
        found = self._catalog.known.publications.get(self._catalog.node)
        return found.newest if found else None

    def _has(self, publication: Publication) -> bool:
        found = self._catalog.known.publications.get(self._catalog.node)
        return found is not None and found.has(publication)

    def _goes_on(self, waiting: Publication) -> bool:
        newest = self._newest
        if newest is None:
            return not waiting.before
        return self._has(waiting) or waiting.before == newest.token

    def published(self) -> dict[str, Any]:
        """Everything is there: the warehouse knows it too. What the node is to say of itself."""
        if self._made is None:
            return {}
        said = {"node": self._catalog.node, "token": self._made.token, "number": self._made.number}
        try:
            self._record.parent.make_folder()
            self._record.replace(json.dumps(said).encode())
        except OSError as error:
            raise HeadwaterError(
                f"The file {self._record} of the warehouse cannot be written: "
                f"{error.strerror or error}.",
                "Who publishes a warehouse is who may write it; look at its folder and its disk.",
            ) from None
        return self._described(last=asdict(self._made))

    def _described(self, **mine: Any) -> dict[str, Any]:
        last = {"last": self._mine["last"]} if "next" in mine and self._mine.get("last") else {}
        warehouses = self._warehouses | {self._id: {**last, **mine}}
        return {_KEY: {"warehouses": warehouses, "sources": self._sources}}

    @property
    def _record(self) -> Location:
        """Where the warehouse knows how far it is published in this node."""
        key = self._catalog.description.get("key") or self._catalog.node
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        return self._warehouse.own / _FOLDER / f"{name}.json"
