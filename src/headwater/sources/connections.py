"""The connections over which a source is asked: a few, shared by all who ask it.

Each belongs to a thread that does one round of questions at a time (see `rounds`). One that has to
wait at the source holds up only its own thread; there are more as they are needed, up to a bound.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from headwater.algebra.terms import Query
from headwater.frames.naming import named
from headwater.sources.contract import Lift, Reply, Source, Wrapper
from headwater.sources.rounds import AGAIN_S, Question, Round, Rounds
from headwater.sources.workers import Job, Workers

_MOST = 8


class Inquirer(Protocol):
    """Who asks; is called in the thread that asks."""

    name: str
    """What Spark's jobs are named by that answering takes."""

    def inquire(self, ask: Callable[[], Reply]) -> None:
        """Ask by itself; deals with whatever goes wrong."""
        ...

    def replied(self, reply: Reply) -> float | None:
        """Take a reply, under the channel's lock; when to be woken, if at all."""
        ...

    @property
    def wake(self) -> Callable[[float], None]: ...

    def took(self, seconds: float) -> None:
        """How long it took, about."""
        ...


Replies = Sequence[tuple[Inquirer, Reply]]


class Connections:
    """`source` gives the source as it is read now, whose columns may become more; `replied` takes
    the replies of one round, whose snapshot and marker are the same."""

    def __init__(
        self,
        name: str,
        source: Callable[[], Source],
        lift: Lift,
        replied: Callable[[Replies], None] = lambda replies: None,
    ) -> None:
        self._name = name
        self._source = source
        self._lift = lift
        self._replied = replied
        self._own = threading.local()
        self._workers = Workers(f"questions to {name}", _MOST, self._hang_up)
        self._changed = threading.Condition()
        self._rounds: Rounds[Inquirer] = Rounds()

    @property
    def counted(self) -> dict[str, int]:
        """How many questions were answered, in how many rounds, and how many queries of them were
        not evaluated, because another one was the same."""
        rounds = self._rounds
        return {"questions": rounds.asked, "rounds": rounds.rounds, "shared": rounds.saved}

    def put(self, question: Question[Inquirer]) -> None:
        """Have a question answered, together with others if that is right."""
        with self._changed:
            self._rounds.put(question, time.monotonic())
        self._workers.do(self._work)

    def do(self, job: Job) -> None:
        """Have a job done that asks."""
        self._workers.do(job)

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        """Ask in one snapshot, in a job. After an error the connection is opened anew."""
        try:
            return self._wrapper().ask(queries, marker)
        except BaseException:
            self._hang_up()
            raise

    def stop(self) -> None:
        self._workers.stop()

    def join(self, limit_s: float) -> None:
        """Wait for questions. Who waits for a database that does not answer is left behind."""
        self._workers.join(limit_s)

    # In a thread of the workers

    def _work(self) -> None:
        """Do a round of what waits; nothing, if others have done that."""
        if (found := self._begin()) is None:
            return
        began = time.monotonic()
        try:
            if any(question.again for question in found.questions):
                time.sleep(AGAIN_S)
            with named(f"{_names(found)}: question to {self._name}"):
                self._answer(found)
        finally:
            share_s = found.share_s(time.monotonic() - began)
            for question in found.questions:
                question.who.took(share_s * len(question.ask.queries))
            with self._changed:
                self._rounds.ended(found)
                self._changed.notify_all()

    def _begin(self) -> Round[Inquirer] | None:
        with self._changed:
            while self._rounds.is_waiting:
                now = time.monotonic()
                if (found := self._rounds.begin(now)) is not None:
                    return found
                self._changed.wait(self._rounds.due(now) - now)
        return None

    def _answer(self, found: Round[Inquirer]) -> None:
        if len(found.questions) == 1:
            (question,) = found.questions
            question.who.inquire(partial(self.ask, question.ask.queries))
        else:
            try:
                reply = self.ask(found.queries)
                results = found.results(reply.results)
            except Exception:  # each is asked anew, and told what goes wrong with it alone
                for question in found.questions:
                    self.put(replace(question, alone=True))
                return
            replies = [replace(reply, results=each) for each in results]
            who = [question.who for question in found.questions]
            self._replied(list(zip(who, replies, strict=True)))
        with self._changed:
            self._rounds.answered(found)

    def _wrapper(self) -> Wrapper:
        source = self._source()
        held: tuple[Source, Wrapper] | None = getattr(self._own, "held", None)
        if held is None or held[0] is not source:
            self._hang_up()
            held = self._own.held = (source, source.open_wrapper(self._lift))
        return held[1]

    def _hang_up(self) -> None:
        held: tuple[Source, Wrapper] | None = getattr(self._own, "held", None)
        self._own.held = None
        if held is not None:
            held[1].close()


def _names(asked: Round[Inquirer]) -> str:
    """Whose questions they are."""
    first, *others = dict.fromkeys(question.who.name for question in asked.questions)
    return f"{first} and {len(others)} more" if others else first
