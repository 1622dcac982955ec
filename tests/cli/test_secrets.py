"""A planted secret is nowhere but where it is needed: not in what is said, stored or listed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError
from headwater.frames.spark_types import spark_schema
from headwater.pipeline.bulk_read import Readers, Tally, reading_parts
from headwater.project.project import Project
from tests.cli.commands import quick

SECRET = "hush-9d1f c'=:#\\\"é"
WORD = "hush-9d1f"
SETTINGS = """
[spark]
master = "local[2]"
settings = { "spark.hadoop.planted.key" = "${PLANTED}" }
[sources.shop]
kind = "postgres"
dsn = "${SHOP_DSN}"
relations = ["orders"]
"""
VIEW = "CREATE MATERIALIZED VIEW orders AS SELECT id, note FROM shop.orders"
COMMANDS = [
    ["check"],
    ["setup", "shop", "--print"],
    ["setup", "shop"],
    ["run", "--once"],
    ["run", "--once", "--log-level", "debug", "--log-file", "log"],
    ["status"],
    ["trim"],
    ["repair", "shop"],
    ["sql", "SELECT * FROM orders"],
    ["sql", "SELECT nothing FROM orders"],
    ["verify"],
    ["fold", "orders"],
    ["share", "publish", "--node", "n", "--system", "s"],
    ["reload", "orders"],
    ["drop", "orders"],
    ["teardown", "shop"],
    ["setup", "shopp"],
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    server = PostgresServer()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id INT PRIMARY KEY, note TEXT)")
        connection.execute("INSERT INTO orders VALUES (1, 'x')")
    password = psycopg.conninfo.make_conninfo(server.dsn(), password=SECRET)
    monkeypatch.setenv("SHOP_DSN", password)
    monkeypatch.setenv("PLANTED", SECRET)
    (tmp_path / "headwater.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "orders.sql").write_text(VIEW, encoding="utf-8")
    yield tmp_path
    server.stop()


def test_no_command_says_or_stores_a_secret(project: Path, spark: SparkSession) -> None:
    for command in COMMANDS:
        for options in ([], ["--json"]):
            try:
                placed = [str(project / "log") if word == "log" else word for word in command]
                found = quick(*placed, *options, "-p", str(project))
                said = found.out + found.err
            except HeadwaterError as error:
                said = str(error)
            assert WORD not in said, command
    stored = [path for path in project.rglob("*") if path.is_file()]
    assert len(stored) > 5
    assert [path for path in stored if WORD.encode() in path.read_bytes()] == []


def test_what_executors_are_sent_has_no_secret(project: Path, spark: SparkSession) -> None:
    source = Project.open(project).sources["shop"]
    source.setup()
    relation = source.relations()["orders"]
    load = source.open_load(["orders"], 1)
    reader = load.remote("orders", 0)
    assert reader is not None
    pickled: Callable[[object], bytes] = cloudpickle.dumps
    assert WORD.encode() in pickled(reader)
    readers = Readers.put(project / "_headwater" / "scratch", [reader])
    assert readers.path.stat().st_mode & 0o777 == 0o600
    schema = spark_schema(relation.schema)
    sent = reading_parts(relation.name, readers, Tally(project / "tally"))
    assert WORD.encode() not in pickled(sent)
    assert spark.range(1).mapInArrow(sent, schema).collect() == [(1, "x")]
    load.close()
    source.teardown()


def test_a_load_on_spark_leaves_no_secret_behind(project: Path, spark: SparkSession) -> None:
    settings = project / "headwater.toml"
    settings.write_text(settings.read_text().replace("[spark]\n", '[spark]\nengine = "spark"\n'))
    quick("setup", "shop", "-p", str(project))
    assert quick("run", "--once", "-p", str(project)).code == 0
    assert quick("verify", "-p", str(project)).code == 0
    stored = [path for path in project.rglob("*") if path.is_file()]
    assert [path for path in stored if WORD.encode() in path.read_bytes()] == []
    quick("teardown", "shop", "-p", str(project))


def test_an_unreachable_source_keeps_its_secret(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DSN", f"postgresql://u:{WORD}@127.0.0.1:1/d")
    found = quick("check", "-p", str(project))
    assert found.code == 2
    assert WORD not in found.out + found.err
    monkeypatch.setenv("SHOP_DSN", f"postgresql://u:{WORD}@[127.0.0.1:1/d")
    found = quick("check", "-p", str(project))
    assert found.code == 2
    assert WORD not in found.out + found.err


@pytest.mark.parametrize("password", [f"abc@{WORD}", f"1/{WORD}", f"abc@1/{WORD}?host={WORD}"])
@pytest.mark.parametrize("whole", [False, True], ids=["the password", "the whole URI"])
def test_a_password_that_ends_a_uri_too_early_is_shown_nowhere(
    project: Path, monkeypatch: pytest.MonkeyPatch, password: str, whole: bool
) -> None:
    monkeypatch.setenv("PW", password)
    monkeypatch.setenv("SHOP_DSN", f"postgresql://app:{password}@127.0.0.1:1/shop")
    if not whole:
        settings = project / "headwater.toml"
        written = settings.read_text().replace(
            "${SHOP_DSN}", "postgresql://app:${PW}@127.0.0.1:1/shop"
        )
        settings.write_text(written)
    for command in (["check"], ["run", "--once"], ["status"], ["status", "--json"]):
        try:
            found = quick(*command, "-p", str(project))
            said = found.out + found.err
        except HeadwaterError as error:
            said = str(error)
        assert WORD not in said, command
        if command == ["check"]:
            expected = "an @ that ends nothing" if whole else "cannot connect"
            assert expected in " ".join(said.split())
    stored = [path for path in project.rglob("*") if path.is_file()]
    assert [path for path in stored if WORD.encode() in path.read_bytes()] == []


def test_what_is_shown_of_a_project_has_no_secrets(project: Path) -> None:
    opened = Project.open(project)
    shown = [opened, opened.settings, opened.sources, *opened.sources.values(), vars(opened)]
    assert not any(WORD in repr(each) + str(each) for each in shown)


STARTED = """
import os, sys
from pathlib import Path
from headwater.frames.session import spark_session
spark = spark_session({"spark.hadoop.planted.key": os.environ["PLANTED"]}, master="local[1]")
spark.range(3).count()
lines = []
for process in Path("/proc").iterdir():
    if process.name.isdecimal() and process.name != str(os.getpid()):
        try:
            lines.append((process / "cmdline").read_bytes())
        except OSError:
            pass
kept = spark.sparkContext.getConf().get("spark.hadoop.planted.key")
sys.stdout.buffer.write(b"kept " + str(kept == os.environ["PLANTED"]).encode() + b"\\n")
sys.stdout.buffer.write(b"\\n".join(line.replace(b"\\n", b" ") for line in lines))
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="lists processes by /proc")
def test_settings_of_spark_are_in_no_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED],
        capture_output=True,
        check=True,
        env={**os.environ, "PLANTED": SECRET},
    )
    first, *lines = done.stdout.splitlines()
    assert first == b"kept True"
    java = [line for line in lines if b"SparkSubmit" in line]
    assert any(b"--properties-file" in line for line in java)
    assert not any(WORD.encode() in line for line in lines)


def test_spark_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    program = """
from pathlib import Path
from headwater.errors import EngineError
from headwater.frames.session import spark_session
try:
    spark_session({"spark.driver.memory": "lots"}, log=Path("spark.log"))
except EngineError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("Spark did not start: Java gateway process exited before")
    assert done.stdout.count("\n") == 1
    assert "spark.log has the details. Check [spark] in headwater.toml." in done.stdout
