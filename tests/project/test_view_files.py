from __future__ import annotations

from pathlib import Path

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT
from headwater.check.levels import Level
from headwater.errors import InputError, SeveralInputError
from headwater.project.view_files import ViewFile, read_view_file

ORDERS = Relation("shop.orders", "shop", Schema.of([("id", INT), ("customer", INT)]), ("id",))
CUSTOMERS = Relation("crm.customers", "crm", Schema.of([("id", INT), ("name", TEXT)]), ("id",))
START = "CREATE MATERIALIZED VIEW v "


def read(folder: Path, text: str) -> ViewFile:
    path = folder / "v.sql"
    path.write_text(text, encoding="utf-8")
    return read_view_file(path)


def refused(folder: Path, text: str) -> str:
    """The mistake, which starts with line and column."""
    with pytest.raises(InputError) as caught:
        read(folder, text).define([ORDERS, CUSTOMERS])
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder / 'v.sql'}:")


def test_a_short_header_has_defaults(tmp_path: Path) -> None:
    file = read(tmp_path, "CREATE MATERIALIZED VIEW v AS SELECT id FROM orders")
    assert (file.name, file.level, file.algorithm, file.parameters) == ("v", Level.STRONG, None, {})
    assert (file.keep_keys, file.refresh_every, file.publish_every) == (False, None, None)
    assert file.select == "SELECT id FROM orders"
    assert file.text[file.offset :] == file.select


def test_a_whole_header(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        "-- about it; AS SELECT is in this comment\n"
        "create Materialized /* a\nlong one */ VIEW `Order_Lines`\n"
        "WITH complete Consistency USING pvm-cc (p = 8, handle = 'posse', policy=near-first)\n"
        "KEEP KEYS REFRESH EVERY '5 seconds' PUBLISH EVERY '2 hours' WITH CHANGES\n"
        "AS -- now\n SELECT id FROM orders;  \n",
    )
    assert (file.name, file.level, file.algorithm) == ("Order_Lines", Level.COMPLETE, "pvm-cc")
    assert file.parameters == {"p": "8", "handle": "posse", "policy": "near-first"}
    assert (file.keep_keys, file.refresh_every, file.publish_every) == (True, 5, 7200)
    assert file.changes
    assert file.select == "SELECT id FROM orders"


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("WITH CONVERGENCE", Level.CONVERGENT),
        ("with convergence consistency", Level.CONVERGENT),
        ("WITH WEAK CONSISTENCY", Level.WEAK),
        ("WITH STRONG", Level.STRONG),
        ("WITH COMPLETE CONSISTENCY", Level.COMPLETE),
    ],
)
def test_every_level_has_its_words(tmp_path: Path, words: str, level: Level) -> None:
    assert read(tmp_path, f"{START}{words} AS SELECT id FROM orders").level == level


@pytest.mark.parametrize(
    ("words", "recompute"),
    [
        ("", None),
        ("RECOMPUTE NEVER", "never"),
        ("Recompute When Cheaper", "when cheaper"),
        ("RECOMPUTE FROM 100000 ROWS", 100_000),
        ("USING recompute RECOMPUTE NEVER", "never"),
    ],
)
def test_when_it_is_recomputed(tmp_path: Path, words: str, recompute: str | int | None) -> None:
    assert read(tmp_path, f"{START}{words} AS SELECT id FROM orders").recompute == recompute


