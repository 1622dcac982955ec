"""The nodes of one view that are processes of their own, for one life of its maintenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from headwater.algorithms.hosted import Did, Hosted, Told
from headwater.errors import HeadwaterError
from headwater.nodes.lives import Begin, Life
from headwater.nodes.switchboard import Switchboard
from headwater.pipeline.feed import Feed
from headwater.pipeline.plan import Plan
from headwater.protocol.effects import Ask
from headwater.sources.contract import Reply, Source
from headwater.sources.subscription import Subscription
from headwater.sources.workers import Job


@dataclass
class NodesAway:
    """Ties a view's maintenance to its nodes: what they are told, say, and ask."""

    plan: Plan
    switchboard: Switchboard
    feeds: Mapping[str, Feed]
    lives: dict[str, Life] = field(default_factory=dict)

    def begin(
        self,
        hear: Callable[[str, Did], None],
        lose: Callable[[HeadwaterError], None],
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        """Have all nodes begin; LostConnectionError if one is not there."""
        manager = self.plan.manager
        assert isinstance(manager, Hosted)
        begin = Begin(
            self.plan.view,
            manager.epoch,
            self.plan.algorithm,
            dict(self.plan.parameters),
            self.plan.definition.to_json(),
        )
        for source in manager.away:
            life = self.switchboard.begin(
                source, self._source(source).identity, begin, partial(hear, source), lose
            )
            self.lives[source] = life
            subscriptions[source].asker = _AskedByNode(life, self._source(source))

    def tell(self, source: str, told: Told) -> None:
        self.lives[source].tell(told)

    def end(self) -> None:
        for life in self.lives.values():
            life.end()

    def _source(self, name: str) -> Source:
        """A source as the runner reads it, whose monitor is to know of markers."""
        return self.feeds[name].channel.source


@dataclass(frozen=True)
class _AskedByNode:
    """Has questions put by a node; the rows of the answers stay there."""

    life: Life
    source: Source

    def do(self, job: Job) -> None:
        self.life.node.workers.do(job)

    def ask(self, ask: Ask) -> Reply:
        marker = self.source.expected_marker()
        return self.source.replied_elsewhere(*self.life.ask(ask.label, marker))
