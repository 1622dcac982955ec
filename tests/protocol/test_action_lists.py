"""Only what an action list touches has to be looked at, and never more than that matters."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.protocol.action_lists import Bag, change_by, look_ups
from headwater.protocol.effects import Action, Add, AddNew, KeyDelete, Replace, apply_actions
from headwater.protocol.look_ups import LookUp
from tests.strategies import row, signed

SCHEMA = Schema.of([("a", INT), ("b", TEXT), ("c", INT)])
ROWS = signed(SCHEMA)


def key_deletes() -> st.SearchStrategy[Action]:
    def of(columns: tuple[str, ...]) -> st.SearchStrategy[Action]:
        keys = st.lists(row(SCHEMA.only(columns)), max_size=3)
        return keys.map(lambda found: KeyDelete(columns, tuple(found)))

    return st.sampled_from([("a",), ("b",), ("a", "c")]).flatmap(of)


WITHOUT_REPLACE = st.lists(st.one_of(ROWS.map(Add), ROWS.map(AddNew), key_deletes()), max_size=5)
LISTS = st.lists(
    st.one_of(ROWS.map(Add), ROWS.map(AddNew), key_deletes(), ROWS.map(Replace)), max_size=5
)


@given(ROWS, LISTS)
def test_the_change_of_a_list_carries_it_out(stored: Rows, actions: list[Action]) -> None:
    after = stored + change_by(actions, Bag(stored))
    assert after == apply_actions(stored, tuple(actions))


@dataclass(frozen=True)
class More(Bag):
    """A store that finds more rows than were asked for."""

    others: Rows

    def touched(self, look_ups: Sequence[LookUp]) -> Rows:
        wanted = super().touched(look_ups)
        return wanted + self.others.among(self.rows - wanted)


@given(ROWS, WITHOUT_REPLACE)
def test_rows_that_nobody_asked_for_change_nothing(stored: Rows, actions: list[Action]) -> None:
    found = change_by(actions, Bag(stored))
    assert change_by(actions, More(stored, stored)) == found


def test_what_only_adds_looks_nothing_up() -> None:
    assert look_ups([Add(Rows.of(SCHEMA, [(1, "x", 2)]))]) == ()


def test_keys_of_several_actions_are_looked_up_together() -> None:
    actions = [KeyDelete(("a",), ((1,),)), KeyDelete(("a",), ((2,), (1,)))]
    assert look_ups(actions) == (LookUp(("a",), frozenset({(1,), (2,)})),)
