"""`headwater bench freshness`: small, but through real servers and Spark."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.bench.freshness.command import where_lines_meet

PROGRAM = Path(sys.executable).parent / "tpchgen-cli"


@pytest.mark.stress  # a minute and a half
@pytest.mark.skipif(
    not PROGRAM.exists() and shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is missing"
)
def test_measures_batches_reads_and_recomputing() -> None:
    sizes = ("--scale", "0.001", "--batch", "1", "--batch", "5", "--tail", "50")
    code = "from headwater.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "freshness", *sizes, "--json"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [batch["size"] for batch in found["batches"]] == [1, 5]
    assert all(0 < batch["median_ms"] <= batch["p99_ms"] for batch in found["batches"])
    assert found["read"]["tail_rows"] >= 50
    assert found["recompute"]["spark_s"] > 0
    assert {one["view"] for one in found["grouped"]} == {"v1", "v2", "v3"}
    assert all(one["groups"] > 0 and one["read_s"] > 0 for one in found["grouped"])


def test_the_crossover_lies_between_the_sizes_that_were_measured() -> None:
    assert where_lines_meet([(1, 0.01), (100, 0.1), (10_000, 1.0)], 0.1) == 100
    assert where_lines_meet([(1, 0.01), (100, 1.0)], 0.1) == 10


def test_beyond_what_was_measured_the_last_slope_goes_on() -> None:
    assert where_lines_meet([(1, 0.01), (100, 0.1)], 1.0) == 10_000


def test_there_is_no_crossover_where_recomputing_is_always_quicker() -> None:
    assert where_lines_meet([(1, 0.01), (100, 0.1)], 0.001) is None
