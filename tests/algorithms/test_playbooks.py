"""What each baseline does with one event after the other: events in, effects out."""

from typing import Any

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algorithms.conventional import Conventional
from headwater.algorithms.copies import copies
from headwater.algorithms.recompute import Recompute
from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS, algorithm, make_manager
from headwater.check.levels import parse_level
from headwater.errors import InputError
from headwater.protocol.effects import (
    Add,
    Apply,
    Ask,
    Effect,
    KeyDelete,
    Replace,
    apply_actions,
)
from headwater.protocol.events import AnswerArrived, Event, Idled, TransactionArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.notation import show_query
from headwater.protocol.transactions import Transaction, Update

AB, BC = Schema.of([("A", INT), ("B", INT)]), Schema.of([("B", INT), ("C", INT)])
VIEW = parse_view(
    "SELECT r1.A, r2.C FROM r1, r2 WHERE r1.B = r2.B",
    [Relation("r1", "x", AB), Relation("r2", "x", BC)],
)
KEYED = parse_view(
    "SELECT r1.A, r2.C FROM r1, r2 WHERE r1.B = r2.B",
    [Relation("r1", "x", AB, ("A",)), Relation("r2", "y", BC, ("C",))],
)
CONTENTS = Rows.of(VIEW.schema, [[1, 3]])


def arrived(name: str, *updates: tuple[str, list[int], int]) -> TransactionArrived:
    schemas = {"r1": AB, "r2": BC, "other": AB}
    made = tuple(Update(r, Rows.of(schemas[r], [row], sign)) for r, row, sign in updates)
    return TransactionArrived(Transaction(name, made, ("x",), ("x",)))


def answer(label: str, *rows: list[int], source: str = "x") -> AnswerArrived:
    return AnswerArrived(source, label, (Rows.of(VIEW.schema, rows),))


class Player:
    """Feeds a manager, and writes down its effects in words."""

    def __init__(self, manager: ViewManager[Any]) -> None:
        self.manager = manager
        self.state = manager.start()

    def tell(self, event: Event) -> list[str]:
        self.state, effects = self.manager.handle(self.state, event)
        return [described(effect) for effect in effects]

    def wants_idle(self) -> bool:
        return self.manager.wants_idle(self.state)


def described(effect: Effect) -> str:
    if isinstance(effect, Ask):
        return (
            f"ask {effect.source} {effect.label}: {' and '.join(map(show_query, effect.queries))}"
        )
    assert isinstance(effect, Apply)
    shown = []
    for action in effect.actions:
        match action:
            case Add(rows):
                shown.append(f"add {rows}")
            case Replace(rows):
                shown.append(f"replace by {rows}")
            case KeyDelete(columns, keys):
                shown.append(f"delete {', '.join(columns)} = {keys}")
    return f"{' and '.join(shown)} for {', '.join(effect.transactions)}"


# Conventional


def test_conventional_asks_what_an_insertion_changes_and_adds_the_answer() -> None:
    player = Player(Conventional(VIEW))
    assert player.tell(arrived("T1", ("r2", [2, 5], 1))) == ["ask x Q1: Π_{A,C}(r1 ⋈ [2, 5])"]
    assert player.tell(answer("Q1", [1, 5])) == ["add [1, 5] for T1"]


def test_conventional_over_one_source_asks_for_deletions_too() -> None:
    player = Player(Conventional(VIEW))
    found = player.tell(arrived("T1", ("r1", [1, 2], -1)))
    assert found == ["ask x Q1: Π_{A,C}((-[1, 2]) ⋈ r2)"]


def test_conventional_asks_for_each_update_of_a_transaction_by_itself() -> None:
    player = Player(Conventional(VIEW))
    found = player.tell(arrived("T1", ("r2", [2, 5], 1), ("r1", [4, 2], 1)))
    assert found == [
        "ask x Q1: Π_{A,C}(r1 ⋈ [2, 5])",
        "ask x Q2: Π_{A,C}([4, 2] ⋈ r2)",
    ]


def test_conventional_takes_answers_in_any_order() -> None:
    player = Player(Conventional(VIEW))
    player.tell(arrived("T1", ("r2", [2, 5], 1)))
    player.tell(arrived("T2", ("r1", [4, 2], 1)))
    assert player.tell(answer("Q2", [4, 3])) == ["add [4, 3] for T2"]
    assert player.tell(answer("Q1", [1, 5])) == ["add [1, 5] for T1"]


def test_conventional_over_several_sources_deletes_by_key() -> None:
    player = Player(Conventional(KEYED))
    assert player.tell(arrived("T1", ("r1", [1, 2], -1))) == ["delete A = ((1,),) for T1"]


