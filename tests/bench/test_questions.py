"""`headwater bench questions`: few views, but through a real server."""

import json
import subprocess
import sys

import pytest


@pytest.mark.stress
def test_views_that_ask_the_same_need_fewer_round_trips_together() -> None:
    code = "from headwater.cli.main import main; main()"
    sizes = ("--views", "6", "--transactions", "20")
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "questions", *sizes, "--json"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    by = {(each["questions"], each["asked"]): each for each in found}
    alone, together = by["the same", "alone"], by["the same", "together"]
    assert alone["rounds_each"] == alone["questions_each"] >= 6
    assert together["rounds_each"] < alone["rounds_each"]
    assert together["evaluated_each"] <= together["rounds_each"]
    own = by["each its own", "together"]
    assert own["evaluated_each"] == own["questions_each"]
