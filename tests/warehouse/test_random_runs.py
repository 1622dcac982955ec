"""Random changes with folds, compactions, replaced writers and reloads in between."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import FencedError
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse import replacing
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.view_writer import ViewWriter
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import SCHEMA, definition, load, rows, vector

STEPS = 200 if os.environ.get("HEADWATER_STRESS") == "1" else 40
WEIGHTS = {"commit": 70, "fold": 8, "compact": 8, "replace": 4, "stale": 5, "reload": 5}


def random_change(random: Random, state: Rows) -> Rows:
    """Mostly deletions of what is there and insertions, sometimes below zero for a while."""
    change = {
        (random.randrange(6), random.choice(["a", "b", None])): random.choice([1, 1, 2, -1])
        for _ in range(random.randrange(4))
    }
    wanted = rows(change)
    if random.random() < 0.9:
        kept = {row: max(count, -max(state.count(row), 0)) for row, count in wanted.items()}
        wanted = Rows(SCHEMA, kept)
    below = state.negative()
    return wanted - below if random.random() < 0.5 else wanted


def reload(view: ViewTable, spark: SparkSession, contents: Rows, step: int, *, killed: bool) -> int:
    """Load the view anew; perhaps killed before the plain table follows the log."""
    with pytest.MonkeyPatch.context() as patched:
        if killed:
            patched.setattr(replacing, "settle", lambda view: None)
        commit = view.replace(
            ViewLoad(
                definition(f"SELECT {step}"),
                vector(step),
                local_frame(spark, contents),
                algorithm="",
                level="",
                runner=f"reload {step}",
            )
        )
    return commit.number


def check_all(view: ViewTable, expected: dict[int, Rows]) -> None:
    for number, state in expected.items():
        assert view.at(number).signed_rows() == state, number


@pytest.mark.parametrize("seed", [1, 2])
def test_every_version_is_the_running_sum(
    warehouse: Warehouse, spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    view = load(warehouse, spark, rows({(1, "a"): 2, (2, None): 1}))
    expected = {1: view.rows(), 2: view.rows()}
    writer = view.writer("w2")
    replaced: list[ViewWriter] = []
    folds = 0
    for step in range(STEPS):
        newest = expected[max(expected)]
        match random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]:
            case "commit":
                change = random_change(random, newest)
                commit = writer.commit(change, vector(step))
                expected[commit.number] = newest + change
            case "fold":
                folds += isinstance(view.fold(spark, "f"), ViewCommit)
            case "compact":
                view.compact(at_least=random.randrange(1, 6))
            case "replace":
                replaced.append(writer)
                writer = view.writer(f"w{step}")
                expected[writer.latest.number] = newest
            case "reload":
                contents = random_change(random, Rows.empty(SCHEMA)).positive()
                number = reload(view, spark, contents, step, killed=random.random() < 0.5)
                expected[number] = contents
                assert view.at().signed_rows() == contents
                replaced.append(writer)
                writer = view.writer(f"w{step}")
                expected[writer.latest.number] = contents
            case "stale" if replaced:
                with pytest.raises(FencedError):
                    random.choice(replaced).commit(rows({(9, "never"): 1}), vector(step))
        assert view.at().signed_rows() == expected[max(expected)]
    check_all(view, expected)
    assert folds
    frame = view.dataframe(spark)
    assert plain_from_arrow(frame.toArrow(), SCHEMA) == view.rows()
    plain = view.plain.snapshot()
    assert view.rows(plain.number) == expected[plain.number].positive()


def test_readers_beside_a_writer_folds_and_compactions_see_whole_commits(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, rows({(0, "a"): 1}))
    expected = {1: view.rows(), 2: view.rows()}
    seen: list[tuple[int, Rows]] = []
    commits = STEPS * 4
    ahead = threading.Semaphore(3)  # the writer is at most so many commits ahead of the reader
    committed = threading.Semaphore(0)

    def write() -> None:
        random = Random(3)
        with view.writer("w") as writer:
            for step in range(commits):
                newest = expected[writer.latest.number]
                removed = dict.fromkeys(random.sample(list(newest), min(2, len(newest))), -1)
                added = {(step, "a"): 1, (random.randrange(4), "b"): 2}
                change = rows(removed) + rows(added)
                expected[writer.latest.number + 1] = newest + change
                assert ahead.acquire(timeout=300)
                writer.commit(change, vector(step))
                committed.release()

    def read() -> None:
        other = warehouse.view("orders")
        for _ in range(commits):
            assert committed.acquire(timeout=300)
            state = other.at()
            seen.append((state.number, state.signed_rows()))
            ahead.release()

    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(read)
        writing = pool.submit(write)
        while not writing.done():
            view.compact(at_least=8)
            view.fold(spark, "f")
        writing.result()
        reading.result()
    assert len({number for number, _ in seen}) >= STEPS
    assert [number for number, _ in seen] == sorted(number for number, _ in seen)
    for number, state in seen:
        assert state == expected[number], number
    check_all(view, {number: expected[number] for number in range(1, len(expected), 9)})
