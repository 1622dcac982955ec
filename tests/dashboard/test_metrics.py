import re

from headwater.dashboard.combined import combined
from headwater.dashboard.metrics import text_of
from tests.dashboard.described import NOW, source, stored, told, view

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? [-+.0-9e]+')


def samples(**members: object) -> dict[str, float]:
    text = text_of(combined(stored(), told(**members)), 0, NOW)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_lag_freshness_and_counts_of_a_view_are_told() -> None:
    found = samples(views={"amounts": view(lag={"shop": 3})})
    assert found['headwater_view_lag_transactions{view="amounts",source="shop"}'] == 3
    assert found['headwater_view_freshness_seconds{view="amounts",quantile="0.99"}'] == 0.08
    assert found['headwater_view_commits_total{view="amounts"}'] == 5
    assert found['headwater_view_questions_total{view="amounts"}'] == 6
    assert found['headwater_view_compensations_total{view="amounts"}'] == 2
    assert found['headwater_view_retries_total{view="amounts"}'] == 1
    assert found['headwater_view_state{view="amounts",state="running"}'] == 1
    assert found['headwater_view_state{view="amounts",state="stopped"}'] == 0


def test_what_sources_and_change_logs_keep_is_told() -> None:
    found = samples(sources={"shop": source(read=8)})
    assert found['headwater_source_transactions_total{source="shop"}'] == 8
    assert found['headwater_source_retained_bytes{source="shop"}'] == 4096
    assert found['headwater_source_change_log_bytes{source="shop"}'] == 900


def test_what_is_not_known_has_no_sample() -> None:
    down = samples(
        views={"amounts": view(lag={"shop": None})}, sources={"shop": source(trouble="It is away.")}
    )
    assert not any(name.startswith("headwater_view_lag_transactions") for name in down)
    assert not any("retained_rows" in name for name in down)
    assert down['headwater_source_up{source="shop"}'] == 0


def test_a_plain_table_that_lacks_something_has_an_age() -> None:
    assert samples()['headwater_view_fold_age_seconds{view="amounts"}'] == 0
    found = samples(views={"amounts": view(unfolded_since=NOW - 90)})
    assert found['headwater_view_fold_age_seconds{view="amounts"}'] == 90


def test_a_load_tells_how_far_it_is() -> None:
    loading = view(state="loading", progress={"rows": 500, "of": 1000, "left_s": 4.5})
    found = samples(views={"amounts": loading})
    assert found['headwater_view_load_rows{view="amounts"}'] == 500
    assert found['headwater_view_load_left_seconds{view="amounts"}'] == 4.5


def test_every_line_is_of_the_format_whatever_a_view_is_called() -> None:
    text = text_of(combined({}, told(views={'a"b\\c\nd': view()})), 1, NOW)
    for line in text.splitlines():
        assert line.startswith("# ") or LINE.fullmatch(line), line
