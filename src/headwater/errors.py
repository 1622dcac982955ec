"""Every error that Headwater raises on purpose, divided by whose fault it is.

Each message says what is wrong, where, and what to do next. The command line prints
the sentence without a traceback and exits with `exit_code`. A broken invariant of our
own is an assertion, and an inconsistency found by the checker is a verdict, not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast


class HeadwaterError(Exception):
    """Base of all errors raised on purpose; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip() if self.hint else self.message


class SeveralError(HeadwaterError):
    """Several things that went wrong, each of which is told by itself."""

    def __init__(self, problems: Iterable[HeadwaterError]) -> None:
        self.problems = tuple({str(problem): problem for problem in problems}.values())
        super().__init__(" ".join(map(str, self.problems)))


class InputError(HeadwaterError):
    """Something that the user wrote is wrong: a file, an option, a value."""

    exit_code = 2


class SeveralInputError(SeveralError, InputError):
    """Several mistakes in something that the user wrote."""


class SqlError(InputError):
    """A view's SQL cannot be read or is not supported; line and column count from 1."""

    def __init__(self, message: str, hint: str = "", *, line: int = 0, column: int = 0) -> None:
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(place + message, hint)
        self.line = line
        self.column = column

    @property
    def problems(self) -> tuple[SqlError, ...]:
        """This mistake, or all of which it consists."""
        return (self,)


class SeveralSqlError(SqlError):
    """Several mistakes in the SQL of a view, in the order of their places."""

    def __init__(self, problems: Sequence[SqlError]) -> None:
        super().__init__(" ".join(map(str, problems)))
        self._problems = tuple(problems)
        self.line, self.column = problems[0].line, problems[0].column

    @property
    def problems(self) -> tuple[SqlError, ...]:
        return self._problems


class ScenarioError(InputError):
    """A lab scenario is malformed; the message starts with the place inside it."""


class UnsupportedViewError(InputError):
    """An algorithm cannot maintain this view, or not without something it lacks."""


class TooManyRowsError(HeadwaterError):
    """There are more rows than were to be held in memory; Spark takes over."""


class ExpressionError(InputError):
    """An expression of a view fails on a row (division by zero, overflow)."""


class SourceError(HeadwaterError):
    """A source broke its promise or cannot be reached."""


class SeveralSourceError(SeveralError, SourceError):
    """Several things that are wrong with a source."""


class RefusedError(SourceError):
    """A source refuses the role that connects; it goes on once that has what it lacks.

    The hint names what gives it back.
    """


class SeveralRefusedError(SeveralSourceError, RefusedError):
    """Several things that a role lacks at a source."""


class LostConnectionError(SourceError):
    """A source cannot be reached right now; trying again later may help."""


class NodeLostError(LostConnectionError):
    """A node has gone: what it and its tokens had is lost, and the view begins a new life."""


class BrokenLogError(SourceError):
    """A source's log cannot be followed from here on; only a repair of the source helps.

    The hint names `headwater repair SOURCE`, which sets the source up again and loads its views
    anew.
    """

    def __init__(self, source: str, message: str) -> None:
        super().__init__(
            f"Source {source}: {message}",
            f"Run 'headwater repair {source}': it sets the source up again and loads its views "
            "anew; until then readers keep the last state.",
        )


class EngineError(HeadwaterError):
    """An engine under Headwater (Spark, the warehouse) failed."""


class StateLostError(EngineError):
    """What Spark had under way is gone with executors; going on from the last commit helps."""


class NoExecutorError(EngineError):
    """Spark's cluster cannot be reached, or has nothing to give; trying again later may help."""


class StoreLostError(HeadwaterError):
    """The warehouse's object store does not answer right now; trying again later may help."""


class StoppedError(HeadwaterError):
    """Somebody stopped a command before it was done."""

    exit_code = 130


class BusyError(HeadwaterError):
    """Another runner is at work on the same warehouse."""


class FencedError(HeadwaterError):
    """Another runner has taken over; this one may not commit any more."""


def for_each(names: Iterable[str], act: Callable[[str], None]) -> None:
    """Do something for each of some; one for which it fails is no reason to leave the others."""
    failures = []
    for name in names:
        try:
            act(name)
        except HeadwaterError as error:
            failures.append(error)
    if failures:
        raise one_or_several(failures)


def one_or_several(problems: Iterable[HeadwaterError]) -> HeadwaterError:
    """What tells some problems, of which there is at least one."""
    several = SeveralError(problems)
    return several.problems[0] if len(several.problems) == 1 else several


def one_of(problems: Iterable[SourceError]) -> SourceError:
    """What tells some problems of a source, of which there is at least one."""
    several = SeveralSourceError(problems)
    first, *others = several.problems
    if others and all(isinstance(problem, RefusedError) for problem in several.problems):
        return SeveralRefusedError(several.problems)
    return several if others else cast("SourceError", first)