@pytest.mark.parametrize("name", ["order_lines", "`order_lines`", '"order_lines"'])
def test_a_name_may_be_quoted(tmp_path: Path, name: str) -> None:
    file = read(tmp_path, f"CREATE MATERIALIZED VIEW {name} AS SELECT id FROM orders")
    assert file.name == "order_lines"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: there is no view in this file."),
        ("-- nothing\n", "1:11: there is no view in this file."),
        ("SELECT 1", "1:1: CREATE was expected here, not 'SELECT'."),
        ("CREATE VIEW v AS SELECT 1", "1:8: MATERIALIZED was expected here, not 'VIEW'."),
        ("CREATE MATERIALIZED", "1:20: VIEW was expected here, not the end of the file."),
        ("CREATE MATERIALIZED VIEW AS SELECT 1", "1:26: the view has no name."),
        ("CREATE MATERIALIZED VIEW _v AS SELECT 1", "1:26: _v cannot be the name of a view."),
        ("CREATE MATERIALIZED VIEW `a/b` AS SELECT 1", "1:26: a/b cannot be the name of a view."),
        ("CREATE MATERIALIZED VIEW a-b AS SELECT 1", "1:26: a-b cannot be the name of a view."),
        ("CREATE MATERIALIZED VIEW é AS SELECT 1", "1:26: é cannot be the name of a view."),
        ("CREATE MATERIALIZED VIEW 7 AS SELECT 1", "1:26: the view has no name."),
        ("CREATE MATERIALIZED VIEW a.b AS SELECT 1", "1:27: a view's name has no dot."),
        (START + "(a) AS SELECT 1", "1:28: names of columns after the view's name are not"),
        (START + "WITH CHANGES WITH STRONG WITH CHANGES AS", "1:53: WITH CHANGES occurs twice."),
        (START + "\nWITH STRNG AS", "2:6: 'STRNG' is not a level of consistency. Did you mean 'S"),
        (START + "WITH AS", "1:33: 'AS' is not a level of consistency. The levels are: CONV"),
        (START + "USNG sweep AS", "1:28: 'USNG' was not expected here. Did you mean 'USING'?"),
        (START + "USING AS", "1:34: USING names no algorithm."),
        (START + "USING sweep (batch) AS", "1:46: = was expected here, not ')'."),
        (START + "USING sweep (batch =) AS", "1:48: parameter batch has no value."),
        (START + "USING sweep (batch = 1 p = 2)", "1:51: , was expected here, not 'p'."),
        (START + "USING pvm-cc (p = 1, P = 2)", "1:49: parameter p occurs twice."),
        (START + "KEEP IT AS", "1:33: KEYS was expected here, not 'IT'."),
        (START + "REFRESH '5 seconds' AS", "1:36: EVERY was expected here, not ''5 seconds''."),
        (START + "RECOMPUTE AS", "1:38: FROM was expected here, not 'AS'."),
        (START + "RECOMPUTE WHEN AS", "1:43: CHEAPER was expected here, not 'AS'."),
        (START + "RECOMPUTE FROM 0 ROWS AS", "1:43: RECOMPUTE FROM needs a whole number above"),
        (START + "RECOMPUTE FROM 5 AS", "1:45: ROWS was expected here, not 'AS'."),
        (START + "REFRESH EVERY 5 AS", "1:42: EVERY needs a duration in quotes."),
        (START + "REFRESH EVERY '5' AS", "1:42: '5' is not a duration: write a number and a unit"),
        (START + "KEEP KEYS KEEP KEYS AS", "1:38: KEEP occurs twice."),
        (START + "KEEP COPY crm.customers AS", "1:38: OF was expected here, not 'crm'."),
        (START + "KEEP COPY OF AS", "1:41: KEEP COPY OF names no relation here."),
        (START + "KEEP COPY OF a, AS", "1:44: KEEP COPY OF names no relation here."),
        (START + "KEEP COPY OF a.b.c.d AS", "1:41: a.b.c.d has too many parts."),
        (START + "KEEP COPY OF a KEEP COPY OF b AS", "1:43: KEEP COPY occurs twice."),
        (START + "WITH NO AS", "1:36: CONSISTENCY was expected here, not 'AS'."),
        (START + "WITH STRONG", "1:39: the file ends before AS SELECT."),
        (START + "AS", "1:30: there is no SELECT after AS."),
        (START + "PUBLISH EVERY '5 seconds AS", "1:42: what ' opens is never closed."),
    ],
)
def test_a_mistake_in_the_header_has_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT idd\nFROM orders", "4:10: there is no column idd in orders."),
        ("SELECT id\nFROM ordrs", "5:6: there is no relation ordrs."),
        ("SELECT id\nFROM orders\nSORT BY id", "6:1: SORT BY is not supported."),
        ("SELECT id FROM orders WHERE (id = 1", "4:"),
        ("SELECT a", "4:3: the query has no FROM."),
        ("SELECT id FROM orders; SELECT id FROM orders", "4:26: there is more than one statement."),
        ("UPDATE orders SET id = 1", "4:3: UPDATE ... is not a SELECT."),
        ("SELECT 'x FROM orders", "4:10: what ' opens is never closed."),
    ],
)
def test_a_mistake_in_the_query_counts_from_the_start_of_the_file(
    tmp_path: Path, select: str, message: str
) -> None:
    header = f"-- it's {{about}} this\n{START}WITH WEAK\nAS\n  "
    assert refused(tmp_path, header + select).startswith(message)


