"""Whether an object may enter a catalog: who made it, what it is about, and that it fits the rest.

That its bytes are whole and canonical has been seen before (`store`, `encoding`). Updates of base
relations originate in one place, so their updategrams are the owner's only; boosters, views and
their updategrams may come from every node of the system. That the maker is who it says is seen
before, by its signature (`trust`); a node that lies about what is its own to say is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import quote

from headwater.algebra.expressions import ColumnRef, Literal, walk
from headwater.algebra.rows import Rows, show_row
from headwater.algebra.schema import Schema
from headwater.algebra.views import Join
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.effort import require_little_work
from headwater.sharing.entries import Item, NodeEntry, Publication, RelationEntry, ViewEntry
from headwater.sharing.errors import ConflictError, ForeignObjectError, LackingError
from headwater.sharing.grouping import GroupingBooster
from headwater.sharing.limits import (
    MOST_CHECK_SECONDS,
    MOST_COMPARED,
    MOST_COUNT,
    MOST_NAME_BYTES,
)
from headwater.sharing.publications import Publications
from headwater.sharing.shared_views import SharedView
from headwater.sharing.store import Heads
from headwater.sharing.trust import changed_key
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.sharing.windows import Window, first_of

Contradicted = Callable[[Updategram], str]
"""Which updategram at hand of its subject between its versions does something else, in words."""


@dataclass
class Known:
    """What a catalog knows, against which a new object is judged."""

    nodes: dict[str, str] = field(default_factory=dict)
    """By name, with the key that is trusted; none if the node never had one."""
    relations: dict[str, RelationEntry] = field(default_factory=dict)
    views: dict[str, SharedView] = field(default_factory=dict)

    publications: dict[str, Publications] = field(default_factory=dict)
    """Those of each node that publishes a warehouse."""

    def copy(self) -> Known:
        publications = {node: found.copy() for node, found in self.publications.items()}
        return Known(dict(self.nodes), dict(self.relations), dict(self.views), publications)

    def heads_of(self, item: Item) -> Heads:
        """The newest publications of the nodes whose relations an object is about."""
        owners = {self.relations[r].owner for r in _relations_of(item) if r in self.relations}
        heads = ((node, self.publications[node].newest) for node in sorted(owners)
                 if node in self.publications)  # fmt: skip
        return tuple((node, head.number, head.token) for node, head in heads)

    def require_before(self, item: Publication) -> None:
        """Whether a publication goes on from one that is known here, or begins a life."""
        self.publications.get(item.node, Publications()).require_before(item)

    def require_heads(self, heads: Heads) -> None:
        """Whether who made an object knew of these nodes what is known here."""
        for node, number, token in heads:
            self.publications.get(node, Publications()).require(node, number, token)

    def admit(self, item: Item, maker: str, contradicted: Contradicted = lambda item: "") -> None:
        """Take note of an object, or raise ForeignObjectError or ConflictError."""
        if isinstance(item, NodeEntry):
            if item.name != maker:
                raise ForeignObjectError(
                    f"Node {maker} says who {item.name} is.", "Every node speaks for itself."
                )
            _require_names("node", item.name)
            if item.key and self.nodes.get(item.name) not in (None, "", item.key):
                raise changed_key(item.name)
            self.nodes[item.name] = item.key or self.nodes.get(item.name, "")
            return
        if maker not in self.nodes:
            raise LackingError(
                f"An object was made by {maker}, which is no node that is known here.",
                "Exchange with a node that knows it, or with itself.",
            )
        match item:
            case Publication():
                if item.node != maker:
                    raise ForeignObjectError(
                        f"Node {maker} says what {item.node} has published.",
                        "Every node speaks for itself.",
                    )
                self.publications.setdefault(maker, Publications()).admit(item)
            case RelationEntry():
                self._admit_relation(item, maker)
            case ViewEntry(definition):
                self._admit_view(definition)
            case Contents():
                self._check_contents(item, maker)
            case Updategram():
                self._check_updategram(item, maker, contradicted)
            case Booster():
                self._check_booster(item)
            case GroupingBooster() | Window():
                self._check_stored(item)

    # What there is

    def _admit_relation(self, entry: RelationEntry, maker: str) -> None:
        name = entry.relation.name
        _require_names("relation", name)
        if entry.owner != maker:
            raise ForeignObjectError(
                f"Node {maker} describes {name}, which belongs to {entry.owner}.",
                "A relation is described by its owner.",
            )
        if self.relations.setdefault(name, entry) != entry:
            known = self.relations[name]
            raise ConflictError(
                f"Relation {name} of {entry.owner} is not the one that is known here, of "
                f"{known.owner}: their descriptions differ.",
                "Relations have one owner and keep their columns; name a new one differently.",
            )
        if name in self.views:
            raise ConflictError(f"{name} is a view and a relation.", "Rename one of them.")

    def _admit_view(self, definition: SharedView) -> None:
        self._check_relations(definition)
        if self.views.setdefault(definition.name, definition) != definition:
            raise ConflictError(
                f"View {definition.name} is defined in two ways.",
                "What was published under a name stays: where its SELECT was changed, give the "
                "view another name, or publish into a new catalog. Else rename one of them.",
            )
        if definition.name in self.relations:
            raise ConflictError(
                f"{definition.name} is a view and a relation.", "Rename one of them."
            )

    def _check_relations(self, definition: SharedView) -> None:
        _require_names("view", definition.name)
        if (compared := _compared(definition)) > MOST_COMPARED:
            raise ForeignObjectError(
                f"View {definition.name} compares {compared} columns and constants.",
                f"Views that compare up to {MOST_COMPARED} can be shared.",
            )
        for relation in definition.known:
            known = self.relations.get(relation.name)
            if known is None:
                raise LackingError(
                    f"View {definition.name} reads {relation.name}, which is not known here.",
                    "Exchange with the owner of the relation, or with a node that knows it.",
                )
            if known.relation != relation:
                raise ConflictError(
                    f"View {definition.name} reads {relation.name} with other columns or another "
                    "key than it has here.",
                    "Define the view over the relation as its owner publishes it.",
                )

    # What it holds and how it changes

    def _shape(self, subject: str, versions: Versions, maker: str) -> Schema:
        """The columns of a relation or view; refuses versions of other relations."""
        if subject in self.relations:
            entry, needed = self.relations[subject], {subject}
            if entry.owner != maker:
                raise ForeignObjectError(
                    f"Node {maker} publishes {subject}, which belongs to {entry.owner}.",
                    "Rows and changes of a base relation come from its owner only.",
                )
            schema = entry.relation.schema
        elif subject in self.views:
            needed = set(self.views[subject].relations)
            schema = self.views[subject].schema
        else:
            raise ForeignObjectError(
                f"There is no relation or view {subject} here.",
                "Exchange with a node that knows it first.",
            )
        if set(versions) != needed:
            raise ForeignObjectError(
                f"An object of {subject} has versions of {', '.join(versions) or 'nothing'}.",
                f"It needs versions of {', '.join(sorted(needed))}.",
            )
        return schema

    def _check_contents(self, item: Contents, maker: str) -> None:
        schema = self._shape(item.subject, item.versions, maker)
        _require_columns(item.subject, item.schema, schema)
        _require_counts(item.subject, item.rows)

    def _check_updategram(self, item: Updategram, maker: str, contradicted: Contradicted) -> None:
        schema = self._shape(item.subject, item.first, maker)
        _require_columns(item.subject, item.schema, schema)
        _require_counts(item.subject, item.inserted, item.deleted)
        if item.first == item.last or not item.first.precedes(item.last):
            raise ForeignObjectError(
                f"An updategram of {item.subject} goes from ({item.first}) to ({item.last}).",
                "What is published leads from a version to a later one.",
            )
        if which := contradicted(item):
            raise ConflictError(
                f"Two updategrams of {item.subject} from ({item.first}) to ({item.last}) say "
                f"different things: {which}.",
                "One of them is wrong: find out which, and delete its file at every node that has "
                "it. Where a view has advanced by it already, delete the view's files in 'held' "
                "too: it is made anew from what is published, when it is next asked for.",
            )

    def _check_stored(self, item: GroupingBooster | Window) -> None:
        view, rows = item.view, item.rows
        self._check_relations(view)
        if isinstance(item, Window):
            ends, schema = (item.versions, item.versions), first_of(view).schema
            _require_counts(view.name, rows)
        else:
            ends, schema = (item.first, item.last), view.view.stored_schema
            _require_counts(view.name, rows.positive(), -rows.negative())
        if view.view.top is None:
            raise ForeignObjectError(
                f"View {view.name} has no groups and no first rows.",
                "It is shared by contents, updategrams and boosters.",
            )
        for versions in ends:
            if set(versions) != set(view.relations):
                raise ForeignObjectError(
                    f"What is stored of view {view.name} has versions of "
                    f"{', '.join(versions) or 'nothing'}.",
                    f"It needs versions of {', '.join(sorted(view.relations))}.",
                )
        if not ends[0].precedes(ends[1]):
            raise ForeignObjectError(
                f"A grouping booster goes from ({ends[0]}) to ({ends[1]}).",
                "What is published leads from a version to a later one.",
            )
        _require_columns(view.name, rows.schema, schema)
        if isinstance(item, GroupingBooster) and item.by and set(item.by) <= set(schema.names):
            outside = rows.restricted(item.groups, item.by, item.by, anti=True)
            if dict(outside.items()):
                raise ForeignObjectError(
                    f"A grouping booster of view {view.name} has rows of groups that it does not "
                    "cover.",
                    "It was not made by Headwater.",
                )

    def _check_booster(self, item: Booster) -> None:
        self._check_relations(item.view)
        if item.view.beyond_rules:
            raise ForeignObjectError(
                f"A booster is for view {item.view.name}, which {item.view.beyond_rules}.",
                "Boosters are for views that join, each relation once.",
            )
        _require_counts(", ".join(item.of), item.rows)
        if item.interval.first >= item.interval.last:
            raise ForeignObjectError(
                f"A booster is for {item.interval}.", "An interval leads to a later version."
            )
        at_once = require_little_work(item.view.condition(item.of), item.rows)
        end = time.monotonic() + MOST_CHECK_SECONDS
        for some in _in_parts(item.rows, at_once):
            if time.monotonic() > end:
                raise ForeignObjectError(
                    f"{str(item).capitalize()} takes more than {MOST_CHECK_SECONDS:g} s to check.",
                    "Share a view whose condition is decided sooner, or fewer rows.",
                )
            if item.view.joined([(item.of, some)]) != some:
                raise ForeignObjectError(
                    f"{str(item).capitalize()} has rows that cannot occur in that view.",
                    "It does not belong to this view: get another copy.",
                )


def _relations_of(item: Item) -> Iterable[str]:
    """The base relations that an object has rows or changes of."""
    match item:
        case Contents():
            return item.versions
        case Updategram():
            return item.first
        case Booster() | GroupingBooster() | Window():
            return item.view.relations
    return ()


def _in_parts(rows: Rows, at_once: int) -> Iterator[Rows]:
    """Few rows at a time: whether a row occurs in a join of nothing else is its own matter."""
    items = iter(rows.items())
    while some := dict(islice(items, at_once)):
        yield Rows(rows.schema, some)


def _require_columns(subject: str, given: Schema, needed: Schema) -> None:
    if given != needed:
        raise ForeignObjectError(
            f"An object of {subject} has the columns {', '.join(given.names)}.",
            f"{subject} has {', '.join(needed.names)}.",
        )


def _require_counts(subject: str, *parts: Rows) -> None:
    for rows in parts:
        for row, _ in rows.negative().items():
            raise ForeignObjectError(
                f"An object of {subject} has the row {show_row(row)} less than no times.",
                "Nothing like that can be published.",
            )
        for row, count in rows.items():
            if count > MOST_COUNT:
                raise ForeignObjectError(
                    f"An object of {subject} has the row {show_row(row)} {count:,} times.",
                    f"A row is taken up to {MOST_COUNT:,} times.",
                )


def _require_names(what: str, name: str) -> None:
    if not name or len(quote(name, safe="")) > MOST_NAME_BYTES:
        raise ForeignObjectError(
            f"'{name:.40}' is no name for a {what}.",
            f"It is empty, or longer than {MOST_NAME_BYTES} bytes.",
        )


def _compared(definition: SharedView) -> int:
    """What a condition compares from which something is deduced: of each join by itself."""
    if not definition.beyond_rules:
        return _compared_by(definition.join)
    if definition.view.top is not None:
        return 0  # nothing is deduced from it
    return max(map(_compared_by, definition.view.joins))


def _compared_by(join: Join) -> int:
    parts = (part for conjunct in join.condition for part in walk(conjunct))
    return len({part for part in parts if isinstance(part, ColumnRef | Literal)})
