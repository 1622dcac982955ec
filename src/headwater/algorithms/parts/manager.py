"""What view managers have in common: one event in, taken by its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeAlias, TypeVar

from headwater.protocol.effects import Effect
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.look_ups import LookUp
from headwater.protocol.transactions import Transaction

State = TypeVar("State")
Effects: TypeAlias = tuple[Effect, ...]


class Manager(ABC, Generic[State]):
    """A view manager that takes transactions, answers and silence by a method each."""

    def handle(self, state: State, event: Event) -> tuple[State, Effects]:
        match event:
            case TransactionArrived(transaction):
                return self.take_transaction(state, transaction)
            case AnswerArrived():
                return self.take_answer(state, event)
            case Idled():
                return self.take_idle(state)
            case MessageArrived():
                raise AssertionError("this protocol has no nodes at the sources")

    def wants_idle(self, state: State) -> bool:
        return False

    def looks_up(self, state: State, event: Event) -> tuple[LookUp, ...]:
        return ()

    @abstractmethod
    def take_transaction(self, state: State, transaction: Transaction) -> tuple[State, Effects]: ...

    @abstractmethod
    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, Effects]: ...

    def take_idle(self, state: State) -> tuple[State, Effects]:
        return state, ()
