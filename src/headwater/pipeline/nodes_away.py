"""The nodes of one view that are processes of their own, for one life of its maintenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from headwater.algorithms.hosted import Did, Hosted, Told
from headwater.errors import HeadwaterError
from headwater.nodes.switchboard import Begin, Life, Switchboard
from headwater.pipeline.feed import Feed
from headwater.pipeline.maintenance import Plan
from headwater.protocol.effects import Ask
from headwater.sources.contract import Reply, Source
from headwater.sources.subscription import Subscription


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
            subscriptions[source].asker = partial(self._ask, source)

    def tell(self, source: str, told: Told) -> None:
        self.lives[source].tell(told)

    def end(self) -> None:
        for life in self.lives.values():
            life.end()

    def _source(self, name: str) -> Source:
        """A source as the runner reads it, whose monitor is to know of markers."""
        return self.feeds[name].channel.source

    def _ask(self, source: str, ask: Ask) -> Reply:
        """Have a question put by the node. In a thread of the channel's connections."""
        known = self._source(source)
        return known.replied_elsewhere(*self.lives[source].ask(ask.label, known.expected_marker()))
