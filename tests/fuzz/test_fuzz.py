"""Thousands of spoilt inputs of every kind that Headwater reads and did not just write itself.

None gives a traceback, hangs, fills the memory or touches a file outside; see `harness.py`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import harness

ROOT = Path(__file__).parents[2]
FEW = 100
MANY = {
    "share": 20_000,
    "scenario": 20_000,
    "settings": 6_000,
    "view": 6_000,
    "changes": 40_000,
    "delta": 3_000,
    "own": 5_000,
}
"""Of each kind by what one takes, 100,000 together."""


@pytest.mark.parametrize("kind", harness.KINDS)
def test_spoilt_inputs_are_refused_in_words(tmp_path: Path, kind: str) -> None:
    attack(tmp_path, kind, FEW)


@pytest.mark.stress
@pytest.mark.parametrize("kind", harness.KINDS)
def test_very_many_spoilt_inputs_are_refused_in_words(tmp_path: Path, kind: str) -> None:
    attack(tmp_path, kind, MANY[kind])


def attack(folder: Path, kind: str, count: int) -> None:
    (folder / "inside").mkdir()
    (folder / "outside").mkdir()
    (folder / "outside" / "letter").write_text("dear")
    done = subprocess.run(
        [sys.executable, harness.__file__, kind, str(folder), "0", str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), "."])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * 3600,
        check=False,
    )
    if done.returncode or done.stderr:
        seed = (folder / "seed").read_text()
        pytest.fail(f"{kind}, seed {seed}, exit code {done.returncode}:\n{done.stderr[-9000:]}")
    read, refused = map(int, done.stdout.split())
    assert read + refused == count
    assert min(read, refused) > count / 50, (read, refused)
    assert [path.name for path in (folder / "outside").iterdir()] == ["letter"]
    assert (folder / "outside" / "letter").read_text() == "dear"
    assert {path.name for path in folder.iterdir()} == {"inside", "outside", "seed"}
