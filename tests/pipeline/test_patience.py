from __future__ import annotations

from pathlib import Path

import pytest

from headwater.pipeline.life import ImpatientError
from headwater.pipeline.patience import FEWEST_ANSWERS, LIMIT_S, Patience
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.measured import read_statistics, write_statistics
from tests.pipeline.small import Small, supervised, wait_until
from tests.pipeline.test_choice_by_cost import DELETIONS, OWNED, internal, maintained
from tests.warehouse.test_small import no_spark

LATE = LIMIT_S + 1.0


def answered(patience: Patience, times: int, now: float) -> None:
    for _ in range(times):
        patience.answered(now)


def test_who_shows_nothing_for_long_while_answers_come_is_given_up() -> None:
    patience = Patience(is_limited=True)
    patience.received(0.0)
    answered(patience, FEWEST_ANSWERS, LIMIT_S)
    with pytest.raises(ImpatientError, match="for 11 s"):
        patience.answered(LATE)


def test_what_is_shown_begins_anew() -> None:
    patience = Patience(is_limited=True)
    patience.received(0.0)
    answered(patience, FEWEST_ANSWERS, 1.0)
    patience.shown()
    answered(patience, FEWEST_ANSWERS, LATE)  # nothing was received since
    patience.received(LATE)
    answered(patience, FEWEST_ANSWERS, LATE + LIMIT_S)


@pytest.mark.parametrize(
    ("patience", "answers"),
    [
        pytest.param(Patience(is_limited=False), FEWEST_ANSWERS, id="no other may be taken"),
        pytest.param(Patience(True, 5.0), FEWEST_ANSWERS, id="commits wait for others"),
        pytest.param(Patience(True), FEWEST_ANSWERS - 1, id="answers take long"),
    ],
)
def test_other_reasons_to_wait_are_none(patience: Patience, answers: int) -> None:
    patience.received(0.0)
    answered(patience, answers, LATE)


def impatient_once(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[float]:
    """The first answer of a view that is limited ends it, as if so much time had passed."""
    ended: list[float] = []

    def give_up(patience: Patience, now: float) -> None:
        if patience.is_limited and not ended:
            ended.append(now)
            raise ImpatientError(seconds)

    monkeypatch.setattr(Patience, "answered", give_up)
    return ended


def test_another_algorithm_goes_on_where_one_has_waited_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, {"owned": OWNED.format("")})
    maintained(small, ("crm", "INSERT INTO customers VALUES (10, 'Bea')"))
    write_statistics(internal(small), DELETIONS)
    ended = impatient_once(monkeypatch, 60.0)
    with supervised(Runner(small.project, no_spark)) as runner:
        view = runner.views["owned"]
        wait_until(lambda: view.state == "running", lambda: runner.failures)
        assert view.maintainer is not None
        assert view.maintainer.plan.algorithm == "t-strobe"
        for number in range(20):
            small.write("shop", f"INSERT INTO orders VALUES ({100 + number}, 10, 'c', 'new')")
        wait_until(lambda: bool(ended) and view.maintainer is not None, lambda: runner.failures)
        targets = runner.targets()
        wait_until(lambda: runner.reach(targets), lambda: runner.failures)
        assert view.maintainer.plan.algorithm not in ("t-strobe", "g-strobe")
    assert read_statistics(internal(small)).spent["owned"]["t-strobe"].time_s == 60.0
    assert verify_view(small.project, "owned", no_spark).holds


def test_where_nothing_else_is_better_it_waits_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, {"owned": OWNED.format("")})
    maintained(small, ("crm", "INSERT INTO customers VALUES (10, 'Bea')"))
    write_statistics(internal(small), DELETIONS)
    ended = impatient_once(monkeypatch, 0.001)  # which rules nothing out
    with supervised(Runner(small.project, no_spark)) as runner:
        view = runner.views["owned"]
        wait_until(lambda: view.state == "running", lambda: runner.failures)
        small.write("shop", "INSERT INTO orders VALUES (100, 10, 'c', 'new')")
        wait_until(lambda: bool(ended) and view.is_patient, lambda: runner.failures)
        targets = runner.targets()
        wait_until(lambda: runner.reach(targets), lambda: runner.failures)
        assert view.maintainer is not None
        assert view.maintainer.plan.algorithm == "t-strobe"
        assert not view.maintainer.plan.may_change
    assert verify_view(small.project, "owned", no_spark).holds
