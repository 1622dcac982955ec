"""`headwater bench views`: few views, but through real sources and processes."""

import json
import subprocess
import sys


def test_measures_a_transaction_of_one_view_among_few_and_more() -> None:
    code = "from headwater.cli.main import main; main()"
    sizes = ("--views", "2", "--views", "4", "--transactions", "20")
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "views", *sizes, "--json"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    few, more = map(json.loads, done.stdout.splitlines())
    assert (few["views"], more["views"]) == (2, 4)
    assert few["processor_ratio"] == few["visible_ratio"] == 1
    for found in (few, more):
        assert 0 < found["visible_ms"] <= found["visible_p99_ms"]
        assert found["processor_ms"] > 0
        assert found["threads"] > 2
        assert found["memory_mb"] > 10
