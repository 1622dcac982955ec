"""The PVM paper's evaluation: its cost model's printed values, virtual time, and real servers."""

from __future__ import annotations

import pytest

from headwater.bench.papers import pvm_model as model
from headwater.bench.papers.frame import Size
from headwater.bench.papers.pvm import run
from headwater.bench.papers.pvm_servers import Servers, Work
from headwater.bench.papers.pvm_times import Setting, modelled, virtual


@pytest.mark.parametrize(("n", "m"), [(6, 2), (12, 3), (20, 4)])
def test_the_matrix_of_local_messages_adds_up_to_equation_6(n: int, m: int) -> None:
    whole = [model.local_messages(i, j, n, m) for i in range(1, n + 1) for j in range(1, m + 1)]
    assert sum(whole) == model.all_local_messages(n, m)


def test_the_printed_matrix() -> None:
    n, m = 12, 4
    rows = [[model.local_messages(i, j, n, m) for j in range(1, m + 1)] for i in (1, 2, 3, 5, n)]
    assert rows == [[0, 3, 3, 3], [2, 0, 3, 3], [2, 2, 0, 3], [0, 2, 2, 2], [0, 0, 0, 0]]


def test_equation_4_as_printed_is_not_the_matrix() -> None:
    assert model.local_messages(2, 1, 12, 4) == 12 / 4 - 1
    assert model.local_messages_as_printed(2, 1, 12, 4) == 12 / 4


def test_the_printed_sequence_of_waiting_times() -> None:
    p, t, a = 4, 10.0, 1.0
    waits = [model.waiting(i, p, 100, t, a) for i in range(1, 10)]
    assert waits == [0, a, 2 * a, 3 * a, t, t + a, t + 2 * a, t + 3 * a, 2 * t]


def test_equation_15_is_14_where_it_may_be_used_and_more_elsewhere() -> None:
    assert model.pvm_time_simplified(61, 4, 4, 3) == model.pvm_time(61, 4, 4, 3)
    assert model.pvm_time_simplified(60, 4, 4, 3) > model.pvm_time(60, 4, 4, 3)


def test_the_papers_example_of_equation_16() -> None:
    assert model.most_updates(10, 0.01, 0.1) == pytest.approx(200)
    assert model.local_share(200, 10, 0.01) == pytest.approx(0.1)


def test_threads_of_the_papers_example() -> None:
    """Two updates in parallel over three sources: 2 · 3 at sources, 2 + 2 at the warehouse."""
    assert model.threads(3, 2) == 10


def test_sweep_takes_what_equation_9_says() -> None:
    for m, n in ((2, 8), (3, 12), (4, 12)):
        assert virtual(m, n) == modelled(m, n)


def test_with_one_process_pvm_takes_what_sweep_takes() -> None:
    assert virtual(3, 12, 1) == virtual(3, 12)


def test_with_as_many_processes_as_sources_pvm_gains_the_papers_330_percent() -> None:
    assert virtual(4, 60) / virtual(4, 60, 4) == pytest.approx(3.33, abs=0.01)


@pytest.mark.parametrize(("m", "n", "p"), [(4, 60, 16), (6, 90, 18)])
def test_with_more_processes_it_comes_to_the_bound(m: int, n: int, p: int) -> None:
    assert 0.95 * m <= virtual(m, n) / virtual(m, n, p) <= m


def test_updates_of_one_source_after_the_other_cost_pvm_and_not_sweep() -> None:
    assert virtual(3, 30, None, 10) == virtual(3, 30)
    assert virtual(3, 30) / 2.2 < virtual(3, 30, 5, 10) <= virtual(3, 30) / 2
    assert virtual(3, 30, 5, 10) > virtual(3, 30, 5)


def test_at_a_long_interval_both_take_the_same() -> None:
    assert virtual(2, 40, None, 1, 1.5) == virtual(2, 40, 5, 1, 1.5)
    assert virtual(2, 40, None, 1, 0.75) > virtual(2, 40, 5, 1, 0.75)


@pytest.mark.parametrize("interval", [0.0, 0.002])
def test_the_view_over_servers_is_what_they_hold(interval: float) -> None:
    """Or timing it raises; no less than what the questions take when each waits for the last."""
    work = Work(2, 6, interval_s=interval, latency_s=0.01)
    with Servers() as servers:
        assert servers.time(work, "sweep") >= 6 * work.latency_s
        assert servers.time(work, "pvm-cc", p=4) >= 3 * work.latency_s


def test_every_experiment_has_its_figure() -> None:
    figures = {figure.name: figure for figure in run(Size(), lambda step: None)}
    wanted = ["5.2", "21", "22", "23", "24", "25", "26", "7.2 (text)", "Table 4"]
    assert list(figures) == wanted
    assert figures["22"].found == "The same, tick by tick."
    (best,) = figures["7.2 (text)"].records
    assert best["servers"] is not None
    assert [record["m"] for record in figures["7.2 (text)"].records] == [Setting().best[0][0]]
