"""A session that its cluster has ended is started again."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.project.example import make_project

PROGRAM = """
import sys
from pathlib import Path
from headwater import Project
from headwater.errors import StateLostError
from headwater.frames.failures import explained
from headwater.pipeline.sessions import session_of

session = session_of(Project.open(Path(sys.argv[1])))
first = session()
first.sparkContext._jsc.sc().stop()  # as Spark does when its master has gone
try:
    first.range(3).count()
except Exception as error:
    assert isinstance(explained(error, ()), StateLostError), error
assert session() is not first
print(session().range(3).count())
"""


@pytest.mark.stress
def test_a_session_that_was_ended_is_started_again(tmp_path: Path) -> None:
    make_project(tmp_path / "orders")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "orders")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "3\n", done.stderr
