"""What a table shows in a narrow terminal."""

from __future__ import annotations

import pytest

from headwater.terminal.output import print_table

NAME, KIND = "a_rather_long_column_name", "struct<street text, city text, zip text, lat float>"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_name_is_shown_whole_and_what_is_beside_it_goes_on_in_the_next_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [[NAME, "public.addr", KIND, "it is generated"], ["n", "integer", "int", ""]]
    print_table("", ["column", "there", "here", "remark"], rows, is_whole=True)
    shown = capsys.readouterr().out
    assert NAME in shown
    assert all(len(line) <= width for line in shown.splitlines())
    letters = "".join(shown.split())
    assert all(letters.count(letter) >= KIND.count(letter) for letter in "<>,")
