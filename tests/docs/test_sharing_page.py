"""The tutorial on sharing, run from the page: Python and commands, in order, in one folder."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.commands import failing, quick

PAGE = (Path(__file__).parents[2] / "docs" / "sharing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(pycon|console)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ headwater (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def test_the_tutorial_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for at, (language, text) in enumerate(BLOCKS):
        if language == "pycon":
            test = doctest.DocTestParser().get_doctest(text, names, f"block {at}", None, None)
            test.globs = names
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            with capsys.disabled():
                result = runner.run(test, clear_globs=False)
            assert result.failed == 0
            ran += result.attempted
            continue
        for command, output in COMMAND.findall(text):
            if not output:
                continue  # needs a project of its own; see tests/sharing/test_publishing.py
            arguments = shlex.split(command)
            if output.startswith("headwater: "):
                assert plain(failing(monkeypatch, capsys, *arguments).err) == plain(output)
            else:
                assert plain(quick(*arguments).out) == plain(output)
            ran += 1
    assert ran > 40


def test_every_rule_has_a_row() -> None:
    rows = re.findall(r"^\| (A\d+) \|", PAGE, re.MULTILINE)
    assert rows == [f"A{number}" for number in range(1, 18)]


@pytest.mark.parametrize("command", re.findall(r"^\| `headwater ([a-z ]+)", PAGE, re.MULTILINE))
def test_a_command_of_the_page_exists(command: str) -> None:
    assert quick(*command.split(), "--help").code == 0
