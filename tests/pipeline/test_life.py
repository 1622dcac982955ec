"""A view's life: the whole table, and random walks through it."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import get_args

import pytest

from headwater.errors import (
    BrokenLogError,
    EngineError,
    ExpressionError,
    FencedError,
    HeadwaterError,
    InputError,
    LostConnectionError,
    NoExecutorError,
    RefusedError,
    SourceError,
    StateLostError,
    one_of,
)
from headwater.pipeline.life import (
    FORGETS_S,
    RECOMPUTE_PAUSE_S,
    RETRY_S,
    TABLE,
    Do,
    Dropped,
    Failed,
    FileChanged,
    Halted,
    Interrupted,
    Life,
    LifeEvent,
    LifeState,
    LoadBegun,
    Loaded,
    LostState,
    Opened,
    Outgrown,
    OutgrownError,
    Refused,
    ReloadAsked,
    RepairBegun,
    Step,
    Strayed,
    beginning,
    ending,
    unsound,
    with_way_out,
)
from headwater.pipeline.requests import Request
from headwater.project.gaps import GapError
from headwater.sources.contract import Broken
from headwater.storage.bucket import DeniedError, UnansweredError
from headwater.warehouse.own_files import store_trouble

FAILURE = HeadwaterError("It failed.")
LOST = LostConnectionError("It is down.")
GAP = GapError("v", Broken({}, "it was emptied", {"at": 1}))
REPAIRED = GapError("v", Broken(None, "it was repaired", {}))
REQUEST = Request("1", "reload", "v")
EVENTS: dict[type[LifeEvent], LifeEvent] = {
    type(event): event
    for event in (
        Opened(),
        LoadBegun(),
        RepairBegun(),
        Loaded("noon"),
        Interrupted(LOST),
        LostState(FAILURE),
        Strayed("it was emptied."),
        Outgrown("much waits."),
        Failed(FAILURE),
        Halted(),
        ReloadAsked(REQUEST, has_table=True),
        FileChanged(),
        Dropped(FAILURE),
    )
}
UNDER_WAY = {LifeState.LOADING, LifeState.REPAIRING, LifeState.RUNNING}
ENDED = {LifeState.STOPPED, LifeState.DROPPED}


def test_the_table_has_every_event_in_every_state() -> None:
    assert set(EVENTS) == set(get_args(LifeEvent))
    assert set(TABLE) == set(LifeState)
    assert all(set(row) == set(EVENTS) for row in TABLE.values())


@pytest.mark.parametrize("state", LifeState)
@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: type(event).__name__)
def test_a_step_is_what_the_table_says_or_is_refused_by_name(
    state: LifeState, event: LifeEvent
) -> None:
    life = Life(state)
    match TABLE[state][type(event)]:
        case Step(to, do):
            after, done = life.after(event, 0.0)
            assert (after.state, done) == (to, do)
        case Refused(value=reason):
            with pytest.raises(AssertionError, match=f"the view is {state.value}, {reason}"):
                life.after(event, 0.0)


def test_only_a_view_that_waits_begins_something() -> None:
    steps = [(state, step) for state, row in TABLE.items() for step in row.values()]
    begun = {(state, step.to) for state, step in steps if isinstance(step, Step)
             and step.do & {Do.OPEN, Do.LOAD}}  # fmt: skip
    assert begun == {(LifeState.WAITING, state) for state in UNDER_WAY}


def test_only_somebody_who_acts_leads_out_of_a_stop_or_a_drop() -> None:
    for state in ENDED:
        leading = {event for event, step in TABLE[state].items() if isinstance(step, Step)}
        assert leading == {ReloadAsked, FileChanged, Dropped}


# What facts mean


@pytest.mark.parametrize(
    ("anew", "has_table", "expected"),
    [
        (False, False, LoadBegun()),
        (True, False, LoadBegun()),
        (False, True, Opened()),
        (True, True, RepairBegun()),
    ],
)
def test_a_view_is_opened_if_it_has_a_table_that_is_to_stay(
    anew: bool, has_table: bool, expected: LifeEvent
) -> None:
    assert beginning(Life(anew=anew), has_table) == expected


def test_a_lost_connection_and_a_table_that_another_has_opened_are_tried_again() -> None:
    replaced = FencedError("Another has opened it.")
    assert ending("v", LOST, has_table=True, by_itself=False) == Interrupted(LOST)
    away = NoExecutorError("There is no worker.")
    assert ending("v", away, has_table=False, by_itself=False) == Interrupted(away)
    assert ending("v", replaced, has_table=True, by_itself=False) == Interrupted(replaced)


def test_a_view_waits_for_an_object_store_that_does_not_answer_and_not_for_one_that_refuses() -> (
    None
):
    silent = store_trouble(UnansweredError(None, "no answer (SlowDown)", "s3://lake/x"))
    assert ending("v", silent, has_table=True, by_itself=False) == Interrupted(silent)
    denied = store_trouble(DeniedError(None, "the token has expired", "s3://lake/x"))
    assert ending("v", denied, has_table=True, by_itself=False) == Failed(denied)


def test_a_view_whose_rows_are_gone_with_an_executor_goes_on_from_its_last_commit() -> None:
    lost = StateLostError("gone")
    assert ending("v", lost, has_table=True, by_itself=False) == LostState(lost)


def test_who_loses_executors_again_and_again_waits_longer_each_time() -> None:
    lost, now = LostState(StateLostError("gone")), 1000.0
    life, waited = Life(), []
    for _ in range(9):
        life, _ = Life.after(replace(life, state=LifeState.RUNNING), lost, now)
        waited.append(life.retry_at - now)
        assert (life.shown, life.failure) == ("waiting", lost.failure)
        assert life.is_given_up == (len(waited) > 7)
        now = life.retry_at
        life, _ = life.after(Opened(), now)
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    life, _ = life.after(lost, now + FORGETS_S)
    assert life.retry_at == now + FORGETS_S


def test_a_view_whose_role_is_refused_waits_until_it_has_its_rights_back() -> None:
    refused = RefusedError("It may not.", "As its owner run: GRANT;")
    assert ending("v", refused, True, False) == Interrupted(refused)
    several = one_of([refused, RefusedError("Nor that.")])
    assert ending("v", several, True, False) == Interrupted(several)
    mixed = one_of([refused, SourceError("It is no table.")])
    assert ending("v", mixed, True, False) == Failed(mixed)


@pytest.mark.parametrize(
    "kind", [HeadwaterError, InputError, ExpressionError, SourceError, EngineError]
)
def test_why_a_view_has_stopped_ends_with_the_command_that_leads_out(
    kind: type[HeadwaterError],
) -> None:
    told = with_way_out(["v", "w"], kind("It is wrong.", "Run 'headwater setup app'."))
    assert type(told) is kind
    way_out = "When that is mended, run 'headwater reload v w'."
    assert str(told) == f"It is wrong. Run 'headwater setup app'. {way_out}"


@pytest.mark.parametrize("failure", [GAP, BrokenLogError("app", "it is gone.")])
def test_what_names_its_own_command_needs_no_other_way_out(failure: HeadwaterError) -> None:
    assert with_way_out(["v"], failure) is failure


def test_a_view_whose_tables_were_removed_stops_and_says_so() -> None:
    found = ending("v", FencedError("It is gone."), has_table=False, by_itself=True)
    assert isinstance(found, Failed)
    assert isinstance(found.failure, EngineError)
    assert (
        str(found.failure) == "The tables of view v were removed. Load it anew: headwater reload v."
    )


def test_a_view_is_loaded_anew_behind_a_gap_if_it_may_be() -> None:
    assert ending("v", GAP, has_table=True, by_itself=True) == Strayed("it was emptied.")
    assert ending("v", GAP, has_table=True, by_itself=False) == Failed(GAP)
    assert isinstance(unsound("v", by_itself=True), Strayed)
    assert isinstance(unsound("v", by_itself=False), Failed)


def test_every_view_follows_a_source_that_somebody_has_repaired() -> None:
    assert ending("v", REPAIRED, has_table=True, by_itself=False) == Strayed("it was repaired.")


def test_a_view_for_which_too_much_waits_is_recomputed_and_says_why() -> None:
    event = ending("v", OutgrownError("much waits."), has_table=True, by_itself=False)
    assert event == Outgrown("much waits.")
    life, _ = Life(LifeState.RUNNING).after(event, 0.0)
    assert life.is_due(0.0)
    assert life.is_as_before, "its file has no say in that"
    assert beginning(life, has_table=True) == RepairBegun()
    life, _ = life.after(RepairBegun(), 0.0)
    assert life.note_now == "It is recomputed: much waits."
    life, _ = life.after(Loaded("noon"), 0.0)
    assert life.note_now == "It was recomputed at noon: much waits."
    assert (life.state, life.anew, life.recomputes) == (LifeState.RUNNING, False, False)


@pytest.mark.parametrize("failure", [LOST, FAILURE, FencedError("Another has opened it.")])
def test_a_view_that_cannot_be_recomputed_goes_on_with_the_table_that_it_has(
    failure: HeadwaterError,
) -> None:
    life = Life(LifeState.RUNNING)
    for event in (Outgrown("much waits."), RepairBegun()):
        life, _ = life.after(event, 0.0)
    life, _ = life.after(ending("v", failure, True, False, life.recomputes), 100.0)
    assert life.state is LifeState.WAITING
    assert beginning(life, has_table=True) == Opened()
    assert life.recompute_at == 100.0 + RECOMPUTE_PAUSE_S


def test_a_file_that_changes_while_a_view_is_recomputed_is_looked_at_as_always() -> None:
    life = Life(LifeState.RUNNING)
    for event in (Outgrown("much waits."), RepairBegun(), Halted(), FileChanged()):
        life, _ = life.after(event, 0.0)
    assert beginning(life, has_table=True) == Opened()


# Walks


@dataclass
class Walk:
    """A view whose driver does what the life says, while anything that may happen does."""

    random: Random
    by_itself: bool
    life: Life = field(default_factory=Life)
    now: float = 0.0
    has_table: bool = False
    under_way: int = 0
    answered: int = 0
    asked: int = 0

    def step(self) -> None:
        self.now += self.random.choice([0.0, 1.0, RETRY_S])
        before, event = self.life, self.event()
        self.life, do = before.after(event, self.now)
        self.under_way += bool(do & {Do.OPEN, Do.LOAD})
        if before.state in UNDER_WAY and self.life.state not in UNDER_WAY:
            self.under_way -= 1
        if isinstance(event, Loaded):
            self.has_table = True
        if isinstance(event, Dropped):
            self.has_table = False
        if Do.ANSWER in do:
            self.answered += len(before.requests)
        self.check(before, event)

    def event(self) -> LifeEvent:
        """Something that a driver may say now."""
        by_somebody: list[LifeEvent] = [
            FileChanged(),
            Dropped(FAILURE),
            ReloadAsked(REQUEST, self.has_table),
        ]
        acts = self.random.random() < 0.2
        if self.life.state in UNDER_WAY:
            failures = [LOST, GAP, REPAIRED, FAILURE, FencedError("It is gone.")]
            if not self.life.is_loading:
                failures.append(OutgrownError("much waits."))
            failure, recomputes = self.random.choice(failures), self.life.recomputes
            end = ending("v", failure, self.has_table, self.by_itself, recomputes)
            ends: list[LifeEvent] = [Halted(), end]
            return Loaded("noon") if self.life.is_loading and not acts else self.random.choice(ends)
        if self.life.is_due(self.now) and not acts:
            tries: list[LifeEvent] = [
                Interrupted(LOST),
                Failed(FAILURE),
                unsound("v", self.by_itself),
            ]
            return self.random.choice([beginning(self.life, self.has_table), *tries])
        event = self.random.choice(by_somebody)
        self.asked += isinstance(event, ReloadAsked)
        return event

    def check(self, before: Life, event: LifeEvent) -> None:
        life = self.life
        assert self.under_way == (life.state in UNDER_WAY), "never two at once"
        assert self.answered + len(life.requests) == self.asked, "nobody is forgotten"
        if life.state in ENDED:
            assert life.failure is not None
            assert not life.requests
            assert not life.is_due(self.now + 1e9)
        if before.state in ENDED and life.state not in ENDED:
            assert isinstance(event, FileChanged | ReloadAsked), "somebody has acted"
        if life.anew and not before.anew and not self.by_itself:
            asked = isinstance(event, ReloadAsked | Outgrown)
            assert asked or event == Strayed(REPAIRED.reason), "not loaded anew by itself"
        if life.state is LifeState.REPAIRING:
            assert self.has_table
        if life.recomputes:
            assert life.anew
            assert self.has_table
            assert life.state in (LifeState.WAITING, LifeState.REPAIRING)


@pytest.mark.parametrize("by_itself", [True, False])
def test_whatever_happens_nothing_is_under_way_twice_and_nobody_waits_in_vain(
    by_itself: bool,
) -> None:
    for seed in range(300):
        walk = Walk(Random(seed), by_itself)
        for _ in range(60):
            walk.step()


def test_a_view_that_is_loaded_anew_by_itself_says_why() -> None:
    life = Life(LifeState.RUNNING)
    for event in (Strayed("it was emptied."), RepairBegun(), Loaded("noon")):
        life, _ = life.after(event, 0.0)
    assert life.note == "It was loaded anew at noon: it was emptied."


def test_a_view_that_was_interrupted_is_due_after_a_while() -> None:
    life, _ = Life(LifeState.RUNNING).after(Interrupted(LOST), 100.0)
    assert not life.is_due(100.0)
    assert life.is_due(100.0 + RETRY_S)
