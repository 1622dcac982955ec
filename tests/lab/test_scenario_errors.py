"""Every mistake in a scenario is one sentence that starts with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.algebra.values import Json
from headwater.errors import ScenarioError
from headwater.lab.scenario import scenario_from_json
from tests.scenarios import GONE, edited, load_scenarios

GOOD: dict[str, Json] = {
    "relations": {
        "r1": {
            "source": "x",
            "columns": {"A": "int", "B": "text"},
            "key": ["A"],
            "rows": [[1, "a"], [2, "b"]],
        },
        "r2": {"source": "y", "columns": {"A": "int", "F": "float"}, "rows": []},
    },
    "view": "SELECT r1.A, r2.F FROM r1, r2 WHERE r1.A = r2.A",
    "transactions": [
        {"id": "T1", "updates": [{"relation": "r1", "insert": [3, "c"]}]},
        {"id": "T2", "updates": [{"relation": "r1", "delete": [1, "a"]}]},
        {"id": "T3", "updates": [{"relation": "r1", "update": [[2, "b"], [2, "z"]]}]},
    ],
}
R1, T1, U1 = ("relations", "r1"), ("transactions", 0), ("transactions", 0, "updates", 0)
HERE = "transactions[0] (T1).updates[0]"

MISTAKES: list[tuple[tuple[str | int, ...], Any, str]] = [
    # Members
    (("relations",), GONE, "the scenario: 'relations' is missing"),
    (("view",), GONE, "the scenario: 'view' is missing"),
    (("transactions",), GONE, "the scenario: 'transactions' is missing"),
    (("veiw",), "", "the scenario: has an unknown member 'veiw'"),
    ((*R1, "source"), GONE, "relations.r1: 'source' is missing"),
    ((*R1, "columns"), GONE, "relations.r1: 'columns' is missing"),
    ((*R1, "keys"), [], "relations.r1: has an unknown member 'keys'"),
    ((*T1, "id"), GONE, "transactions[0]: 'id' is missing"),
    ((*T1, "updates"), GONE, "transactions[0] (T1): 'updates' is missing"),
    ((*T1, "at"), 1, "transactions[0]: has an unknown member 'at'"),
    ((*U1, "relation"), GONE, f"{HERE}: 'relation' is missing"),
    ((*U1, "insert"), GONE, f"{HERE}: needs exactly one of insert, delete and update"),
    ((*U1, "delete"), [1, "a"], f"{HERE}: needs exactly one of insert, delete and update"),
    ((*U1, "upsert"), [1, "a"], f"{HERE}: has an unknown member 'upsert'"),
    # Types of JSON values
    (("relations",), [], "the scenario: 'relations' must be an object, not a list"),
    (("relations",), {}, "relations: there is none"),
    (("view",), 5, "the scenario: 'view' must be a text, not a number"),
    (("view",), "", "the scenario: 'view' is empty"),
    (("transactions",), {}, "the scenario: 'transactions' must be a list, not an object"),
    (("keep_keys",), 1, "keep_keys: must be true or false"),
    (R1, "r1", "relations.r1: must be an object, not a text"),
    ((*R1, "source"), None, "relations.r1: 'source' must be a text, not null"),
    ((*R1, "source"), " ", "relations.r1: 'source' is empty"),
    ((*R1, "columns"), ["A"], "relations.r1: 'columns' must be an object, not a list"),
    ((*R1, "columns"), {}, "relations.r1: has no columns"),
    ((*R1, "columns", "A"), "integers", "relations.r1.columns: unknown type 'integers'"),
    ((*R1, "columns", "A"), "decimal(50,2)", "relations.r1.columns: decimal(50,2) is outside"),
    ((*R1, "key"), "A", "relations.r1.key: must be a list of column names"),
    ((*R1, "key"), [1], "relations.r1.key: must be a list of column names"),
    ((*R1, "key"), ["C"], "relations.r1.key: no column 'C'"),
    ((*R1, "rows"), {}, "relations.r1: 'rows' must be a list, not an object"),
    (T1, "T1", "transactions[0]: must be an object, not a text"),
    ((*T1, "id"), 1, "transactions[0]: 'id' must be a text, not a number"),
    ((*T1, "id"), "", "transactions[0]: 'id' is empty"),
    ((*T1, "updates"), {}, "transactions[0] (T1): 'updates' must be a list, not an object"),
    ((*T1, "updates"), [], "transactions[0] (T1): has no updates"),
    (U1, [], f"{HERE}: must be an object, not a list"),
    ((*U1, "relation"), True, f"{HERE}: 'relation' must be a text, not true or false"),
    # The view
    (("view",), "SELECT r1.C FROM r1", "view: line 1, column 8: there is no column C in r1."),
    (("view",), "SELECT A\nFROM r1, r2", "view: line 1, column 8: column A is ambiguous"),
    (("view",), "SELECT r1.A\nFROM r3", "view: line 2, column 6: there is no relation r3."),
    (("view",), "SELECT A FROM r1 SORT BY A", "view: line 1, column 18: SORT BY is not supported."),
    (("view",), "DELETE FROM r1", "view: line 1, column 1: DELETE ... is not a SELECT."),
    # Rows
    ((*R1, "rows", 1), 5, "relations.r1.rows[1]: a row is a list of values, not a number"),
    ((*R1, "rows", 1), {"A": 1}, "relations.r1.rows[1]: a row is a list of values, not an object"),
    ((*R1, "rows", 1), [1], "relations.r1.rows[1]: a row of r1 has 2 values (A, B), not 1"),
    (
        (*R1, "rows", 1),
        ["2", "b"],
        "relations.r1.rows[1]: column A: '2' is not a value of type int",
    ),
    ((*R1, "rows", 1), [True, "b"], "relations.r1.rows[1]: column A: True is not a value of type"),
    (
        (*R1, "rows", 1),
        [2.0, "b"],
        "relations.r1.rows[1]: column A: 2.0 is not a value of type int",
    ),
    (
        (*R1, "rows", 1),
        [2**63, "b"],
        "relations.r1.rows[1]: column A: 9223372036854775808 is outside",
    ),
    ((*R1, "rows", 1), [1, "b"], "relations.r1.rows[1]: r1 already has a row with the key [1]"),
    ((*R1, "rows", 1), [None, "b"], "relations.r1.rows[1]: the key of r1 is NULL in [NULL, 'b']"),
    # Transactions
    ((*T1, "id"), "T2", "transactions[1]: the id 'T2' occurs twice"),
    ((*U1, "relation"), "r3", f"{HERE}: no relation 'r3'"),
    ((*U1, "insert"), [3], f"{HERE}: a row of r1 has 2 values (A, B), not 1"),
    ((*U1, "insert"), 3, f"{HERE}: a row is a list of values, not a number"),
    ((*U1, "insert"), [3, 3], f"{HERE}: column B: 3 is not a value of type text"),
    ((*U1, "insert"), [None, "c"], f"{HERE}: the key of r1 is NULL in [NULL, 'c']"),
    ((*U1, "insert"), [2, "c"], f"{HERE}: r1 already has a row with the key [2]"),
    (U1, {"relation": "r1", "delete": [1, "z"]}, f"{HERE}: r1 has no row [1, 'z'] to delete"),
    (
        U1,
        {"relation": "r1", "update": [1, "a"]},
        f"{HERE}: a row is a list of values, not a number",
    ),
    (U1, {"relation": "r1", "update": [[1, "a"]]}, f"{HERE}: an update is a list of the old row"),
    (U1, {"relation": "r1", "update": [[9, "a"], [9, "b"]]}, f"{HERE}: r1 has no row [9, 'a']"),
    (U1, {"relation": "r1", "update": [[1, "a"], [2, "a"]]}, f"{HERE}: r1 already has a row with"),
]


def test_the_scenario_without_mistakes_is_valid() -> None:
    assert len(scenario_from_json(GOOD).transactions) == 3


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_place(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_from_json(edited(GOOD, path, value), "mine.json")
    text = str(caught.value)
    assert text.startswith(f"mine.json: {message}")
    assert text.endswith(".")
    assert "\n" not in text


def test_a_deletion_is_checked_at_its_place_in_the_order() -> None:
    data = edited(GOOD, ("transactions", 0), {"id": "T0", "updates": [DELETE_FIRST]})
    with pytest.raises(ScenarioError, match=r"transactions\[1\] \(T2\).*no row \[1, 'a'\]"):
        scenario_from_json(data)


DELETE_FIRST: Json = {"relation": "r1", "delete": [1, "a"]}


def test_a_deletion_names_what_is_there() -> None:
    data = edited(GOOD, U1, {"relation": "r1", "delete": [5, "e"]})
    with pytest.raises(ScenarioError, match=r"It has \(\[1, 'a'\], \[2, 'b'\]\)\."):
        scenario_from_json(data)


def test_a_relation_without_a_key_may_hold_duplicates() -> None:
    data = edited(GOOD, ("relations", "r2", "rows"), [[1, 0.5], [1, 0.5]])
    assert scenario_from_json(data).initial["r2"].count((1, 0.5)) == 2


# Files


def loading(tmp_path: Path, text: str | bytes, name: str = "mine.json") -> str:
    """The error for a file with this text, without the folder."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError) as caught:
        load_scenarios(path)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_broken_json_is_named_with_its_line_and_column(tmp_path: Path) -> None:
    text = json.dumps(GOOD, indent=1).replace('"view":', '"view"', 1)
    line = 1 + text[: text.index('"view"')].count("\n")
    assert loading(tmp_path, text) == (
        f"mine.json, line {line}, column 9: not valid JSON: Expecting ':' delimiter. "
        "A file holds one JSON object, or one object on each line."
    )