def test_conventional_ignores_relations_that_the_view_does_not_read() -> None:
    assert Player(Conventional(VIEW)).tell(arrived("T1", ("other", [1, 2], 1))) == []


# Recompute


def test_recompute_asks_for_the_view_and_puts_the_answer_in_its_place() -> None:
    player = Player(Recompute(VIEW))
    assert player.tell(arrived("T1", ("r2", [2, 5], 1))) == ["ask x Q1: Π_{A,C}(r1 ⋈ r2)"]
    assert player.tell(answer("Q1", [1, 3], [1, 5])) == ["replace by ([1, 3], [1, 5]) for T1"]


def test_recompute_asks_one_question_at_a_time() -> None:
    player = Player(Recompute(VIEW))
    player.tell(arrived("T1", ("r2", [2, 5], 1)))
    assert player.tell(arrived("T2", ("r2", [2, 6], 1))) == []
    assert player.tell(answer("Q1", [1, 5])) == ["replace by [1, 5] for T1, T2"]


def test_recompute_asks_no_more_for_what_an_answer_has_shown() -> None:
    player = Player(Recompute(VIEW))
    for name in ("T1", "T2"):
        player.tell(arrived(name, ("r2", [2, 5], 1)))
    player.tell(answer("Q1", [1, 5]))
    assert player.tell(Idled()) == []


def test_recompute_waits_for_as_many_updates_as_it_was_told() -> None:
    player = Player(Recompute(VIEW, every=3))
    assert player.tell(arrived("T1", ("r2", [2, 5], 1))) == []
    assert player.tell(arrived("T2", ("r2", [2, 6], 1), ("r2", [2, 7], 1))) != []


def test_recompute_does_the_rest_when_nothing_goes_on() -> None:
    player = Player(Recompute(VIEW, every=3))
    wanted = [player.wants_idle()]
    player.tell(arrived("T1", ("r2", [2, 5], 1)))
    wanted.append(player.wants_idle())
    assert player.tell(Idled()) == ["ask x Q1: Π_{A,C}(r1 ⋈ r2)"]
    assert [*wanted, player.wants_idle()] == [False, True, False]


# Copies


def test_copies_sweep_over_what_their_host_keeps() -> None:
    player = Player(copies(VIEW))
    (asked,) = player.tell(arrived("T1", ("r2", [2, 5], 1)))
    assert asked.startswith("ask x Q1^1")


# All of them


@pytest.mark.parametrize("name", ["conventional", "recompute", "copies"])
def test_a_machine_gives_the_same_for_the_same_state_and_event(name: str) -> None:
    manager = make_manager(algorithm(name), VIEW, {})
    state = manager.start()
    event = arrived("T1", ("r2", [2, 5], 1))
    first, again = manager.handle(state, event), manager.handle(state, event)
    assert first == again
    assert hash(first[0]) == hash(again[0])


def test_an_action_list_is_applied_in_order() -> None:
    actions = (
        Add(Rows.of(VIEW.schema, [[1, 5], [2, 5]])),
        KeyDelete(("A",), ((1,),)),
        Add(Rows.of(VIEW.schema, [[1, 9]])),
    )
    assert apply_actions(CONTENTS, actions) == Rows.of(VIEW.schema, [[2, 5], [1, 9]])


def test_replacing_forgets_what_was_there() -> None:
    new = Rows.of(VIEW.schema, [[9, 9]])
    assert apply_actions(CONTENTS, (Replace(new),)) == new


def test_an_apply_without_actions_changes_nothing() -> None:
    assert apply_actions(CONTENTS, Apply(()).actions) == CONTENTS


# The registry


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_promises_a_level_in_every_kind_of_scenario(name: str) -> None:
    promises = ALGORITHMS[name].promises
    assert tuple(promises) == SCENARIO_KINDS
    levels = {kind: parse_level(promises[kind]) for kind in SCENARIO_KINDS}
    assert all(levels["centralized"] >= level for level in levels.values())
    for easier, harder in (
        ("single-source", "single-source-local"),
        ("single-source", "multi-source"),
        ("single-source-local", "source-local"),
        ("multi-source", "source-local"),
        ("source-local", "global"),
    ):
        assert levels[easier] >= levels[harder], (easier, harder)


def test_an_unknown_algorithm_is_refused_with_a_guess() -> None:
    with pytest.raises(InputError, match=r"no algorithm 'copie'. Did you mean 'copies'\?"):
        algorithm("copie")


def test_an_unknown_parameter_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"recompute has no parameter 'evry'\. .*every"):
        make_manager(algorithm("recompute"), VIEW, {"evry": "2"})


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", ""])
def test_a_parameter_that_does_not_fit_is_refused(value: str) -> None:
    with pytest.raises(InputError, match=f"--set every={value}: "):
        make_manager(algorithm("recompute"), VIEW, {"every": value})
