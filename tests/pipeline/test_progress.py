"""How far a load has come, as far as anybody knows."""

from headwater.pipeline.progress import Progress


def test_what_is_left_goes_on_as_it_has() -> None:
    half = Progress({"x.r": 300, "y.s": 0}, {"x.r": 400.0, "y.s": 500.0}, 3.0)
    assert half.to_json() == {"rows": 300, "of": 900, "rows_per_s": 100, "left_s": 6.0}


def test_nothing_is_told_of_totals_that_are_not_all_known() -> None:
    unknown = Progress({"x.r": 300, "y.s": 7}, {"x.r": 400.0}, 3.0)
    assert (unknown.total, unknown.left_s) == (None, None)
    assert Progress({"x.r": 300}, {}, 3.0).total is None


def test_what_has_more_rows_than_it_was_thought_to_has_those_that_were_read() -> None:
    more = Progress({"x.r": 300}, {"x.r": 200.0}, 3.0)
    assert (more.total, more.left_s) == (300, 0.0)


def test_nothing_is_promised_before_something_was_read() -> None:
    assert Progress({}, {"x.r": 200.0}, 0.0).left_s is None
