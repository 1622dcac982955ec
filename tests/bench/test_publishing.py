"""The measurement of publishing publishes what it says."""

from headwater.bench.publishing import measure


def test_a_batch_is_one_updategram_or_one_for_each_transaction() -> None:
    together, each = measure(transactions=20, in_a_commit=5, rounds=1)
    assert (together.granularity, together.objects) == ("run", 3), (
        "of the relation and the view, and that they are of one publication"
    )
    assert (each.granularity, each.objects) == ("transaction", 20 + 4 + 1), (
        "the view has four commits"
    )
