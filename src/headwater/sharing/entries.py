"""What a catalog knows beside data: nodes and their publications, base relations with their owners,
and views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.schema import Relation
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.grouping import GroupingBooster
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.windows import Window


@dataclass(frozen=True)
class NodeEntry:
    """A node of the system; nodes of old releases have no key."""

    name: str
    key: str = ""
    """Its public key, in hexadecimal digits: who has it can tell what the node has signed."""


@dataclass(frozen=True)
class Publication:
    """A step of a node that publishes a warehouse; each names the one before (see `lives`).

    Two that differ and have one number tell that the node was put back to an earlier state, or is
    at work in two places.
    """

    node: str
    number: int
    token: str
    """Made up for it, so that no other has it."""
    before: str
    """The token of the one with the number before; none where a life begins."""


@dataclass(frozen=True)
class RelationEntry:
    """A base relation; its changes originate at one node, the owner."""

    relation: Relation
    owner: str


@dataclass(frozen=True)
class ViewEntry:
    """A view that somebody publishes."""

    definition: SharedView


Item: TypeAlias = (
    NodeEntry
    | Publication
    | RelationEntry
    | ViewEntry
    | Contents
    | Updategram
    | Booster
    | GroupingBooster
    | Window
)
"""Everything that can be stored and exchanged."""
