"""What executors lack is found at the start, and told in one sentence."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater import __version__
from headwater.errors import InputError, NoExecutorError
from headwater.frames import executors
from headwater.frames.executors import Seen, check_executors
from headwater.frames.masters import is_one_machine, is_one_process, require_master

OWN = "{}.{}".format(*sys.version_info)


def looked(spark: SparkSession, folder: Path) -> None:
    executors._require(executors._look(spark, folder), folder)


def seen(release: str = __version__, missing: tuple[str, ...] = (), unshared: str = "") -> Seen:
    return Seen("worker-7", release, missing, unshared, "")


def test_what_is_here_is_found_to_be_sound_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    looked(spark, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_runs_in_one_process_is_not_looked_at(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(executors, "_look")
    check_executors(spark, Path("/nowhere"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            seen(unshared="what the driver has written is not there"),
            "Spark's executor on worker-7 does not share the folder /lake with the driver: what "
            "the driver has written is not there. Put the warehouse into a folder that all "
            "machines of the cluster see by the same path",
        ),
        (
            seen("", ("pyarrow", "psycopg")),
            "Python of Spark's executor on worker-7 has no pyarrow, psycopg. Install headwater==",
        ),
        (seen("0.0.1"), f"uses Headwater 0.0.1, and this is {__version__}. Install headwater=="),
    ],
)
def test_what_is_missing_is_told_with_what_to_do(found: Seen, words: str) -> None:
    with pytest.raises(InputError) as caught:
        executors._require([seen(), found], Path("/lake"))
    assert words in str(caught.value)


def test_a_folder_that_is_another_there_is_found(spark: SparkSession, tmp_path: Path) -> None:
    look = executors._looking(str(tmp_path / "note"), "token", ())
    ((_, _, _, wrong, _),) = look([0])
    assert wrong == "what the driver has written is not there"
    (tmp_path / "note").write_text("of another")
    ((_, _, _, wrong, _),) = look([0])
    assert wrong == "another file is there"


def test_what_executors_write_elsewhere_is_found(tmp_path: Path) -> None:
    written = Seen("worker-7", __version__, (), "", str(tmp_path / "nowhere"))
    assert executors._with_note(written).unshared == "what it writes there is not here"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version:"
            " 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.",
            "Spark's executors run Python 3.12, and Headwater runs on 3.11 here.",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such',
            "Spark's executors have no Python ./environment/bin/python.",
        ),
    ],
)
def test_another_python_is_told_without_a_trace(said: str, words: str) -> None:
    assert str(executors._explained(RuntimeError(said))).startswith(words)


def test_a_cluster_that_gives_nothing_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "WAIT_S", 0.0)
    with pytest.raises(NoExecutorError, match=r"has given no executor in 0 seconds\. See that"):
        looked(spark, tmp_path)


def test_a_master_at_which_nobody_answers_is_told_before_spark_tries_for_a_minute() -> None:
    with pytest.raises(NoExecutorError, match="cannot be reached: connection refused"):
        require_master("spark://127.0.0.1:1")
    with pytest.raises(NoExecutorError, match="it is no HOST:PORT"):
        require_master("spark://127.0.0.1")
    require_master("yarn")


def test_masters_are_told_apart() -> None:
    here = ["local", "local[*]", "local[2]", "local[2, 3]"]
    assert all(map(is_one_process, here))
    assert all(map(is_one_machine, [*here, "local-cluster[2,1,1024]"]))
    elsewhere = ["local-cluster[2,1,1024]", "spark://h:7077", "yarn", "k8s://h"]
    assert not any(map(is_one_process, elsewhere))
