"""Settings for all tests: how many examples hypothesis tries, and whether it repeats them.

`ci`, the default, tries the same examples on every run. `stress`, chosen by HEADWATER_STRESS=1,
tries many more, different ones each time, and keeps those that failed under .hypothesis/.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from pyspark.sql import SparkSession

from tests.spark import shared_session

EXAMPLES = Path(__file__).parent.parent / ".hypothesis" / "examples"

# No deadline in either profile: how long an example takes says more about the machine's load.
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "stress",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=DirectoryBasedExampleDatabase(EXAMPLES),
)
settings.load_profile("stress" if os.environ.get("HEADWATER_STRESS") == "1" else "ci")


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return shared_session()
