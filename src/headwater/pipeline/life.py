"""A view's life, as a table: what becomes of it when something happens, and what is done then.

A value and a function, without threads, files or clocks: its driver (see `runner`) does what is to
be done, and says what happened and what time it is. What a view does is under way while it is
loading, repairing or running. Only its end leads out of these states, so nothing is under way
twice; and out of a stop, or a drop, leads only what somebody has asked for or written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from headwater.errors import (
    BrokenLogError,
    EngineError,
    ExpressionError,
    FencedError,
    HeadwaterError,
    InputError,
    LostConnectionError,
    NodeLostError,
    NoExecutorError,
    RefusedError,
    SourceError,
    StateLostError,
    StoreLostError,
)
from headwater.project.gaps import GapError

if TYPE_CHECKING:
    from headwater.pipeline.requests import Request

RETRY_S = 5.0
FORGETS_S = 300.0
"""After so long without a loss of executors, the next is the first again."""
_LONGEST_PAUSE_S = 60.0
_PATIENCE = 7
"""So many losses in a row are waited out by who waits for a view."""
RECOMPUTE_PAUSE_S = 300.0
"""For how long a view is maintained that could not be recomputed, before that is tried again."""


class OutgrownError(HeadwaterError):
    """So much waits for a view that it is recomputed rather than maintained; says why."""


class ImpatientError(HeadwaterError):
    """Nothing was shown for so many seconds, for want of pauses: another algorithm is taken."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Nothing was shown for {seconds:.0f} s: the sources do not pause.")
        self.seconds = seconds


class LifeState(Enum):
    """Where a view stands."""

    WAITING = "waiting"
    """Until it can be brought up."""
    LOADING = "loading"
    """For the first time: there is nothing to be read yet."""
    REPAIRING = "repairing"
    """Loaded anew, while readers keep what it was."""
    RUNNING = "running"
    STOPPED = "stopped"
    """Until somebody acts."""
    DROPPED = "dropped"
    """It has no tables, or no file, any more."""


_SHOWN = {LifeState.REPAIRING: "loading", LifeState.DROPPED: "stopped"}


# What happens


@dataclass(frozen=True)
class Opened:
    """Its sources are read, and it goes on from the table that it has."""


@dataclass(frozen=True)
class LoadBegun:
    """Its sources are read, and its table is made."""


@dataclass(frozen=True)
class RepairBegun:
    """Its sources are read, and its table is made anew."""


@dataclass(frozen=True)
class Loaded:
    """Its table is there; `at` is what the clock says, for people."""

    at: str


@dataclass(frozen=True)
class Interrupted:
    """It cannot go on for the moment, or cannot be brought up."""

    failure: HeadwaterError


@dataclass(frozen=True)
class LostState:
    """What an engine had under way for it is gone: it begins again, after a while that grows."""

    failure: HeadwaterError


@dataclass(frozen=True)
class Strayed:
    """Its table cannot become right any more, and a new load will be."""

    because: str


@dataclass(frozen=True)
class Outgrown:
    """Loading it anew is quicker than taking in what waits; it could go on all the same."""

    because: str


@dataclass(frozen=True)
class Failed:
    """It cannot go on, or cannot be brought up, and trying again does not help."""

    failure: HeadwaterError


@dataclass(frozen=True)
class Halted:
    """What was under way has been ended, so that something else can be done."""


@dataclass(frozen=True)
class ReloadAsked:
    """Somebody waits for a new load."""

    request: Request
    has_table: bool


@dataclass(frozen=True)
class FileChanged:
    """Its file is new, or another."""


@dataclass(frozen=True)
class Dropped:
    """Its tables, or its file, were taken away; `failure` tells whoever waits for it."""

    failure: HeadwaterError


LifeEvent: TypeAlias = (
    Opened
    | LoadBegun
    | RepairBegun
    | Loaded
    | Interrupted
    | LostState
    | Strayed
    | Outgrown
    | Failed
    | Halted
    | ReloadAsked
    | FileChanged
    | Dropped
)


# The table


class Do(Enum):
    """What is to be done after a step."""

    OPEN = "open the table and maintain it"
    LOAD = "load the view and maintain it"
    ANSWER = "tell whoever waits for the load how it went"


@dataclass(frozen=True)
class Step:
    to: LifeState
    do: frozenset[Do] = frozenset()


class Refused(Enum):
    """Why something cannot happen to a view."""

    UNDER_WAY = "something is under way already"
    HALT_FIRST = "what is under way has to be halted first"
    NOTHING_UNDER_WAY = "nothing is under way"
    NOT_LOADING = "it is not being loaded"
    ENDED = "somebody has to act first"


_WAIT = Step(LifeState.WAITING)
_WAIT_AND_TELL = Step(LifeState.WAITING, frozenset({Do.ANSWER}))
_STOP = Step(LifeState.STOPPED, frozenset({Do.ANSWER}))
_DROP = Step(LifeState.DROPPED, frozenset({Do.ANSWER}))
_RUN = Step(LifeState.RUNNING, frozenset({Do.ANSWER}))

