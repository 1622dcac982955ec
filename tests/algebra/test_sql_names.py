"""Which names a view's SQL may use: double quotes enclose names, as in standard SQL, never text."""

import pytest

from headwater.algebra.expressions import Literal, show_expression
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.text import SqlText
from headwater.algebra.sql.view import normalised, parse_view, tables_of
from headwater.algebra.values import INT, TEXT
from headwater.errors import SqlError

ODD_NAMES = [
    "OrderId",
    "select",
    "a b",
    "a.b",
    'a"b',
    "a`b",
    "it's",
    "größe 数",
    "a\\b",
    "--",
    "/*",
]
ODD = Relation("Odd Table", "shop", Schema.of([(name, INT) for name in ODD_NAMES]))
CASES = Relation("cases", "shop", Schema.of([("id", INT), ("Id", INT), ("Note", TEXT)]))
RELATIONS = (ODD, CASES)


def double_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def refusal(sql: str) -> str:
    with pytest.raises(SqlError) as caught:
        parse_view(sql, RELATIONS)
    return str(caught.value)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_double_quotes_enclose_the_name_of_a_column(name: str) -> None:
    quoted = double_quoted(name)
    for sql in (
        f'SELECT {quoted} FROM "Odd Table"',
        f'SELECT t.{quoted} FROM shop."Odd Table" AS t',
        f'SELECT "T 1".{quoted} FROM "shop"."Odd Table" "T 1" WHERE {quoted} > 0',
    ):
        view = parse_view(sql, RELATIONS)
        assert view.schema == Schema.of([(name, INT)])


@pytest.mark.parametrize("name", ODD_NAMES)
def test_backticks_enclose_a_name_too(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    view = parse_view(f"SELECT {quoted} AS x FROM `Odd Table`", RELATIONS)
    assert [show_expression(o) for o in view.joins[0].outputs] == [
        show_expression(o)
        for o in parse_view(f'SELECT {double_quoted(name)} FROM "Odd Table"', RELATIONS)
        .joins[0]
        .outputs
    ]


def test_an_alias_may_stand_in_double_quotes() -> None:
    view = parse_view('SELECT "Id" AS "the ""new"" id" FROM cases', RELATIONS)
    assert view.schema.names == ('the "new" id',)


def test_a_name_in_double_quotes_that_no_column_has_is_no_text() -> None:
    message = refusal('SELECT "OrderId" FROM cases')
    assert message.startswith("line 1, column 8: there is no column OrderId in cases.")
    assert "cases.id" in message
    assert "Text stands in single quotes." in message


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ('SELECT "ID" FROM cases', "column 8: there is no column ID in cases."),
        ('SELECT id FROM "Cases"', "column 16: there is no relation Cases."),
        ('SELECT id FROM "Shop".cases', "column 16: there is no relation Shop.cases."),
        ('SELECT "C".id FROM cases c', "column 8: there is no table C in FROM here."),
        ('SELECT "C".* FROM cases c', "column 8: there is no table C in FROM here."),
        ('SELECT 1 AS n FROM cases JOIN "Odd Table" USING ("ID")', "there is no column ID in"),
    ],
)
def test_a_name_in_double_quotes_means_only_what_is_spelled_the_same(sql: str, place: str) -> None:
    assert place in refusal(sql)


def test_other_names_are_found_whatever_their_case() -> None:
    assert parse_view("SELECT C.NOTE, `NOTE` AS n FROM Shop.CASES c", RELATIONS).schema.names == (
        "Note",
        "n",
    )


def test_double_quotes_say_which_of_two_spellings_is_meant() -> None:
    view = parse_view('SELECT "Id" AS a, "id" AS b FROM cases', RELATIONS)
    assert [show_expression(o) for o in view.joins[0].outputs] == ["cases.Id", "cases.id"]


@pytest.mark.parametrize("sql", ['SELECT id FROM cases WHERE "Note" = ""', 'SELECT "" FROM cases'])
def test_an_empty_name_is_refused_with_the_way_to_write_empty_text(sql: str) -> None:
    assert "there is a name without letters" in refusal(sql)
    assert "Text stands in single quotes." in refusal(sql)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'it''s'", "it's"),
        ("'it\\'s'", "it's"),
        ("''''", "'"),
        ("''", ""),
        ("'\"quoted\"'", '"quoted"'),
        ("'`'", "`"),
    ],
)
def test_single_quotes_enclose_text(written: str, text: str) -> None:
    view = parse_view(f"SELECT {written} AS x FROM cases", RELATIONS)
    assert view.joins[0].outputs == (Literal(text, TEXT),)


def test_text_with_a_quote_in_it_is_not_a_concatenation() -> None:
    assert normalised("SELECT 'it''s' FROM t") != normalised("SELECT CONCAT('it', 's') FROM t")


@pytest.mark.parametrize(
    ("written", "column"),
    [("E'a\\n'", 8), ("U&'\\0041'", 8), ("N'a'", 8), ("$$it's$$", 8), ("$tag$x$tag$", 8)],
)
def test_text_in_the_ways_of_one_database_is_refused_with_the_way_to_write_it(
    written: str, column: int
) -> None:
    message = refusal(f"SELECT {written} AS x FROM cases")
    assert message.startswith(f"line 1, column {column}: ")
    assert "Write text in single quotes" in message


@pytest.mark.parametrize("opened", ['"Id', "`Id", "'Id"])
def test_what_is_never_closed_is_found(opened: str) -> None:
    assert f"column 8: what {opened[0]} opens is never closed." in refusal(
        f"SELECT {opened} FROM cases"
    )


def test_the_tables_of_a_query_keep_whether_they_are_quoted() -> None:
    (table,) = tables_of('SELECT 1 AS n FROM "shop"."Odd Table"')
    assert (table.source, table.name, table.column) == ("shop", "Odd Table", 20)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("X'0'", "line 1, column 8: X'...' needs two digits for each byte."),
        ("X'zz'", "line 1, column 8: X'...' has something else than digits."),
        ("CAST(id AS DECIMAL(x))", "line 1, column 13: DECIMAL takes numbers of digits."),
    ],
)
def test_a_constant_that_is_none_is_refused_in_words(written: str, words: str) -> None:
    assert refusal(f"SELECT {written} AS x FROM cases").startswith(words)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT 1 -- \\\n+ 2", "SELECT 1     \n+ 2"),
        ("SELECT /*+ x ' */ 1 /* /* */ */", "SELECT            1            "),
        ("SELECT '--', \"/*\", `a--b`", "SELECT '--', \"/*\", `a--b`"),
        ("-- alone", "        "),
    ],
)
def test_code_is_the_text_without_comments_and_hints_all_else_in_its_place(
    sql: str, code: str
) -> None:
    assert SqlText(sql).code == code


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT w.table, window FROM w",
        "SELECT b AS table FROM w",
        "SELECT b FROM w WHERE b IN (SELECT table FROM w)",
        "SELECT window AS x, COUNT(*) AS n FROM w GROUP BY w.window",
        "SELECT b, w.all FROM w ORDER BY 2 LIMIT 2",
    ],
)
def test_words_of_clauses_may_be_names_of_columns(sql: str) -> None:
    columns = Schema.of([("table", INT), ("window", INT), ("all", INT), ("b", INT)])
    parse_view(sql, [Relation("w", "shop", columns)])


def test_order_by_all_beside_a_column_all_is_refused() -> None:
    columns = Schema.of([("all", INT), ("b", INT)])
    with pytest.raises(SqlError, match="may mean a column all"):
        parse_view("SELECT * FROM w ORDER BY ALL LIMIT 1", [Relation("w", "shop", columns)])
