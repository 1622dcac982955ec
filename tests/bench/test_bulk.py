"""`headwater bench bulk`: small, but through real servers and Spark."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.bench.bulk import bulk
from headwater.errors import InputError

PROGRAM = Path(sys.executable).parent / "tpchgen-cli"


@pytest.mark.stress
@pytest.mark.skipif(
    not PROGRAM.exists() and shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is missing"
)
def test_every_way_is_measured_for_every_share() -> None:
    code = "from headwater.cli.main import main; main()"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            "bench",
            "bulk",
            "--scale",
            "0.001",
            "--share",
            "10",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {each["way"]: each for each in json.loads(done.stdout)["changes"]}
    assert set(found) == {"auto", "maintained", "spark", "recomputed"}
    assert all(each["came_s"] > 0 and each["went_s"] > 0 for each in found.values())
    assert found["recomputed"]["recomputed"] == [True, True]
    assert found["maintained"]["recomputed"] == [False, False]


def test_a_way_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"no way quickly\. There are auto, maintained, spark"):
        bulk(0.001, None, ["quickly"], None, as_json=False)