_Row: TypeAlias = Mapping[type[LifeEvent], Step | Refused]

_WAITING: _Row = {
    Opened: Step(LifeState.RUNNING, frozenset({Do.OPEN, Do.ANSWER})),
    LoadBegun: Step(LifeState.LOADING, frozenset({Do.LOAD})),
    RepairBegun: Step(LifeState.REPAIRING, frozenset({Do.LOAD})),
    Loaded: Refused.NOTHING_UNDER_WAY,
    Interrupted: _WAIT_AND_TELL,
    LostState: _WAIT,
    Strayed: _WAIT,
    Outgrown: Refused.NOTHING_UNDER_WAY,
    Failed: _STOP,
    Halted: Refused.NOTHING_UNDER_WAY,
    ReloadAsked: _WAIT,
    FileChanged: _WAIT,
    Dropped: _DROP,
}
_RUNNING: _Row = {
    Opened: Refused.UNDER_WAY,
    LoadBegun: Refused.UNDER_WAY,
    RepairBegun: Refused.UNDER_WAY,
    Loaded: Refused.NOT_LOADING,
    Interrupted: _WAIT_AND_TELL,
    LostState: _WAIT,
    Strayed: _WAIT,
    Outgrown: _WAIT,
    Failed: _STOP,
    Halted: _WAIT,
    ReloadAsked: Refused.HALT_FIRST,
    FileChanged: Refused.HALT_FIRST,
    Dropped: Refused.HALT_FIRST,
}
_ENDED: _Row = {
    Opened: Refused.ENDED,
    LoadBegun: Refused.ENDED,
    RepairBegun: Refused.ENDED,
    Loaded: Refused.NOTHING_UNDER_WAY,
    Interrupted: Refused.NOTHING_UNDER_WAY,
    LostState: Refused.NOTHING_UNDER_WAY,
    Strayed: Refused.NOTHING_UNDER_WAY,
    Outgrown: Refused.NOTHING_UNDER_WAY,
    Failed: Refused.NOTHING_UNDER_WAY,
    Halted: Refused.NOTHING_UNDER_WAY,
    ReloadAsked: _WAIT,
    FileChanged: _WAIT,
    Dropped: _DROP,
}
_LOADING: _Row = {**_RUNNING, Loaded: _RUN, Outgrown: Refused.UNDER_WAY}
TABLE: Mapping[LifeState, _Row] = {
    LifeState.WAITING: _WAITING,
    LifeState.LOADING: _LOADING,
    LifeState.REPAIRING: _LOADING,
    LifeState.RUNNING: _RUNNING,
    LifeState.STOPPED: _ENDED,
    LifeState.DROPPED: _ENDED,
}


# The machine


@dataclass(frozen=True)
class Life:
    """One view's life so far."""

    state: LifeState = LifeState.WAITING
    failure: HeadwaterError | None = None
    """Why it waits or has stopped."""
    anew: bool = False
    """Whether its table is to be replaced by a new load."""
    because: str = ""
    """Why, if nobody has asked for it."""
    recomputes: bool = False
    """Whether that is only quicker: if it does not succeed, it goes on with the table it has."""
    recompute_at: float = 0.0
    """From when on it may be recomputed."""
    note: str = ""
    """What happened to it that a reader should know."""
    retry_at: float = 0.0
    losses: int = 0
    """How often in a row what an engine had under way for it was lost."""
    lost_at: float = 0.0
    """When that was last."""
    requests: tuple[Request, ...] = ()
    """Who waits for its load."""

    @property
    def shown(self) -> str:
        """Its state in words: waiting, loading, running, or stopped."""
        return _SHOWN.get(self.state, self.state.value)

    @property
    def is_given_up(self) -> bool:
        """Whether it cannot go on by itself, or not for long, so that nobody should wait for it."""
        if isinstance(self.failure, StateLostError):
            return self.losses > _PATIENCE
        return self.failure is not None

    @property
    def note_now(self) -> str:
        """What happened to it, or is under way, that a reader should know."""
        if not (self.is_loading and self.because):
            return self.note
        return f"It is {self._anew_in_words}: {self.because}"

    @property
    def _anew_in_words(self) -> str:
        return "recomputed" if self.recomputes else "loaded anew"

    @property
    def is_as_before(self) -> bool:
        """Whether its table is, or is made, as the one that it has, whatever its file says."""
        return not self.anew or self.recomputes

    @property
    def is_loading(self) -> bool:
        return self.state in (LifeState.LOADING, LifeState.REPAIRING)

    def is_due(self, now: float) -> bool:
        """Whether it is to be brought up."""
        return self.state is LifeState.WAITING and now >= self.retry_at

    def after(self, event: LifeEvent, now: float) -> tuple[Life, frozenset[Do]]:
        """The life after something happened, and what is to be done."""
        step = TABLE[self.state][type(event)]
        if isinstance(step, Refused):
            raise AssertionError(f"{event}: the view is {self.state.value}, {step.value}")
        told = replace(self._told(event, now), state=step.to)
        return (replace(told, requests=()) if Do.ANSWER in step.do else told), step.do

    def _told(self, event: LifeEvent, now: float) -> Life:
        if self.recomputes and not isinstance(event, RepairBegun | Loaded):
            return self._maintained(now)._told(event, now)
        at_once = replace(self, failure=None, retry_at=now)
        match event:
            case Opened() | LoadBegun() | RepairBegun():
                return replace(self, failure=None)
            case Loaded(at):
                anew = self._anew_in_words
                note = f"It was {anew} at {at}: {self.because}" if self.because else self.note
                return replace(self, anew=False, because="", recomputes=False, note=note)
            case Interrupted(failure):
                return replace(self, failure=failure, retry_at=now + RETRY_S)
            case LostState(failure):
                losses = self.losses + 1 if now - self.lost_at < FORGETS_S else 1
                lost = replace(self, failure=failure, losses=losses, lost_at=now)
                return replace(lost, retry_at=now + pause_s(losses))
            case Failed(failure) | Dropped(failure):
                return replace(self, failure=failure)
            case Strayed(because):
                return replace(at_once, anew=True, because=because)
            case Outgrown(because):
                return replace(at_once, anew=True, because=because, recomputes=True)
            case ReloadAsked(request, has_table):
                asked = replace(at_once, requests=(*self.requests, request))
                return replace(asked, anew=has_table, because="", note="")
            case Halted() | FileChanged():
                return at_once

    def _maintained(self, now: float) -> Life:
        """The same if it is not recomputed after all."""
        later = now + RECOMPUTE_PAUSE_S
        return replace(self, anew=False, because="", recomputes=False, recompute_at=later)


