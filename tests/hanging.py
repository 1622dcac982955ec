"""An end to what would otherwise never end: for tests of what a long input does, not of speed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def hang_limit(seconds: int = 90) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"it did not end within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
