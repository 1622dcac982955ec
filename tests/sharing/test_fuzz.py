"""Thousands of malformed inputs: no traceback, no hang, bounded memory, nothing touched outside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sharing import fuzzing

ROOT = Path(__file__).parents[2]
MANY = 100_000


@pytest.mark.parametrize("count", [300, pytest.param(MANY, marks=pytest.mark.stress)])
@pytest.mark.parametrize("kind", fuzzing.ATTACKS)
def test_malformed_inputs_are_refused_in_words(tmp_path: Path, kind: str, count: int) -> None:
    fuzzing.prepared(tmp_path)
    before = sorted(map(str, (tmp_path / "outside").rglob("*")))
    done = subprocess.run(
        [sys.executable, fuzzing.__file__, kind, str(tmp_path), "0", str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), "."])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * 3600,
        check=False,
    )
    assert (done.returncode, done.stderr[-5000:]) == (0, "")
    assert sorted(map(str, (tmp_path / "outside").rglob("*"))) == before
    assert (tmp_path / "outside" / "letter").read_text() == "dear"
    known = {"N1", "N2", "N3", "N4", "N1.key", "outside", "scenario.json", "template"}
    assert {path.name for path in tmp_path.iterdir()} <= known
