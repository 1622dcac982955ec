"""What a catalog knows beside data: nodes, base relations with their owners, and views."""

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
    | RelationEntry
    | ViewEntry
    | Contents
    | Updategram
    | Booster
    | GroupingBooster
    | Window
)
"""Everything that can be stored and exchanged."""
