"""What the Rings protocols cost, against the paper's figures and against what can be counted."""

from __future__ import annotations

import pytest

from headwater.bench.papers.rings_counted import count_traffic, measure_latency, measure_traffic
from headwater.bench.papers.rings_nodes import measure
from headwater.lab.generate import chain
from headwater.lab.run import run
from headwater.lab.simulate import simulate

ITEMS = [1, 2, 3, 5]


@pytest.mark.parametrize("items", ITEMS)
def test_basic_ring_needs_two_rounds_and_an_increment(items: int) -> None:
    found = measure_latency("rings", items)
    assert (found.one_visits, found.all_visits) == (2 * items, 2 * items)
    assert (found.one, found.all) == (2 * items + 1, 2 * items + 1)
    assert (found.one_paper, found.all_paper) == (2 * items, 2 * items)


@pytest.mark.parametrize("items", ITEMS)
def test_star_needs_one_round_of_two_messages_each_and_a_request(items: int) -> None:
    found = measure_latency("rings-star", items)
    assert (found.one_visits, found.one) == (items, 2 * items + 1)
    assert (found.all_visits, found.all) == (2 * items - 1, 2 * (2 * items - 1) + 1)
    assert (found.one_paper, found.all_paper) == (items, 2 * items)


def test_what_is_counted_alike_agrees_with_the_trace() -> None:
    simulation = simulate(chain(3, 6), "rings-star", {"timing": "serial"})
    trace = run(simulation, lambda enabled: enabled[0]).trace
    assert count_traffic(simulation) == (trace.message_count, trace.byte_count)


def test_notifications_and_the_rows_of_questions_are_counted_for_sweep() -> None:
    simulation = simulate(chain(3, 6), "sweep", {"timing": "serial"})
    trace = run(simulation, lambda enabled: enabled[0]).trace
    messages, size = count_traffic(simulation)
    assert messages == trace.message_count + 6
    assert size > trace.byte_count + 6 * 24


def test_star_sends_less_than_a_ring_whose_token_never_stops() -> None:
    ring, star = (measure_traffic(name, 4) for name in ("rings", "rings-star"))
    assert star.quiet_messages < ring.quiet_messages
    assert star.busy_messages < measure_traffic("sweep", 4).busy_messages


def test_a_view_over_node_processes_shows_what_was_committed() -> None:
    """Or it would wait for ever."""
    late = measure("rings-star", 2, 1)
    assert len(late.one_ms) == 2
    assert len(late.all_ms) == 1
    assert min(late.one_ms + late.all_ms) > 0
