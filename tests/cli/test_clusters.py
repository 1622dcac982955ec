"""What a cluster is given: the program for spark-submit, and an archive for executors."""

import subprocess
import sys
import tarfile
import time
from importlib.metadata import distribution
from pathlib import Path

import pytest

from headwater import __version__
from headwater.cli import submitted
from headwater.errors import InputError
from headwater.project import packing
from tests.cli.commands import quick


def test_the_program_for_spark_submit_runs_the_commands() -> None:
    path = quick("entry").out.strip()
    assert Path(path) == Path(submitted.__file__)
    done = subprocess.run(
        [sys.executable, path, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"headwater {__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="parents are told by their numbers")
def test_it_stops_when_spark_submit_has_ended(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, threading, time\n"
        "from headwater.cli.submitted import _stop_with\n"
        "stop = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *_: stop.set())\n"
        "threading.Thread(target=_stop_with, args=[os.getppid()], daemon=True).start()\n"
        "print(os.getpid(), flush=True)\n"
        f"stop.wait(60) and open({str(tmp_path / 'stopped')!r}, 'w').close()\n"
    )
    parent = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} {program} & wait"], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    parent.stdout.readline()  # it is at work
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 60
    while not (tmp_path / "stopped").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_archive_has_packages_and_what_starts_python_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [distribution("headwater"), distribution("typing_extensions")]
    monkeypatch.setattr(packing, "_needed", lambda name, seen: small)
    target = tmp_path / "env.tar.gz"
    assert "Next, under [spark.settings]" in quick("pack", str(target)).out
    with tarfile.open(target) as archive:
        archive.extractall(tmp_path / "environment", filter="data")
    python = tmp_path / "environment" / "bin" / "python"
    say = "import headwater; print(headwater.__file__)"
    done = subprocess.run(
        [str(python), "-c", say],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )
    assert done.stdout.startswith(str(tmp_path / "environment" / "lib" / "headwater"))


def test_an_archive_has_what_headwater_needs_and_not_spark() -> None:
    names = {each.name.lower() for each in packing._needed("headwater", set())}
    assert names >= {"headwater", "pyarrow", "pandas", "numpy", "psycopg", "psycopg-binary"}
    assert not names & {"pyspark", "py4j", "pytest", "ruff"}


def test_an_archive_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Let it end with \.tar\.gz"):
        packing.pack_environment(tmp_path / "env.zip")
