"""A Python for Spark's tasks that is not Headwater's own is refused before Spark starts."""

import sys
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.frames.failures import in_words
from headwater.frames.worker_python import VARIABLE, require_own_python

OWN = "{}.{}".format(*sys.version_info)
WRONG = {
    "echo 2.7 True": "Python 2.7; Headwater runs on Python",
    f"echo {OWN} False": "in which Headwater is not installed",
    "exit 1": "which cannot be started as a Python",
}


@pytest.mark.parametrize(("script", "words"), WRONG.items())
def test_another_python_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    other = tmp_path / "python"
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(other))
    with pytest.raises(InputError) as caught:
        require_own_python()
    assert f"PYSPARK_PYTHON is set to {other}, {words}" in str(caught.value)
    assert f"Unset PYSPARK_PYTHON, or set it to {sys.executable}." in str(caught.value)


def test_one_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/python")
    with pytest.raises(InputError, match="which cannot be started"):
        require_own_python()


def test_another_path_to_the_same_python_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python"
    other.write_text(f"#!/bin/sh\necho {OWN} True\n")
    other.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(other))
    require_own_python()


def test_what_a_worker_raised_is_told_in_its_last_line() -> None:
    said = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "  File x, line 1, in y\nbase.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
        "worker has different version: 3.12 than that in driver: 3.11.\nPlease check."
    )
    words = "Python in worker has different version: 3.12 than that in driver: 3.11"
    assert in_words(Exception(said)) == words
