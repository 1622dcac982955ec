"""What a table shows in a narrow terminal."""

from __future__ import annotations

import pytest

from headwater.terminal.output import print_rows, print_table

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


@pytest.mark.parametrize("width", [20, 40, 80])
def test_rows_of_data_are_shown_with_all_columns_and_whole_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    values = ["99999999.99", "2024-02-29", "a word"] * 5
    print_rows([f"column_{n}" for n in range(15)], [values])
    heads, _, row = capsys.readouterr().out.splitlines()
    assert heads.split() == [f"column_{n}" for n in range(15)]
    assert row.split() == " ".join(values).split()


def test_a_value_wider_than_the_terminal_goes_on_below_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_rows(["id", "text"], [["1", "x" * 100]])
    assert capsys.readouterr().out.count("x") == 101  # one is in the heading
