"""What one event costs a view manager of the PVM family does not depend on how much waits."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from headwater.algorithms.pvm import State
from headwater.bench.backlog import MANAGERS, Backlog, backlog


def instructions(measured: Backlog, rounds: int) -> int:
    """How many instructions of Python it takes: a cost that no busy machine changes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in range(rounds):
            measured.work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", MANAGERS)
def test_an_event_costs_the_same_however_many_transactions_wait(name: str) -> None:
    few, many = backlog(name, 1000), backlog(name, 8000)
    for measured in (few, many):
        for _ in range(4):
            measured.work()
    assert instructions(many, 12) < 2 * instructions(few, 12)


@pytest.mark.parametrize("name", MANAGERS)
def test_a_backlog_is_worked_off_and_nothing_is_left(name: str) -> None:
    measured = backlog(name, 1000)
    while measured.asked:
        measured.answer()
    assert measured.committed == 1000
    assert measured.state == State(arrived=1000)


def test_updates_taken_ahead_of_one_that_gets_no_answer_are_bounded() -> None:
    measured = backlog("pvm-cc, p 4", 1000)
    held = measured.asked.popleft()
    while measured.asked:
        measured.answer()
    state = measured.state
    assert isinstance(state, State)
    assert measured.committed == 0
    assert len(state.log) == 256
    assert len(state.waiting) == 1000 - 256
    measured.asked.append(held)
    while measured.asked:
        measured.answer()
    assert measured.committed == 1000