def test_a_broken_line_of_several_is_named(tmp_path: Path) -> None:
    text = json.dumps(GOOD) + "\n\n" + json.dumps(GOOD)[:-1] + "\n"
    message = loading(tmp_path, text, "mine.jsonl")
    assert message.startswith("mine.jsonl, line 3, column ")
    assert "not valid JSON: Expecting ',' delimiter." in message


def test_a_wrong_scenario_among_several_is_named_by_its_line(tmp_path: Path) -> None:
    text = json.dumps(GOOD) + "\n" + json.dumps(edited(GOOD, ("view",), GONE))
    assert loading(tmp_path, text, "mine.jsonl") == (
        "mine.jsonl, line 2: the scenario: 'view' is missing. Add 'view'."
    )


@pytest.mark.parametrize("text", ["", " \n\n"])
@pytest.mark.parametrize("name", ["mine.json", "mine.jsonl"])
def test_an_empty_file_has_no_scenario(tmp_path: Path, text: str, name: str) -> None:
    assert loading(tmp_path, text, name).startswith(f"{name}: there is no scenario in it.")


def test_a_list_is_no_scenario(tmp_path: Path) -> None:
    message = loading(tmp_path, "[]")
    assert message.startswith("mine.json: a scenario is a JSON object, not a list.")


