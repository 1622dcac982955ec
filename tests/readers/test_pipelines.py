"""The example of a declarative pipeline in docs/reading.md, run by Spark's own command."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pyspark
import pytest
from pyspark import accumulators

from headwater.readers import profiles
from tests.cli.commands import headwater

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"
NEEDED = ("grpc", "grpc_status", "yaml")
"""What `pyspark[pipelines]` brings."""
LIMIT_S = 900.0


def documented(language: str) -> str:
    """The block in a language of the page's section."""
    section = PAGE.read_text().split("### Declarative pipelines")[1].split("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return textwrap.dedent(found[1])


@pytest.mark.stress
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in NEEDED),
    reason="pip install 'pyspark[pipelines]'",
)
def test_the_documented_pipeline_runs_and_writes_what_the_view_has(tmp_path: Path) -> None:
    orders, pipeline = tmp_path / "orders", tmp_path / "pipeline"
    for command in (("init", str(orders)), ("setup", "-p", str(orders)),
                    ("run", "--once", "-p", str(orders))):  # fmt: skip
        done = headwater(*command)
        assert done.code == 0, done.err + done.out
    (pipeline / "transformations").mkdir(parents=True)
    settings = documented("yaml").replace("/data", str(tmp_path))
    (pipeline / "spark-pipeline.yml").write_text(settings)
    example = documented("python").replace("/data/orders", str(orders))
    (pipeline / "transformations" / "spent.py").write_text(example)
    home = Path(pyspark.__file__).parent
    ran = subprocess.run(
        [str(home / "bin" / "spark-pipelines"), "run"],
        cwd=pipeline,
        env=os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:] + ran.stdout[-5000:]
    written = pyarrow.parquet.read_table(pipeline / "spark-warehouse" / "spent").to_pylist()
    assert {row["name"]: str(row["spent"]) for row in written} == {"Ada": "28.50", "Ben": "450.00"}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """What Spark's worker has for profiles, and something of a user's."""
    found: dict[int, Any] = {-1: object(), -2: object(), 7: object()}
    monkeypatch.setattr(accumulators, "_accumulatorRegistry", found)
    ids = SimpleNamespace(SQL_UDF_PROFIER=-1, SQL_UDF_PROFIER_V2=-2)
    monkeypatch.setattr(accumulators, "SpecialAccumulatorIds", ids)
    return found


def test_a_worker_that_plans_sends_no_empty_profile(
    registered: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.utils", sys)
    before = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(lambda *_: None)
    profiles.send_no_empty_profile()
    assert set(registered) == {-1, -2, 7}
    sys.setprofile(None)
    profiles.send_no_empty_profile()
    assert set(registered) == {7}
    sys.settrace(before[0])
    sys.setprofile(before[1])


def test_elsewhere_what_spark_counts_is_left_alone(
    registered: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql.worker.utils", raising=False)
    profiles.send_no_empty_profile()
    assert set(registered) == {-1, -2, 7}