def pause_s(losses: int) -> float:
    """How long a view waits that has lost so often in a row what was under way for it."""
    return min(2.0 ** (losses - 2), _LONGEST_PAUSE_S) if losses > 1 else 0.0


# What a fact means for a view


def beginning(life: Life, has_table: bool) -> Opened | LoadBegun | RepairBegun:
    """How a view begins whose sources can be read."""
    if not has_table:
        return LoadBegun()
    return RepairBegun() if life.anew else Opened()


def ending(
    view: str,
    failure: HeadwaterError,
    has_table: bool,
    by_itself: bool,
    recomputes: bool = False,
) -> LifeEvent:
    """What an end of a view's maintenance means; `by_itself`: whether it may load itself anew.

    One that is recomputed need not be: it goes on with the table that it has.
    """
    event = _ending(view, failure, has_table, by_itself)
    return Interrupted(failure) if recomputes and has_table and isinstance(event, Failed) else event


def _ending(view: str, failure: HeadwaterError, has_table: bool, by_itself: bool) -> LifeEvent:
    match failure:
        case NodeLostError() | ImpatientError():
            return Halted()  # a new life begins at once, or as soon as the node is back
        case StateLostError():
            return LostState(failure)
        case LostConnectionError() | RefusedError() | NoExecutorError() | StoreLostError():
            return Interrupted(failure)
        case FencedError() if has_table:
            return Interrupted(failure)  # a runner that was replaced has opened it meanwhile
        case FencedError():
            removed = f"The tables of view {view} were removed."
            return Failed(EngineError(removed, f"Load it anew: headwater reload {view}."))
        case GapError() if failure.is_repair or by_itself:
            return Strayed(failure.reason)
        case OutgrownError():
            return Outgrown(failure.message)
        case _:
            return Failed(failure)


def with_way_out(views: Sequence[str], failure: HeadwaterError) -> HeadwaterError:
    """Why views have stopped, with the command that leads out of the stop."""
    command = f"headwater reload {' '.join(views)}"
    if isinstance(failure, BrokenLogError) or command in failure.hint + failure.message:
        return failure
    kinds = (ExpressionError, InputError, SourceError, EngineError)
    kind = next((kind for kind in kinds if isinstance(failure, kind)), HeadwaterError)
    then = f"When that is mended, run '{command}'."
    return kind(failure.message, f"{failure.hint} {then}".lstrip())


def unsound(view: str, by_itself: bool) -> Strayed | Failed:
    """What it means that a view holds rows with a count below zero.

    All algorithms that run here commit in order, so that no count is below zero for a while.
    """
    because = (
        "it had rows that were taken away more often than they were there, so a source has "
        "reported what was not so."
    )
    if by_itself:
        return Strayed(because)
    hint = f"Load it anew: headwater reload {view}; until then readers keep its last state."
    return Failed(HeadwaterError(f"View {view} cannot go on: {because}", hint))
