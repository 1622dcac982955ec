"""Readers who want a view to show everything that its sources have committed by now.

Where the sources stand is asked in a thread of its own, as soon as they are read; whoever waits is
answered when the view shows that much, or stands still. Belongs to the runner's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError
from headwater.pipeline.feed import Feed
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.requests import Request, answer
from headwater.storage.location import Location


@dataclass
class _Refresh:
    request: Request
    view: KeptView
    sources: Sequence[str]
    targets: dict[str, int] = field(default_factory=dict)
    failures: list[HeadwaterError] = field(default_factory=list)
    thread: threading.Thread | None = None

    def ask(self, feeds: Sequence[Feed]) -> None:
        try:
            for feed in feeds:
                feed.channel.catch_up()
                self.targets[feed.name] = feed.channel.end
        except HeadwaterError as error:
            self.failures.append(error)

    def is_done(self, reach: Callable[[KeptView, Mapping[str, int]], bool]) -> bool:
        if self.thread is None:
            return self.view.failure is not None
        return not self.thread.is_alive() and (
            bool(self.failures) or reach(self.view, self.targets)
        )


class Refreshing:
    """What is waited for; `feeds` are those that are read at the moment."""

    def __init__(self, folder: Location, feeds: Mapping[str, Feed]) -> None:
        self._folder = folder
        self._feeds = feeds
        self._waiting: list[_Refresh] = []

    def begin(self, request: Request, view: KeptView, sources: Sequence[str]) -> None:
        self._waiting.append(_Refresh(request, view, sources))

    def look(self, reach: Callable[[KeptView, Mapping[str, int]], bool]) -> None:
        """Answer those whose views have come far enough, or cannot."""
        for refresh in list(self._waiting):
            if refresh.thread is None and all(s in self._feeds for s in refresh.sources):
                feeds = [self._feeds[source] for source in refresh.sources]
                name = f"refresh {refresh.view.name}"
                refresh.thread = threading.Thread(target=refresh.ask, args=(feeds,), name=name)
                refresh.thread.daemon = True
                refresh.thread.start()
            elif refresh.is_done(reach):
                self._waiting.remove(refresh)
                failure = refresh.view.failure
                told = refresh.failures or ([failure] if failure is not None else [])
                answer(self._folder, refresh.request, *told)
