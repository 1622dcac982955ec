import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.journal import happened, in_detail
from headwater.terminal.log_lines import Log, written


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def test_a_line_has_time_level_and_fields(tmp_path: Path) -> None:
    with written(Log(file=tmp_path / "log")):
        happened("view", view="amounts", state="running", rows=3, because="it was loaded", at=None)
    [line] = lines(tmp_path / "log")
    time, _, said = line.partition(" ")
    assert time.endswith("Z")
    assert said == 'info view view=amounts state=running rows=3 because="it was loaded"'


def test_a_line_of_json_keeps_the_types_of_fields(tmp_path: Path) -> None:
    with written(Log("json", file=tmp_path / "log")):
        happened("commit", logging.WARNING, view="amounts", rows=3, takes={"shop": [[1, 2]]})
    found = json.loads(lines(tmp_path / "log")[0])
    assert found.pop("time")
    told = {"view": "amounts", "rows": 3, "takes": {"shop": [[1, 2]]}}
    assert found == {"level": "warning", "about": "commit", **told}


def test_details_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    for level in ("info", "debug"):
        with written(Log(level=level, file=tmp_path / level)):
            in_detail("question", view="amounts")
    assert [len(lines(tmp_path / level)) for level in ("info", "debug")] == [0, 1]


def test_nothing_that_steers_a_terminal_or_forges_a_line_is_written(tmp_path: Path) -> None:
    for form in ("text", "json"):
        with written(Log(form, file=tmp_path / form)):
            happened("view", because="a\nb \x1b[31mred\u202e")
        [line] = lines(tmp_path / form)
        assert line.isprintable()


def test_files_rotate_and_are_for_their_user_only(tmp_path: Path) -> None:
    with written(Log(file=tmp_path / "log", size=1000, keep=2)):
        for number in range(100):
            happened("view", number=number)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["log", "log.1", "log.2"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert lines(tmp_path / "log")[-1].endswith("number=99")


def test_a_file_goes_on_where_an_earlier_run_ended(tmp_path: Path) -> None:
    for run in (1, 2):
        with written(Log(file=tmp_path / "log")):
            happened("runner", run=run)
    assert [line[-5:] for line in lines(tmp_path / "log")] == ["run=1", "run=2"]


def test_a_file_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"--log-file .*No such file"),
        written(Log(file=tmp_path / "nowhere" / "log")),
    ):
        pass


FLOOD = """
from headwater.journal import happened
from headwater.terminal.log_lines import Log, written
with written(Log()):
    for number in range(20_000):
        happened("view", number=number, because="x" * 100)
    print("told", flush=True)
    input()
    happened("view", number="last")
"""


def test_who_tells_something_never_waits_for_who_reads() -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", FLOOD]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "told\n"  # while nobody reads what is logged
        first = [process.stderr.readline() for _ in range(2000)]
        process.stdin.write("\n")
        process.stdin.flush()
        said = [*first, *process.stderr]
    assert process.returncode == 0
    assert any(" warning log left_out=" in line for line in said)
    assert said[-1].endswith("number=last\n")