def test_null_is_no_scenario(tmp_path: Path) -> None:
    assert loading(tmp_path, "null").startswith("mine.json: a scenario is a JSON object, not null.")


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_refused(tmp_path: Path, name: str) -> None:
    text = json.dumps(edited(GOOD, ("relations", "r2", "rows"), [[1, float(name)]]))
    message = loading(tmp_path, text)
    assert message.startswith(f'mine.json: not valid JSON: {name} is not JSON, write "{name}"')


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    message = loading(tmp_path, '{"relations": {"r1": {}, "r1": {}}}')
    assert message.startswith("mine.json: not valid JSON: an object has the member 'r1' twice.")


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    message = loading(tmp_path, "[" * 100_000)
    assert message.startswith("mine.json: not valid JSON: it is nested too deeply.")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    assert loading(tmp_path, b"\xff\xfe\x00").startswith("mine.json: is not UTF-8 text.")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.json: cannot be read: No such file"):
        load_scenarios(tmp_path / "none.json")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        load_scenarios(tmp_path)


def test_several_scenarios_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    named = edited(GOOD, ("name",), "second\u2028one")
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(named, ensure_ascii=False)}\n", "utf-8")
    assert [s.name for s in load_scenarios(path)] == [f"{path}, line 1", "second\u2028one"]


def test_lines_are_also_read_from_a_file_with_another_name(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n")
    assert len(load_scenarios(path)) == 2


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert len(load_scenarios(path)) == 1
