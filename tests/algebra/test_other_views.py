"""Views as people write them for other systems: each is accepted, or refused for a known reason."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.algebra.sql.view import parse_view
from headwater.errors import SqlError
from tests.algebra.other_views import (
    DRAWN,
    FUNCTIONS,
    NO_FUNCTION_OF_SOURCES,
    OTHER_VIEWS,
    REFUSED,
    RELATIONS,
    VIEWS,
    OtherView,
)

ACCEPTED = [view for view in OTHER_VIEWS if view.sql not in REFUSED]


@pytest.mark.parametrize("view", ACCEPTED, ids=lambda view: f"{view.system}: {view.sql}")
def test_views_of_other_systems_are_accepted(view: OtherView) -> None:
    parse_view(view.sql, RELATIONS, views=VIEWS, functions=FUNCTIONS)


@pytest.mark.parametrize("sql", REFUSED)
def test_a_view_that_is_listed_as_refused_is_refused(sql: str) -> None:
    """One that is accepted is a gap that is closed: take its reason out of the list."""
    with pytest.raises(SqlError):
        parse_view(sql, RELATIONS, views=VIEWS, functions=FUNCTIONS)


def test_as_many_definitions_come_from_each_system() -> None:
    assert Counter(view.system for view in OTHER_VIEWS) == dict.fromkeys(DRAWN, 34)


def test_at_most_one_view_in_twenty_is_refused_that_is_a_function_of_its_sources() -> None:
    refused = [reason for reason in REFUSED.values() if reason not in NO_FUNCTION_OF_SOURCES]
    assert len(refused) / len(OTHER_VIEWS) <= 0.05
