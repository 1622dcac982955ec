from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing.channel import ChannelConformance, tables_in
from headwater.testing.harness import Harness
from tests.sources.kinds import HARNESSES, VERSIONS


class TestConformance(ChannelConformance):
    """Every kind of source, and every way to capture it."""

    @pytest.fixture(
        params=[*HARNESSES, *(pytest.param(kind, marks=pytest.mark.stress) for kind in VERSIONS)]
    )
    def harness(self, request: pytest.FixtureRequest) -> Iterator[Harness]:
        kind: str = request.param
        with tables_in({**HARNESSES, **VERSIONS}[kind]()) as made:
            yield made
