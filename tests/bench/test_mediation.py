"""`headwater bench mediation`: rewriting takes part in every command that opens a project."""

from headwater.bench.mediation import measured


def test_rewriting_by_50_descriptions_of_20_relations_finds_joins() -> None:
    found = measured(20, 50, 3, 1)
    assert found.joins >= 1
    assert found.ended > found.joins
    assert found.total_ms < 60_000  # for hangs only: it is measured by the benchmark
