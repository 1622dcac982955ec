"""The ECA paper's evaluation: printed values of its formulas, and counts that are equal to them."""

from __future__ import annotations

from math import ceil, floor

import pytest

from headwater.bench.papers import eca_formulas as formulas
from headwater.bench.papers.eca import DEFAULTS, ECA_WORST, MEASURES, in_turn, run
from headwater.bench.papers.eca_counted import WAYS, count
from headwater.bench.papers.eca_formulas import Parameters, crossover, pairs_in_turn
from headwater.bench.papers.frame import Size


def crossing(measure: str, way: str) -> float:
    level = MEASURES[measure]["RV best"](DEFAULTS, 1)
    return crossover(lambda k: MEASURES[measure][way](DEFAULTS, k), level)


def test_bytes_cross_where_the_paper_says() -> None:
    assert crossing("bytes", "ECA best") == pytest.approx(100)
    assert ceil(crossing("bytes", "ECA worst")) == 30


def test_io_crosses_where_the_paper_says() -> None:
    assert crossing("io1", "ECA best") == pytest.approx(3)
    assert ceil(crossing("io1", "ECA worst")) == 3
    assert floor(crossing("io2", "ECA worst")) == 5
    assert floor(crossing("io2", "ECA best")) == 8


def test_formulas_for_three_updates_are_those_of_the_text() -> None:
    p = Parameters()
    size = p.S * p.sigma
    assert formulas.bytes_eca_worst(p, 3, pairs_in_turn) == 3 * size * p.J * (p.J + 1)
    assert formulas.io1_eca_worst(p, 3, pairs_in_turn) == 3 * min(p.I, p.J) + 6
    assert formulas.io2_eca_worst(p, 3, pairs_in_turn) == 3 * p.I * (p.I2 + 1)


def test_the_two_printed_worst_cases_disagree_for_three_updates() -> None:
    """One is for an update of each relation, the other one for updates of random relations."""
    for worst in ECA_WORST.values():
        assert worst(DEFAULTS, 3, pairs_in_turn) > worst(DEFAULTS, 3)


@pytest.mark.parametrize("way", ["RV best", "ECA best", "ECA worst"])
@pytest.mark.parametrize("updates", [3, 6, 12])
def test_counts_are_the_formulas(way: str, updates: int) -> None:
    counted = count(way, DEFAULTS, updates)
    assert counted.messages == (2 if way == "RV best" else formulas.messages_eca(updates))
    for measure in MEASURES:
        assert getattr(counted, measure) == in_turn(way, measure, DEFAULTS, updates)


def test_recomputing_after_every_update_costs_a_little_more_since_relations_grow() -> None:
    counted = count("RV worst", DEFAULTS, 12)
    assert counted.messages == formulas.messages_rv(12, 1)
    for measure, most in (("bytes", 1.01), ("io1", 1.02), ("io2", 1.06)):
        formula = in_turn("RV worst", measure, DEFAULTS, 12)
        assert 1 <= getattr(counted, measure) / formula <= most


def test_a_term_bound_at_both_ends_transfers_less_than_the_formula_if_values_spread() -> None:
    spread = count("ECA worst", DEFAULTS, 6, spread=True)
    assert spread.bytes < in_turn("ECA worst", "bytes", DEFAULTS, 6)
    assert spread.io1 == in_turn("ECA worst", "io1", DEFAULTS, 6)


def test_signed_rows_cancel_in_an_answer() -> None:
    counted = count("ECA worst", DEFAULTS, 6)
    assert counted.net_bytes < counted.bytes


def test_every_figure_has_a_claim_a_finding_and_records_for_all_cases() -> None:
    figures = {figure.name: figure for figure in run(Size(), lambda step: None)}
    assert list(figures) == ["6.1", "6.2", "6.2 (text)", "6.3", "6.4", "6.5", "D.2"]
    for name in ("6.1", "6.3", "6.4", "6.5"):
        assert {record["way"] for record in figures[name].records} == set(WAYS)
    assert all(figure.claim and figure.found for figure in figures.values())
    assert "100.0" in figures["6.3"].found