def test_several_mistakes_in_the_query_have_a_place_each(tmp_path: Path) -> None:
    with pytest.raises(SeveralInputError) as caught:
        read(tmp_path, f"{START} AS\nSELECT a,\n b FROM orders").define([ORDERS])
    path = tmp_path / "v.sql"
    told = [str(problem) for problem in caught.value.problems]
    assert [each.partition(" ")[0] for each in told] == [f"{path}:2:8:", f"{path}:3:2:"]
    assert caught.value.exit_code == 2


def test_a_mistake_after_union_all_counts_from_the_start_of_the_file(tmp_path: Path) -> None:
    text = f"{START}AS\nSELECT id FROM orders\nUNION ALL\n  SELECT name FROM customers"
    found = refused(tmp_path, text)
    assert found.startswith("4:10: column 1 is of type text, and in the first SELECT (id) of type")


def test_a_definition_has_the_view(tmp_path: Path) -> None:
    text = f"{START}AS\nSELECT o.id, name FROM shop.orders o, crm.customers c WHERE customer = c.id"
    definition = read(tmp_path, text + ";").define([ORDERS, CUSTOMERS])
    assert definition.name == definition.view.name == "v"
    assert definition.view.schema.names == ("id", "name")
    assert definition.view.sources == ("shop", "crm")
    assert definition.view.sql == text.partition("\n")[2]


def test_a_file_with_a_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "v.sql"
    path.write_bytes(b"\xef\xbb\xbf" + (START + "\r\nAS\r\nSELECT idd FROM orders").encode())
    with pytest.raises(InputError, match=":3:8: there is no column idd"):
        read_view_file(path).define([ORDERS])


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_view_file(tmp_path / "v.sql")


def test_lines_may_end_as_on_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "v.sql"
    path.write_bytes(
        b"\xef\xbb\xbf-- about\r\nCREATE MATERIALIZED VIEW v AS\rSELECT id\r\nFROM orders"
    )
    assert read_view_file(path).select == "SELECT id\nFROM orders"


def test_what_nobody_expected_while_a_view_is_read_is_a_mistake_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("headwater.project.view_files.parse_view", stumble)
    said = refused(tmp_path, START + "AS\nSELECT id FROM orders")
    assert said.startswith("2:1: the view cannot be understood (ZeroDivisionError).")


JOINED = "AS SELECT o.id, c.name FROM orders o JOIN crm.customers c ON o.customer = c.id"


@pytest.mark.parametrize("name", ["crm.customers", "customers", 'crm."customers"', "CRM.Customers"])
def test_a_copy_is_kept_of_a_relation_that_the_view_joins(tmp_path: Path, name: str) -> None:
    made = read(tmp_path, f"{START}KEEP KEYS KEEP COPY OF {name} {JOINED}").define(
        [ORDERS, CUSTOMERS]
    )
    assert made.view.copies == ("crm.customers",)
    assert made.stored.copies == ("crm.customers",)
    assert made.stored.view.stored_schema == made.view.stored_schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"KEEP COPY OF crm.custmers {JOINED}",
            "1:41: there is no relation crm.custmers. View v joins crm.customers, shop.orders.",
        ),
        (
            "KEEP COPY OF crm.customers AS SELECT id FROM orders",
            "1:41: a copy of crm.customers is of no use to v, which never reads it.",
        ),
        (
            "KEEP COPY OF shop.orders AS SELECT id FROM orders",
            "1:41: a copy of shop.orders is of no use to v, which never joins it.",
        ),
    ],
)
def test_a_copy_of_what_is_not_joined_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, START + text).startswith(message)
