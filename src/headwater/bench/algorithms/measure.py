"""One view by one algorithm at work: databases of its own, a runner, and what changes cost.

Several are at work at once and take turns, round by round, so that a noisy machine disturbs all of
them alike.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from headwater.algebra.terms import Query
from headwater.bench.algorithms.workload import Change, Changes, Templates, Workload
from headwater.errors import HeadwaterError
from headwater.frames.session import spark_session
from headwater.pipeline.feed import Feed
from headwater.pipeline.maintain import Maintainer
from headwater.pipeline.runner import Runner
from headwater.project.measured import FILE as STATISTICS
from headwater.project.project import Project
from headwater.sources.contract import Reply

_LIMIT_S = 300.0
_LOOK_S = 0.005


@dataclass(frozen=True)
class Measured:
    """What transactions have cost, by one algorithm."""

    algorithm: str
    freshness_s: tuple[float, ...]
    """From the return of each transaction's commit to the commit of the view."""
    questions: int
    answer_bytes: int

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.algorithm,
            self.freshness_s + other.freshness_s,
            self.questions + other.questions,
            self.answer_bytes + other.answer_bytes,
        )

    @property
    def transactions(self) -> int:
        return len(self.freshness_s)

    @property
    def messages(self) -> float:
        """Questions and answers for a transaction."""
        return 2 * self.questions / self.transactions

    @property
    def bytes(self) -> float:
        """Of answers for a transaction."""
        return self.answer_bytes / self.transactions

    @property
    def median_ms(self) -> float:
        return 1000 * median(self.freshness_s)

    @property
    def average_ms(self) -> float:
        """Of all but the quickest and the slowest twentieth, which are the machine's."""
        ordered = sorted(self.freshness_s)
        off = len(ordered) // 20
        return 1000 * mean(ordered[off : len(ordered) - off])

    @property
    def p95_ms(self) -> float:
        ordered = sorted(self.freshness_s)
        return 1000 * ordered[int(0.95 * (len(ordered) - 1))]


class Maintained:
    """A view of a workload with some header, and a runner for it, in a folder of its own."""

    def __init__(
        self,
        templates: Templates,
        workload: Workload,
        header: str,
        seed: int,
        known: bytes | None = None,
        distance_s: float = 0.0,
    ) -> None:
        """With the statistics of another warehouse, if any are given. Each question takes
        `distance_s` longer, as if the sources were that far away."""
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
        self._databases = templates.copies(workload, self._folder)
        (self._folder / "views").mkdir()
        (self._folder / "views" / "v.sql").write_text(
            f"CREATE MATERIALIZED VIEW v {header} AS {workload.select}"
        )
        (self._folder / "headwater.toml").write_text(
            f'[warehouse]\npublish_every = "1 day"\n{self._databases.settings}'
        )
        self._statistics = self._folder / "warehouse" / "_headwater" / STATISTICS
        if known is not None:
            self._statistics.parent.mkdir(parents=True)
            self._statistics.write_bytes(known)
        self._changes = iter(Changes(workload, seed).rounds())
        self._committed = threading.Event()
        self._committed_at = 0.0
        self._found: list[float] = []
        self._before = (0, 0)
        for source in Project.open(self._folder).sources.values():
            source.setup()
        self._runner = Runner(Project.open(self._folder), spark_session, self._watch)
        self._runner.start()
        self._maintainer = self._loaded()
        if distance_s:
            for feed in self._runner.feeds.values():
                _move_away(feed, distance_s)

    def _watch(self, view: str, step: str, seconds: float) -> None:
        if step == "commit":
            self._committed_at = time.monotonic()
            self._committed.set()

    def _loaded(self) -> Maintainer:
        self._wait(self._follows)
        maintainer = self._runner.views["v"].maintainer
        assert maintainer is not None
        return maintainer

    def _follows(self) -> bool:
        view = self._runner.views["v"]
        if view.failure is not None:
            raise view.failure
        return view.maintainer is not None and view.maintainer.vector is not None

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while not condition():
            self._runner.supervise()
            _check(deadline)
            time.sleep(0.02)

    @property
    def choice(self) -> str:
        """The algorithm that is at work, with the parameters that were chosen."""
        plan = self._maintainer.plan
        told = {n: v for n, v in plan.parameters.items() if n not in ("batch", "p")}
        listed = ", ".join(f"{name} = {value}" for name, value in told.items())
        return f"{plan.algorithm} ({listed})" if listed else plan.algorithm

    def round(self) -> None:
        """One round of changes, until the view shows all of them."""
        self._runner.supervise()
        returned = [self._commit(change) for change in next(self._changes)]
        self._found += self._until_visible(returned)

    def warmed_up(self) -> None:
        """What has been measured so far does not count."""
        counters = self._maintainer.counters
        self._found.clear()
        self._before = (counters.questions, counters.answer_bytes)

    def measured(self) -> Measured:
        counters, (questions, moved) = self._maintainer.counters, self._before
        return Measured(
            self._maintainer.plan.algorithm,
            tuple(self._found),
            counters.questions - questions,
            counters.answer_bytes - moved,
        )

    def stop(self) -> bytes:
        """End it; the statistics that its warehouse has."""
        self._runner.stop()
        for source in self._runner.project.sources.values():
            source.teardown()
        self._databases.close()
        found = self._statistics.read_bytes()
        shutil.rmtree(self._folder, ignore_errors=True)
        return found

    def _commit(self, change: Change) -> tuple[str, int, float]:
        source = self._databases.commit(change)
        return source, self._databases.committed[source], time.monotonic()

    def _until_visible(self, returned: Sequence[tuple[str, int, float]]) -> list[float]:
        """How long each of these took; looked at whenever the view has committed."""
        left, found = list(returned), []
        deadline = time.monotonic() + _LIMIT_S
        while left:
            seen = self._committed.wait(_LOOK_S)
            self._committed.clear()
            now = self._committed_at if seen else time.monotonic()
            vector = self._maintainer.visible
            shown = [each for each in left if vector[each[0]].number >= each[1]]
            found += [max(0.0, now - at) for _, _, at in shown]
            left = [each for each in left if each not in shown]
            if self._maintainer.failure is not None:
                raise self._maintainer.failure
            _check(deadline)
        return found


def _move_away(feed: Feed, distance_s: float) -> None:
    connections = feed.channel.connections
    ask = connections.ask

    def ask_far_away(queries: Sequence[Query]) -> Reply:
        time.sleep(distance_s)
        return ask(queries)

    setattr(connections, "ask", ask_far_away)  # noqa: B010  # a method, which types protect


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")
