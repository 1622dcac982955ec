"""Jobs are done side by side up to a bound, and threads that are not needed end."""

import threading
import time
from functools import partial

import pytest

from headwater.sources import workers
from headwater.sources.workers import Workers

LIMIT_S = 60.0


def test_a_job_that_is_held_up_does_not_hold_up_the_next() -> None:
    pool, held, done = Workers("test", 2), threading.Event(), threading.Event()

    def wait() -> None:
        held.wait(LIMIT_S)

    pool.do(wait)
    pool.do(done.set)
    assert done.wait(LIMIT_S)
    held.set()
    pool.stop()


def test_there_are_no_more_threads_than_are_needed_or_allowed() -> None:
    pool, held, counted = Workers("test", 3), threading.Event(), threading.Semaphore(0)
    used: set[int] = set()

    def job() -> None:
        used.add(threading.get_ident())
        held.wait(LIMIT_S)
        counted.release()

    for _ in range(10):
        pool.do(job)
    held.set()
    for _ in range(10):
        assert counted.acquire(timeout=LIMIT_S)
    assert len(used) <= 3
    pool.stop()
    pool.join(LIMIT_S)


def test_a_thread_with_nothing_to_do_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_IDLE_S", 0.01)
    ended, done = threading.Event(), threading.Event()
    pool = Workers("test", 1, ended.set)
    pool.do(lambda: None)
    assert ended.wait(LIMIT_S)
    pool.do(done.set)
    assert done.wait(LIMIT_S)


def test_what_was_given_before_a_stop_is_done() -> None:
    pool, found = Workers("test", 1), list[int]()
    pool.do(lambda: time.sleep(0.05))
    for number in range(5):
        pool.do(partial(found.append, number))
    pool.stop()
    pool.join(LIMIT_S)
    assert found == list(range(5))
