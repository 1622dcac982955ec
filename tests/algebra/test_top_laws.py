"""Tops are functions of what is stored: key by key where they have keys, in whatever order."""

from collections import defaultdict
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.tops import PART, Top, evaluate_top
from headwater.algebra.values import Row
from tests.tops import STORED, random_stored, random_top

SEEDS = st.integers(0, 2**32)


def by_key(stored: Rows, keys: dict[int | None, tuple[str, ...]]) -> list[Rows]:
    """The stored rows of each key; those of parts that the top does not read are left out."""
    groups: dict[Row, dict[Row, int]] = defaultdict(dict)
    at_part = STORED.positions[PART]
    for row, count in stored.items():
        number = row[at_part]
        assert isinstance(number, int)
        if number in keys:
            key = tuple(row[STORED.positions[name]] for name in keys[number])
            groups[key][row] = count
    return [Rows(STORED, counts) for counts in groups.values()]


@given(seed=SEEDS, depth=st.integers(1, 3))
def test_a_keyed_top_is_the_sum_of_what_it_is_for_each_key(seed: int, depth: int) -> None:
    random = Random(seed)
    top, stored = random_top(random, depth), random_stored(random)
    keys = keying(top)
    assume(keys is not None)
    assert keys is not None
    parts = [evaluate_top(top, rows) for rows in by_key(stored, dict(keys))]
    assert Rows.sum(top.schema, parts) == evaluate_top(top, stored)


@given(seed=SEEDS, depth=st.integers(1, 3))
def test_a_top_does_not_depend_on_the_order_of_rows(seed: int, depth: int) -> None:
    random = Random(seed)
    top, stored = random_top(random, depth), random_stored(random)
    items = list(stored.items())
    random.shuffle(items)
    assert evaluate_top(top, Rows(STORED, dict(items))) == evaluate_top(top, stored)


def test_many_random_tops_have_keys() -> None:
    """Otherwise the law above would say little."""

    def is_keyed(top: Top) -> bool:
        return keying(top) is not None

    assert sum(is_keyed(random_top(Random(seed), 2)) for seed in range(200)) > 50
