"""When what views did is published for other nodes, and when boosters are made that are owed: a
machine.

Something is due for a view that stands elsewhere than when it was published last. What took long
is done seldom, so that maintenance has the machine; what failed is tried again after a pause that
grows. How a view stands, what is done and how long it takes, is its driver's (see `publisher`),
which also says what time it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

_RESTS = 4
"""Publishing waits at least so many times as long as it took: it takes a fifth of the time."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


@dataclass
class Pause:
    """How long something is left alone that has failed: longer each time."""

    until: float = 0.0
    _next_s: float = _FIRST_PAUSE_S

    def begin(self, now: float) -> None:
        self.until = now + self._next_s
        self._next_s = min(2 * self._next_s, _LONGEST_PAUSE_S)


@dataclass
class _View:
    """A view; `mark` is how it stands, and differs from every earlier one once it has changed."""

    mark: object
    since: float
    """When it was first seen that something of it is not published."""
    published: object = None
    why: str = ""
    """Why it cannot be published, if that is so."""
    pause: Pause = field(default_factory=Pause)

    @property
    def is_waiting(self) -> bool:
        return self.published != self.mark


@dataclass
class PublishingPolicy:
    """What is due for the views and sources of one project, at every commit or every so often."""

    every_s: float
    trouble: str = ""
    """Why nothing can be published, if that is so."""
    _views: dict[str, _View] = field(default_factory=dict)
    _at: float = 0.0
    _pause: Pause = field(default_factory=Pause)
    _sources: dict[str, Pause] = field(default_factory=dict)

    # What happens

    def stand(self, marks: Mapping[str, object], now: float) -> None:
        """How the views stand that there are; others are forgotten."""
        for name in self._views.keys() - marks.keys():
            del self._views[name]
        for name, mark in marks.items():
            view = self._views.setdefault(name, _View(mark, now))
            if not view.is_waiting and mark != view.mark:
                view.since = now
            view.mark = mark

    def published(
        self, marks: Mapping[str, object], refused: Mapping[str, str], began: float, now: float
    ) -> None:
        """These views were published as they stood, but for some that could not be."""
        self.trouble, self._pause = "", Pause()
        self._rest(began, now)
        for name, mark in marks.items():
            view = self._views[name]
            if name in refused:
                view.why = refused[name]
                view.pause.begin(now)
            else:
                view.published, view.why, view.pause, view.since = mark, "", Pause(), began

    def failed(self, why: str, now: float, may_pass: bool = False) -> None:
        """Nothing could be published; what may pass by itself is told when it has not."""
        if not may_pass or self._pause.until:
            self.trouble = why
        self._pause.begin(now)

    def asked(
        self, sources: Collection[str], failed: Collection[str], began: float, now: float
    ) -> None:
        """Sources were asked for what is owed; of some it could not be had."""
        self.trouble, self._pause = "", Pause()
        self._rest(began, now)
        for source in sources:
            if source in failed:
                self._sources.setdefault(source, Pause()).begin(now)
            else:
                self._sources.pop(source, None)

    def _rest(self, began: float, now: float) -> None:
        self._at = max(self._at, began + self.every_s, now + _RESTS * (now - began))

    def hurry(self) -> None:
        """Somebody waits: what has been done lately is no reason to rest."""
        self._at = 0.0

    # What is to be done

    def views_due(self, now: float) -> dict[str, object]:
        """The views that are to be published now, as they stand; `published` or `failed` is next.

        One that could not be published is tried again with the others, once its pause is over.
        """
        if now < max(self._at, self._pause.until):
            return {}
        return {
            name: view.mark
            for name, view in self._views.items()
            if view.is_waiting and now >= view.pause.until
        }

    def sources_due(self, owed: Collection[str], now: float) -> list[str]:
        """Which of the sources that owe something are to be asked now; `asked` is next."""
        if now < self._pause.until:
            return []
        return [
            source
            for source in owed
            if source not in self._sources or now >= self._sources[source].until
        ]

    def is_done(self, marks: Mapping[str, object], owed: Collection[str]) -> bool:
        """Whether nothing is left to be done for views that stand so, and sources that owe
        something; or it was tried and could not be."""
        if self.trouble:
            return True
        known = dict(self._views)
        if {name: view.mark for name, view in known.items()} != dict(marks):
            return False
        views = all(view.why or not view.is_waiting for view in known.values())
        return views and all(source in self._sources for source in owed)

    # What is told

    def waits_since(self, view: str) -> float | None:
        """Since when something of a view waits to be published; None if nothing does."""
        known = self._views.get(view)
        return known.since if known is not None and known.is_waiting else None

    def why(self, view: str) -> str:
        """Why a view cannot be published, if that is so."""
        known = self._views.get(view)
        return known.why if known is not None else ""
