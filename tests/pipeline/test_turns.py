"""Work is done when it is called for, never twice at a time, and never forgotten."""

import threading
import time
from collections.abc import Iterator

import pytest

from headwater.pipeline import turns
from headwater.pipeline.turns import Clock, Pace, Turn
from headwater.sources.workers import Workers

LIMIT_S = 60.0


@pytest.fixture
def pool() -> Iterator[tuple[Workers, Clock]]:
    found = Workers("test", 4), Clock()
    yield found
    for each in found:
        each.stop()


def test_a_call_during_the_work_has_it_done_once_more(pool: tuple[Workers, Clock]) -> None:
    begun, go_on, done = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
    at_once: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            at_once.append(1)
        assert len(at_once) == 1
        begun.release()
        go_on.wait(LIMIT_S)
        at_once.clear()
        done.release()

    turn = Turn(work, *pool)
    turn.wake()
    assert begun.acquire(timeout=LIMIT_S)
    for _ in range(5):
        turn.wake()
    go_on.set()
    for _ in range(2):
        assert done.acquire(timeout=LIMIT_S)
    assert not done.acquire(timeout=0.05)


def test_a_turn_is_woken_at_its_time(pool: tuple[Workers, Clock]) -> None:
    woken: list[float] = []
    done = threading.Semaphore(0)

    def work() -> None:
        woken.append(time.monotonic())
        done.release()

    turn, asked = Turn(work, *pool), time.monotonic()
    turn.wake(asked + 3600)
    turn.wake(asked + 0.05)
    assert done.acquire(timeout=LIMIT_S)
    assert woken[0] >= asked + 0.05
    turn.wake(time.monotonic() + 0.05)
    assert done.acquire(timeout=LIMIT_S)


def test_who_is_never_to_be_woken_is_not(pool: tuple[Workers, Clock]) -> None:
    done = threading.Event()
    Turn(done.set, *pool).wake(float("inf"))
    assert not done.wait(0.05)


@pytest.mark.parametrize(("worked_s", "after_s"), [(0.0, 10.0), (3.0, 150.0)])
def test_what_stood_still_is_done_again_soon_and_what_worked_much_later(
    monkeypatch: pytest.MonkeyPatch, worked_s: float, after_s: float
) -> None:
    class Time:
        now = worked = 0.0

        def monotonic(self) -> float:
            return self.now

        def thread_time(self) -> float:
            return self.worked

    clock, done = Time(), []

    def stand_still() -> None:
        clock.now += 3600.0
        clock.worked += worked_s
        done.append(clock.now)

    monkeypatch.setattr(turns, "time", clock)
    pace = Pace(stand_still)
    for later_s in (0.0, after_s - 1.0, 1.0):
        clock.now += later_s
        pace.keep()
    assert done == [3600.0, 3600.0 + after_s + 3600.0]
