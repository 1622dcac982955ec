"""Settings that the user has told Spark win over Headwater's defaults."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.frames.session import DEFAULTS, MEANING, master_of, spark_session
from headwater.frames.told_settings import told_settings

DEFAULTS_FILE = """
# theirs
spark.sql.shuffle.partitions 7
spark.driver.memory=3g
spark.app.note : a: b
not-a-setting
"""


def test_a_file_of_defaults_and_options_of_a_command_line_are_read(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS_FILE)
    arguments = "--master spark://h:1 --conf spark.driver.memory=4g pyspark-shell"
    told = told_settings({"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": arguments})
    assert told == {
        "spark.sql.shuffle.partitions": "7",
        "spark.app.note": "a: b",
        "spark.driver.memory": "4g",
        "spark.master": "spark://h:1",
    }
    assert told_settings({"SPARK_HOME": "/nowhere"}) == {}


def test_the_project_names_the_master_unless_it_leaves_it_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master spark://h:1 pyspark-shell")
    assert master_of("local[2]") == "local[2]"
    assert master_of("") == "spark://h:1"


def test_what_spark_calls_legacy_does_not_change_values(spark: SparkSession) -> None:
    legacy = "spark.sql.legacy.setopsPrecedence.enabled"
    ours = spark_session({legacy: "true"}, existing=spark)
    assert ours.conf.get(legacy) == "false"


SUBMITTED = """
import json, sys
from headwater.frames.session import spark_session
spark = spark_session({"spark.sql.shuffle.partitions": "3"}, master="spark://127.0.0.1:1")
names = json.loads(sys.argv[1])
print(json.dumps([spark.sparkContext.master, {n: spark.conf.get(n, None) for n in names}]))
"""


def test_under_spark_submit_its_own_settings_hold_but_for_what_values_mean(tmp_path: Path) -> None:
    import pyspark

    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    told = {
        "spark.sql.shuffle.partitions": "5",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.redaction.regex": "theirs",
    }
    options = [word for name, value in told.items() for word in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            *(str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"),
            *options,
            *(str(program), json.dumps([*told, *DEFAULTS, *MEANING])),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    master, found = json.loads(done.stdout.splitlines()[-1])
    assert master == "local[1]"
    regex = found.pop("spark.redaction.regex")
    assert regex.startswith("theirs|")
    assert "dsn" in regex
    assert found == DEFAULTS | {n: v for n, v in told.items() if n in found} | MEANING
