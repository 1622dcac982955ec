"""One run of one view: databases of its own, a runner, changes, and what they cost."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from headwater.bench.algorithms.workload import Changes, Templates, Workload
from headwater.errors import HeadwaterError
from headwater.frames.session import spark_session
from headwater.pipeline.maintain import Maintainer
from headwater.pipeline.runner import Runner
from headwater.project.project import Project

_LIMIT_S = 300.0
_LOOK_S = 0.005
_PAUSE_S = 0.01
WARM_UP = 6
"""So many rounds are not counted."""


@dataclass(frozen=True)
class Measured:
    """What one run has cost."""

    algorithm: str
    parameters: str
    freshness_s: tuple[float, ...]
    """From the return of each transaction's commit to the commit of the view."""
    questions: int
    answer_bytes: int
    commits: int

    @property
    def transactions(self) -> int:
        return len(self.freshness_s)

    @property
    def messages(self) -> float:
        """Questions and answers for a transaction."""
        return 2 * self.questions / self.transactions

    @property
    def bytes(self) -> float:
        return self.answer_bytes / self.transactions

    @property
    def median_ms(self) -> float:
        return 1000 * median(self.freshness_s)

    @property
    def mean_ms(self) -> float:
        return 1000 * sum(self.freshness_s) / self.transactions

    @property
    def p95_ms(self) -> float:
        ordered = sorted(self.freshness_s)
        return 1000 * ordered[int(0.95 * (len(ordered) - 1))]


class Run:
    """A view of a workload by one algorithm, in a folder of its own."""

    def __init__(
        self, templates: Templates, workload: Workload, header: str, seed: int, known: bytes | None
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
        self._workload, self._seed = workload, seed
        self._databases = templates.copies(workload, self._folder)
        (self._folder / "views").mkdir()
        (self._folder / "views" / "v.sql").write_text(
            f"CREATE MATERIALIZED VIEW v {header} AS {workload.select}"
        )
        (self._folder / "headwater.toml").write_text(
            f'[warehouse]\npublish_every = "1 day"\n{self._databases.settings}'
        )
        self._committed = threading.Event()
        self._commit_times: list[float] = []

    def close(self) -> None:
        self._databases.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def measure(self) -> Measured:
        for source in Project.open(self._folder).sources.values():
            source.setup()
        runner = Runner(Project.open(self._folder), spark_session, self._watch)
        runner.start()
        try:
            _wait(runner, lambda: _follows(runner))
            maintainer = runner.views["v"].maintainer
            assert maintainer is not None
            return self._measured(runner, maintainer)
        finally:
            runner.stop()
            for source in runner.project.sources.values():
                source.teardown()

    def _watch(self, view: str, step: str, seconds: float) -> None:
        if step == "commit":
            self._commit_times.append(time.monotonic())
            self._committed.set()

    def _measured(self, runner: Runner, maintainer: Maintainer) -> Measured:
        counters = maintainer.counters
        found: list[float] = []
        before = (0, 0, 0)
        rounds = list(Changes(self._workload, self._seed).rounds())
        warm_up = min(WARM_UP, len(rounds) // 4)
        for at, changes in enumerate(rounds):
            if at == warm_up:
                found.clear()
                before = (counters.questions, counters.answer_bytes, counters.commits)
            returned = []
            for change in changes:
                source = self._databases.commit(change)
                returned.append((source, self._databases.committed[source], time.monotonic()))
            found += self._until_visible(runner, maintainer, returned)
            time.sleep(_PAUSE_S)
        return Measured(
            maintainer.plan.algorithm,
            "",
            tuple(found),
            counters.questions - before[0],
            counters.answer_bytes - before[1],
            counters.commits - before[2],
        )

    def _until_visible(
        self, runner: Runner, maintainer: Maintainer, returned: Sequence[tuple[str, int, float]]
    ) -> list[float]:
        """How long each of these took; looked at whenever the view has committed."""
        left, found = list(returned), []
        deadline = time.monotonic() + _LIMIT_S
        while left:
            self._committed.wait(_LOOK_S)
            now = self._commit_times[-1] if self._committed.is_set() else time.monotonic()
            self._committed.clear()
            vector = maintainer.visible
            shown = [each for each in left if vector[each[0]].number >= each[1]]
            found += [max(0.0, now - at) for _, _, at in shown]
            left = [each for each in left if each not in shown]
            if maintainer.failure is not None:
                raise maintainer.failure
            if time.monotonic() > deadline:
                raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")
        return found


def _follows(runner: Runner) -> bool:
    view = runner.views["v"]
    if view.failure is not None:
        raise view.failure
    return view.maintainer is not None and view.maintainer.vector is not None


def _wait(runner: Runner, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        runner.supervise()
        if time.monotonic() > deadline:
            raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")
        time.sleep(0.02)
