"""The Spark jobs of one runner: they carry its tag, and a view's where they are a view's alone, so
that they can be cancelled without those of anybody else in the same session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headwater.frames.naming import tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkJobs:
    """`start` gives the session; it is called when a session is first needed, and again."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._tag = f"headwater-{uuid.uuid4().hex[:12]}"
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """The session; what the calling thread starts there can be cancelled."""
        session = self._session = self._start()
        session.sparkContext.setInterruptOnCancel(True)
        session.sparkContext.addJobTag(self._tag)
        return tell(session)

    @contextmanager
    def of_view(self, view: str) -> Iterator[Callable[[], SparkSession]]:
        """The session, in a thread whose jobs are a view's for a while."""
        tag = f"{self._tag}-{view}"
        tagged: list[SparkSession] = []

        def session() -> SparkSession:
            found = self.session()
            found.sparkContext.addJobTag(tag)
            tagged.append(found)
            return found

        try:
            yield session
        finally:
            for found in tagged:
                with suppress(Exception):  # the session may be gone already
                    found.sparkContext.removeJobTag(tag)

    def cancel(self, view: str = "") -> None:
        """Cancel a view's jobs, or all."""
        if self._session is not None:
            with suppress(Exception):  # the session may be gone already
                tag = f"{self._tag}-{view}" if view else self._tag
                self._session.sparkContext.cancelJobsWithTag(tag)
