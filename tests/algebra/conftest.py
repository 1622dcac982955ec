"""The engines to which the laws are applied, one after the other."""

import pytest

from tests.algebra.engines import ENGINES, Engine


@pytest.fixture(scope="session", params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]
