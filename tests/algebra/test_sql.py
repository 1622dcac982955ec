from decimal import Decimal

import pytest

from headwater.algebra.expressions import show_expression
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view, tables_of
from headwater.algebra.values import DATE, FLOAT, INT, TEXT, TIMESTAMP_TZ, decimal_type
from headwater.algebra.views import Join, View
from headwater.errors import SqlError

ORDERS = Relation(
    "orders",
    "shop",
    Schema.of([("id", INT), ("customer", INT), ("price", decimal_type(8, 2)), ("day", DATE)]),
    key=("id",),
)
CUSTOMERS = Relation("customers", "crm", Schema.of([("customer", INT), ("Name", TEXT)]))
VISITS = Relation("visits", "crm", Schema.of([("customer", INT), ("at", TIMESTAMP_TZ)]))
RELATIONS = (ORDERS, CUSTOMERS, VISITS)


def parse(sql: str) -> View:
    return parse_view(sql, RELATIONS)


def join_of(sql: str) -> Join:
    (join,) = parse(sql).joins
    return join


def conditions(sql: str) -> list[str]:
    return [show_expression(conjunct) for conjunct in join_of(sql).condition]


def outputs(sql: str) -> list[str]:
    return [show_expression(output) for output in join_of(sql).outputs]


# FROM

ON_CUSTOMER = ["o.customer = c.customer"]
JOINS = {
    "comma": "FROM orders o, customers c WHERE o.customer = c.customer",
    "JOIN ON": "FROM orders o JOIN customers c ON o.customer = c.customer",
    "INNER JOIN ON": "FROM orders AS o INNER JOIN customers AS c ON o.customer = c.customer",
    "CROSS JOIN": "FROM orders o CROSS JOIN customers c WHERE o.customer = c.customer",
    "JOIN without ON": "FROM orders o JOIN customers c WHERE o.customer = c.customer",
    "USING": "FROM orders o JOIN customers c USING (customer)",
    "NATURAL JOIN": "FROM orders o NATURAL JOIN customers c",
    "names with their sources": "FROM shop.orders o, crm.customers c WHERE o.customer = c.customer",
    "names in another case": "FROM Orders O, CUSTOMERS C WHERE o.CUSTOMER = c.Customer",
}


@pytest.mark.parametrize("clause", JOINS.values(), ids=JOINS.keys())
def test_every_way_to_join_gives_the_same_join(clause: str) -> None:
    join = join_of(f"SELECT o.id {clause}")
    assert [occurrence.relation for occurrence in join.occurrences] == [ORDERS, CUSTOMERS]
    assert [show_expression(c).lower() for c in join.condition] == ON_CUSTOMER


def test_columns_are_named_by_their_alias() -> None:
    assert outputs("SELECT id, o.day FROM orders AS o") == ["o.id", "o.day"]


def test_without_an_alias_a_relation_goes_by_its_own_name() -> None:
    assert outputs("SELECT ORDERS.id FROM Orders") == ["orders.id"]


def test_a_column_may_be_named_with_the_source() -> None:
    assert outputs("SELECT shop.orders.id FROM orders") == ["orders.id"]


def test_relations_may_be_given_as_a_mapping() -> None:
    view = parse_view("SELECT id FROM orders", {"orders": ORDERS}, name="all_orders")
    assert view.relations == (ORDERS,)
    assert view.name == "all_orders"


def test_a_view_keeps_its_sql() -> None:
    assert parse("SELECT id FROM orders").sql == "SELECT id FROM orders"


def test_on_sees_only_the_tables_that_join_connects() -> None:
    with pytest.raises(SqlError, match="there is no table orders"):
        parse("SELECT 1 AS x FROM orders, customers JOIN visits ON orders.id = visits.customer")


def test_three_relations_join_on_one_merged_column() -> None:
    sql = "SELECT * FROM orders o JOIN customers c USING (customer) JOIN visits v USING (customer)"
    assert conditions(sql) == ["o.customer = c.customer", "o.customer = v.customer"]


def test_a_relation_may_occur_twice_when_that_is_allowed() -> None:
    sql = "SELECT a.id AS x, b.id AS y FROM orders a, orders b WHERE a.customer = b.customer"
    view = parse_view(sql, RELATIONS)
    assert [o.alias for o in view.joins[0].occurrences] == ["a", "b"]
    assert view.relations == (ORDERS,)


def test_one_semicolon_may_end_the_query() -> None:
    assert parse("SELECT id FROM orders;").schema.names == ("id",)


def test_comments_are_skipped() -> None:
    sql = "-- orders\nSELECT id /* the key */ FROM orders -- all of them"
    assert parse(sql).schema.names == ("id",)


# WHERE


def test_a_condition_is_split_into_its_conjuncts() -> None:
    sql = "SELECT id FROM orders WHERE id > 1 AND (customer = 2 AND (price > 3 OR price < 1))"
    assert conditions(sql) == [
        "orders.id > 1",
        "orders.customer = 2",
        "(orders.price > 3) OR (orders.price < 1)",
    ]


def test_conditions_of_on_and_where_are_one_conjunction() -> None:
    sql = "SELECT id FROM orders o JOIN visits v ON o.customer = v.customer WHERE id > 1"
    assert conditions(sql) == ["o.customer = v.customer", "o.id > 1"]


def test_a_condition_may_span_relations_in_any_way() -> None:
    sql = "SELECT id FROM orders o, visits v WHERE o.id + v.customer > 3 OR o.customer < v.customer"
    assert conditions(sql) == ["((o.id + v.customer) > 3) OR (o.customer < v.customer)"]


def test_a_condition_that_is_plainly_true_is_left_out() -> None:
    assert conditions("SELECT id FROM orders WHERE TRUE AND id = 1") == ["orders.id = 1"]


NEGATIONS = {
    "customer NOT IN (1, 2)": "NOT ((orders.customer = 1) OR (orders.customer = 2))",
    "customer NOT BETWEEN 1 AND 2": "NOT ((orders.customer >= 1) AND (orders.customer <= 2))",
    "customer IS NOT NULL": "NOT orders.customer IS NULL",
    "CAST(id AS STRING) NOT LIKE '1%'": "NOT (CAST(orders.id AS text) LIKE '1%')",
    "NOT customer = 1": "NOT (orders.customer = 1)",
    "NOT (customer = 1 AND id = 1)": "NOT ((orders.customer = 1) AND (orders.id = 1))",
}


@pytest.mark.parametrize(("condition", "shown"), NEGATIONS.items(), ids=NEGATIONS.keys())
def test_a_negation_is_kept(condition: str, shown: str) -> None:
    assert conditions(f"SELECT id FROM orders WHERE {condition}") == [shown]


# The select list


def test_a_star_stands_for_all_columns_in_order() -> None:
    assert parse("SELECT * FROM orders").schema == ORDERS.schema


def test_a_star_of_one_table_stands_for_its_columns() -> None:
    assert outputs("SELECT c.*, id FROM orders o, customers c") == [
        "c.customer",
        "c.Name",
        "o.id",
    ]


def test_a_column_that_using_merges_comes_first_and_once() -> None:
    sql = "SELECT * FROM orders o JOIN customers c USING (customer)"
    assert outputs(sql) == ["o.customer", "o.id", "o.price", "o.day", "c.Name"]


def test_a_merged_column_is_not_ambiguous() -> None:
    sql = "SELECT customer, c.customer AS c FROM orders o JOIN customers c USING (customer)"
    assert outputs(sql) == ["o.customer", "c.customer"]


def test_an_output_is_named_by_alias_or_column_or_text() -> None:
    view = parse("SELECT id AS number, NAME, id  +\n 1, 'a, b' FROM orders, customers")
    assert view.shown_schema.names == ("number", "Name", "id + 1", "'a, b'")


def test_a_quoted_name_may_have_any_characters() -> None:
    assert parse("SELECT id AS `the key` FROM orders").schema.names == ("the key",)


LITERALS = {
    "1": ("int", 1),
    "9223372036854775807": ("int", 2**63 - 1),
    "-9223372036854775808": ("int", -(2**63)),
    "9223372036854775808": ("decimal(19,0)", 2**63),
    "5L": ("int", 5),
    "1e3": ("float", 1000.0),
    "2.5D": ("float", 2.5),
    "TRUE": ("bool", True),
    "'x'": ("text", "x"),
}


@pytest.mark.parametrize(("literal", "expected"), LITERALS.items(), ids=LITERALS.keys())
def test_a_literal_has_its_type_and_value(literal: str, expected: tuple[str, object]) -> None:
    (output,) = join_of(f"SELECT {literal} AS x FROM orders").outputs
    assert (str(output.type), getattr(output, "value", None)) == expected


DECIMALS = {
    "1.50": "decimal(3,2)",
    "-1.50": "decimal(3,2)",
    ".5": "decimal(1,1)",
    "1.5BD": "decimal(2,1)",
    "12345678901234567890123456789012345678": "decimal(38,0)",
    "-123456789012345678901234567890.12345678": "decimal(38,8)",
}


@pytest.mark.parametrize(("literal", "expected"), DECIMALS.items(), ids=DECIMALS.keys())
def test_a_decimal_literal_has_the_digits_that_are_written(literal: str, expected: str) -> None:
    (output,) = join_of(f"SELECT {literal} AS x FROM orders").outputs
    assert str(output.type) == expected
    assert getattr(output, "value", None) == Decimal(literal.removesuffix("BD"))


def test_a_timestamp_with_a_zone_is_exact() -> None:
    sql = "SELECT customer FROM visits WHERE at > TIMESTAMP '2024-01-31 12:00:00+02:00'"
    assert conditions(sql) == ["visits.at > 2024-01-31T10:00:00+00:00"]


# UNION ALL


def test_a_union_is_a_sum_of_joins_under_the_names_of_the_first() -> None:
    view = parse(
        "SELECT o.id, Name FROM orders o JOIN customers c ON o.customer = c.customer\n"
        "union all SELECT visits.customer AS x, c.Name AS x FROM visits, customers c"
    )
    assert [[o.alias for o in join.occurrences] for join in view.joins] == [
        ["o", "c"],
        ["visits", "c"],
    ]
    assert view.schema.names == ("id", "Name")
    assert {join.schema for join in view.joins} == {view.schema}
    assert view.relations == (ORDERS, CUSTOMERS, VISITS)
    assert view.key == ()


def test_a_relation_may_occur_on_both_sides_of_union_all() -> None:
    view = parse("SELECT id FROM orders WHERE id > 1 UNION ALL SELECT customer FROM orders;")
    assert view.relations == (ORDERS,)
    assert view.used_columns == {"orders": ("id", "customer")}


def test_three_parts_and_words_that_only_look_like_union_all() -> None:
    view = parse(
        "SELECT id AS `union all` FROM orders -- union all\n"
        "UNION ALL /* one */ SELECT customer FROM visits\n"
        "UNION\nALL SELECT LENGTH('a union all b') AS n FROM customers"
    )
    assert len(view.joins) == 3
    assert view.schema.names == ("union all",)


def test_tables_of_a_union_are_those_of_all_its_parts() -> None:
    found = tables_of("SELECT id FROM shop.orders\nUNION ALL SELECT customer FROM crm.visits, x")
    assert [(t.source, t.name, t.line, t.column) for t in found] == [
        ("shop", "orders", 1, 16),
        ("crm", "visits", 2, 32),
        ("", "x", 2, 44),
    ]


# What is refused: the message names it, and says where it stands.

REFUSED = {
    # clauses
    "HAVING": ("SELECT 1 FROM orders HAVING id > 1", "neither grouped nor aggregated", 1, 29),
    "SORT BY": ("SELECT id FROM orders SORT BY id", "SORT BY", 1, 23),
    "a hint": ("SELECT /*+ BROADCAST(orders) */ id FROM orders", "hint", 1, 8),
    "nothing after UNION ALL": (
        "SELECT id FROM orders UNION ALL", "something is missing here", 1, 29),
    "nothing before UNION ALL": (
        "UNION ALL SELECT id FROM orders", "UNION ... is not a SELECT", 1, 1),
    "VALUES after UNION ALL": (
        "SELECT id FROM orders\nUNION ALL VALUES (1)", "a SELECT is missing", 1, 11),
    "no FROM after UNION ALL": ("SELECT id FROM orders UNION ALL SELECT id", "no FROM", 1, 33),
    "another number of columns": (
        "SELECT id FROM orders\nUNION ALL SELECT id, day FROM orders", "has 2 columns", 2, 11),
    "another type": (
        "SELECT id, day FROM orders\nUNION ALL SELECT id,\n  price FROM orders", "CAST", 3, 3),
    "an unknown column after UNION ALL": (
        "SELECT id FROM orders\nUNION ALL\nSELECT idd FROM orders", "no column idd", 3, 8),
    "a LATERAL VIEW of no array": (
        "SELECT id FROM orders LATERAL VIEW explode(id) y", "made of an array, not of int", 1, 36),
    "EXPLODE with an aggregate": (
        "SELECT EXPLODE(ARRAY(1)) AS x, COUNT(*) AS n FROM orders", "in a select list", 1, 8),
    "two of EXPLODE": (
        "SELECT EXPLODE(ARRAY(1)) AS x, EXPLODE(ARRAY(2)) AS y FROM orders", "stand alone", 1, 32),
    "too few names": (
        "SELECT id FROM orders, LATERAL POSEXPLODE(ARRAY(id)) AS x(y)", "1 names are given", 1, 32),
    "an element of something else": ("SELECT id[0] AS x FROM orders", "ITEM takes", 1, 8),
    "a column that is called array": (
        "SELECT o.array[0] AS x FROM orders o", "array[...] is ambiguous", 1, 10),
    "a field of a number": ("SELECT orders.id.x AS x FROM orders", "int has no field x", 1, 8),
    "an array of nothing": ("SELECT ARRAY(NULL) AS x FROM orders", "an element with a type", 1, 8),
    "elements of another type": (
        "SELECT ARRAY_CONTAINS(ARRAY(id), 'x') AS x FROM orders", "cannot be compared", 1, 8),
    "an order of arrays": (
        "SELECT ARRAY_MAX(ARRAY(ARRAY(id))) AS x FROM orders", "have no order", 1, 8),
    # joins
    "LATERAL without a table": (
        "SELECT id FROM orders, LATERAL (SELECT id)", "the query has no FROM", 1, 33),
    "RIGHT JOIN LATERAL": (
        "SELECT id FROM orders o RIGHT JOIN LATERAL (SELECT 1 FROM visits v) x ON TRUE",
        "LATERAL", 1, 36),
    "a sample": ("SELECT id FROM orders TABLESAMPLE (5 ROWS)", "SAMPLE", 1, 16),
    "a version": ("SELECT id FROM orders VERSION AS OF 3", "VERSION", 1, 16),
    "a table function": ("SELECT id FROM json_tuple(3)", "JSON_TUPLE", 1, 16),
    "no table": ("SELECT id FROM range(3)", "reads no table", 1, 1),
    "VALUES of unequal length": (
        "SELECT id FROM orders, (VALUES (1), (2, 3)) AS x(y)", "differ in length", 1, 33),
    "VALUES of columns": (
        "SELECT id FROM orders, (VALUES (orders.id)) AS x(y)", "no table orders", 1, 33),
    "a RANGE of nothing": ("SELECT o.id FROM orders o, RANGE('x')", "whole numbers", 1, 28),
    "columns of an alias": ("SELECT x FROM orders AS o(x, y)", "names are given", 1, 25),
    "an alias with a dot": ("SELECT id FROM orders AS `a.b`", "dot", 1, 16),
    # subqueries
    "a subquery in WHERE": (
        "SELECT id FROM orders\nWHERE id = (SELECT id)", "no FROM", 2, 13),
    "a subquery in the select list": ("SELECT (SELECT id) FROM orders", "no FROM", 1, 9),
    # functions
    "SUM": ("SELECT id,\n  sum(price) FROM orders", "id is neither grouped nor", 1, 8),
    "an aggregate in WHERE": ("SELECT id FROM orders WHERE MAX(id) = 1", "aggregate MAX", 1, 29),
    "current_timestamp": ("SELECT current_timestamp() FROM orders", "depends on time", 1, 8),
    "current_date bare": ("SELECT id, current_date FROM orders", "CURRENT_DATE", 1, 12),
    "now": ("SELECT at FROM visits WHERE at < now()", "NOW depends", 1, 34),
    "rand": ("SELECT id, rand() FROM orders", "RAND depends", 1, 12),
    "uuid": ("SELECT uuid() FROM orders", "UUID depends", 1, 8),
    "current_user": ("SELECT current_user() FROM orders", "CURRENT_USER depends", 1, 8),
    "a function of something else": (
        "SELECT UPPER(id) FROM orders", "UPPER takes (text), not (int)", 1, 8),
    "a function that nobody knows": ("SELECT f(id) FROM orders", "F is not a function", 1, 8),
    "a function with a slip": ("SELECT uper(Name) FROM customers", "Did you mean UPPER", 1, 8),
    "a function of maps": ("SELECT map_keys(id) FROM orders", "of a type that views", 1, 8),
    # expressions
    "bits": ("SELECT id & 2 FROM orders", "id & 2", 1, 8),
    "RLIKE a column": ("SELECT Name RLIKE Name FROM customers", "text constant", 1, 8),
    "a pattern of Java's alone": (
        r"SELECT Name RLIKE '\\bx' FROM customers", r"has \b, which is not supported", 1, 8),
    "ILIKE a column": ("SELECT Name NOT ILIKE Name FROM customers", "constant", 1, 8),
    "LIKE a column": ("SELECT Name LIKE Name FROM customers", "constant", 1, 8),
    "a wrong ESCAPE": ("SELECT Name LIKE 'x' ESCAPE '!!' FROM customers", "ESCAPE", 1, 8),
    "a wrong pattern": (r"SELECT Name LIKE 'a\\b' FROM customers", "LIKE pattern", 1, 8),
    "BETWEEN SYMMETRIC": (
        "SELECT id BETWEEN SYMMETRIC 1 AND 2 FROM orders", "SYMMETRIC", 1, 8),
    "IN nothing": ("SELECT id FROM orders WHERE id IN ()", "IN needs", 1, 29),
    "a parameter": ("SELECT id FROM orders WHERE id = :x", ":x", 1, 29),
    "an interval alone": ("SELECT INTERVAL 1 DAY AS x FROM orders", "is no value here", 1, 8),
    "an interval of a column": ("SELECT day + INTERVAL id DAY FROM orders", "INTERVAL", 1, 8),
    "a mixed interval": (
        "SELECT day + INTERVAL '1 month 1 day' FROM orders", "either months or days", 1, 8),
    "an interval to a number": ("SELECT id + INTERVAL '1' MONTH FROM orders", "not to int", 1, 8),
    "a difference of dates": ("SELECT day - day FROM orders", "DATEDIFF", 1, 8),
    "a field that there is not": ("SELECT EXTRACT(era FROM day) FROM orders", "EPOCH", 1, 8),
    "strings side by side": ("SELECT 'a' 'b' FROM orders", "side by side", 1, 12),
    "a type that there is not": ("SELECT CAST(id AS SMALLINT) FROM orders", "SMALLINT", 1, 13),
    "NULL without a type": ("SELECT id, NULL AS x FROM orders", "CAST(NULL AS type)", 1, 12),
    "a float out of range": ("SELECT 1e999 FROM orders", "range of float", 1, 8),
    "an integer out of range": (f"SELECT {'9' * 39} FROM orders", "decimal(39,0)", 1, 8),
    "a day that there is not": ("SELECT DATE '2024-02-30' FROM orders", "2024-02-30", 1, 13),
    "a date in another form": ("SELECT DATE '20240230' FROM orders", "DATE '2024-01-31'", 1, 13),
    "a timestamp of the session": (
        "SELECT TIMESTAMP '2024-01-31 12:00:00' FROM orders", "TIMESTAMP_NTZ", 1, 18),
    "WHERE without a boolean": ("SELECT id FROM orders WHERE id", "WHERE is of type int", 1, 29),
    "ON without a boolean": ("SELECT id FROM orders JOIN visits ON id", "ON is of type", 1, 38),
    "a star in an expression": ("SELECT id FROM orders WHERE orders.* = 1", "*", 1, 29),
    # names
    "an unknown relation": ("SELECT id FROM order", "orders, customers, visits", 1, 16),
    "a relation at another source": ("SELECT id FROM crm.orders", "shop.orders", 1, 16),
    "a name of three parts": ("SELECT id FROM x.shop.orders", "no relation x.shop.orders", 1, 16),
    "an unknown column": ("SELECT prise FROM orders", "Columns: orders.price", 1, 8),
    "an unknown column of a table": ("SELECT o.ide FROM orders o", "Columns: id", 1, 8),
    "an unknown table": ("SELECT x.id FROM orders o", "Tables: o", 1, 8),
    "an unknown table's star": ("SELECT x.* FROM orders o", "Tables: o", 1, 8),
    "a name that an alias hides": ("SELECT orders.id FROM orders o", "Tables: o", 1, 8),
    "an ambiguous column": (
        "SELECT customer FROM orders o, visits v", "o.customer and v.customer", 1, 8),
    "an ambiguous column in USING": (
        "SELECT id FROM orders JOIN customers ON TRUE JOIN visits USING (customer)",
        "orders.customer and customers.customer", 1, 65),
    "an unknown column in USING": ("SELECT id FROM orders JOIN visits USING (id)", "id", 1, 42),
    "an alias twice": ("SELECT x.id FROM orders x, visits X", "two tables are named X", 1, 28),
    "an output name twice": ("SELECT id, price AS ID FROM orders", "id and price AS ID", 1, 12),
    "an output name twice through *": (
        "SELECT * FROM orders, visits", "orders.customer and visits.customer", 1, 8),
    # not a query
    "nothing": ("", "no query", 1, 1),
    "a comment only": ("-- nothing", "no query", 1, 1),
    "two statements": ("SELECT id FROM orders;\nSELECT 1", "more than one statement", 2, 1),
    "INSERT": ("INSERT INTO orders VALUES (1)", "INSERT ... is not a SELECT", 1, 1),
    "CREATE VIEW": ("CREATE VIEW x AS SELECT 1", "CREATE ... is not a SELECT", 1, 1),
    "no FROM": ("SELECT id", "no FROM", 1, 1),
    "constants only": ("SELECT 1", "reads no table", 1, 1),
    # syntax
    "a word too many": ("SELECT id x y FROM orders", "syntax error at 'y'", 1, 13),
    "an unfinished condition": ("SELECT id FROM orders\nWHERE", "syntax error", 2, 1),
    "an open parenthesis": ("SELECT (id FROM orders", "syntax error at 'FROM'", 1, 12),
    "an open string": ("SELECT id FROM orders WHERE 'a", "never closed", 1, 29),
    "an open comment": ("SELECT id /* FROM orders", "never closed", 1, 11),
    "two commas": ("SELECT id,, price FROM orders", "nothing behind a comma", 1, 10),
    "a comma before FROM": ("SELECT id, FROM orders", "nothing behind a comma", 1, 10),
    "too few arguments": ("SELECT ABS() FROM orders", "not 0 arguments", 1, 8),
    "too many arguments": ("SELECT ABS(1, 2) FROM orders", "not 2 arguments", 1, 8),
    # what other words say
    "months compared": (
        "SELECT id FROM orders WHERE day - day > INTERVAL '1' MONTH", "at + INTERVAL", 1, 41),
    "a time compared with a number": (
        "SELECT id FROM orders WHERE day - day > 5", "EXTRACT(EPOCH", 1, 29),
    "a sum of times": ("SELECT MAX(day - day) FROM orders", "no value here", 1, 12),
    "a unit that there is not": (
        "SELECT DATEDIFF(FORTNIGHT, day, day) FROM orders", "no unit to count moments by", 1, 8),
    "a bin of months": (
        "SELECT DATE_BIN('1 month', day) FROM orders", "DATE_TRUNC('MONTH', at)", 1, 8),
    "windows that overlap": (
        "SELECT COUNT(*) FROM orders GROUP BY WINDOW(day, '1 day', '1 hour')", "overlap", 1, 38),
    "a window without GROUP BY": (
        "SELECT WINDOW(day, '1 day') FROM orders", "one expression of GROUP BY", 1, 8),
    "ALL of two columns": (
        "SELECT id FROM orders WHERE id > ALL (SELECT id, day FROM orders)", "2 columns", 1, 46),
    "PIVOT by columns": (
        "SELECT * FROM orders PIVOT (SUM(price) FOR id IN (day))", "with constants", 1, 22),
    "UNPIVOT": (
        "SELECT * FROM orders UNPIVOT (x FOR y IN (id, price))", "UNION ALL", 1, 22),
    "REPLACE of what is not there": (
        "SELECT * REPLACE (1 AS x) FROM orders", "which * does not have", 1, 19),
    "a name of two items": (
        "SELECT id AS x, day AS x, x AS y FROM orders", "two items are named x", 1, 27),
    "a name of a later item": ("SELECT x + 1 AS y, id AS x FROM orders", "no column x", 1, 8),
    "a cast with a format": (
        "SELECT CAST(day AS STRING FORMAT 'YYYY') FROM orders", "DATE_FORMAT(", 1, 13),
    "a value of no JSON": ("SELECT VARIANT_GET(Name, '$.a') FROM customers", "PARSE_JSON(x)", 1, 8),
    "a distance of numbers": ("SELECT ST_DISTANCE(id, id) FROM orders", "takes a point", 1, 8),
    "bits of a decimal": ("SELECT BIT_AND(price) FROM orders", "BIT_AND needs int", 1, 8),
    # groups and windows
    "an aggregate that there is not": (
        "SELECT HISTOGRAM_NUMERIC(id, 5) FROM orders", "HISTOGRAM_NUMERIC", 1, 8),
    "a sum of texts": ("SELECT SUM(Name) FROM customers", "SUM needs a number", 1, 8),
    "* with GROUP BY": ("SELECT * FROM orders GROUP BY id", "no meaning with GROUP BY", 1, 8),
    "a group that there is not": ("SELECT id FROM orders GROUP BY 2", "no column 2", 1, 32),
    "an aggregate as a group": ("SELECT 1 FROM orders GROUP BY SUM(id)", "an aggregate", 1, 31),
    "a rank without an order": ("SELECT RANK() OVER () FROM orders", "needs an order", 1, 8),
    "a range with an offset": (
        "SELECT SUM(id) OVER (ORDER BY id, day RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) "
        "FROM orders", "RANGE with an offset needs one expression", 1, 8),
    "RANGE with an offset of another kind": (
        "SELECT SUM(id) OVER (ORDER BY day RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT "
        "ROW) FROM orders", "makes timestamp_tz of date", 1, 8),
    "a subquery in ON about both sides": (
        "SELECT o.id FROM orders o LEFT JOIN orders p ON o.id = p.id AND EXISTS "
        "(SELECT 1 FROM orders q WHERE q.id = o.id + p.id)", "of both sides", 1, 65),
    "an ambiguous name beside a subquery in ON": (
        "SELECT o.id FROM orders o LEFT JOIN orders p ON o.id = p.id AND id IN "
        "(SELECT id FROM orders)", "id is ambiguous", 1, 65),
    "a recursive WITH": (
        "WITH RECURSIVE x AS (SELECT id FROM x) SELECT id FROM x", "x reads itself", 1, 37),
    "a limit that is no number": ("SELECT id FROM orders LIMIT id", "whole number", 1, 29),
    "a subquery of two columns": (
        "SELECT (SELECT id, price FROM orders) FROM visits", "has 2 columns", 1, 16),
    "IN with two columns": (
        "SELECT id FROM orders WHERE id IN (SELECT id, day FROM orders)", "1 with 2 col", 1, 29),
    "only outer columns in an aggregate": (
        "SELECT (SELECT MAX(o.id) FROM visits v) FROM orders o", "outside", 1, 16),
    "a column of no group in a subquery": (
        "SELECT day, (SELECT MAX(v.customer) FROM visits v WHERE v.customer = o.id) "
        "FROM orders o GROUP BY day", "o.id is neither grouped nor aggregated", 1, 21),
    "DISTINCT ON in another order": (
        "SELECT DISTINCT ON (id) id, day FROM orders ORDER BY day", "does not begin", 1, 54),
    "DISTINCT ON a column that there is not": (
        "SELECT DISTINCT ON (2) id FROM orders", "no column 2", 1, 21),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "words", "line", "column"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_view_cannot_be_is_refused_with_its_place(
    sql: str, words: str, line: int, column: int
) -> None:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    message = str(caught.value)
    assert words in message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message.startswith(f"line {line}, column {column}: ")
    assert not any(leak in message for leak in ("\x1b", "sqlglot", "Token", "<class"))


def test_a_name_in_two_cases_means_the_column_that_is_spelled_alike() -> None:
    odd = Relation("odd", "shop", Schema.of([("a", INT), ("A", FLOAT)]))
    view = parse_view("SELECT A AS x, a AS y FROM odd", [odd])
    assert [str(kind) for kind in view.schema.types] == ["float", "int"]


def test_an_alias_names_no_columns_of_a_table_that_has_more_than_can_be_read() -> None:
    partly = Relation("partly", "shop", Schema.of([("a", INT)]), unusable=(("b", "it is odd"),))
    with pytest.raises(SqlError, match="columns that cannot be used"):
        parse_view("SELECT x FROM partly AS p (x)", [partly])


def test_two_relations_of_one_name_are_told_apart_by_source() -> None:
    other = Relation("orders", "archive", ORDERS.schema)
    with pytest.raises(SqlError, match=r"shop\.orders and archive\.orders"):
        parse_view("SELECT id FROM orders", [ORDERS, other])
    assert parse_view("SELECT id FROM archive.orders", [ORDERS, other]).relations == (other,)


def test_a_query_that_is_nested_too_deeply_is_refused() -> None:
    sql = f"SELECT id FROM orders WHERE {'(' * 5000}id = 1{')' * 5000}"
    with pytest.raises(SqlError, match="nested too deeply"):
        parse(sql)


def test_a_call_over_which_the_parser_stumbles_is_refused() -> None:
    with pytest.raises(SqlError, match="arguments that it cannot have"):
        parse("SELECT MAP(id) AS m FROM orders")


def test_a_condition_of_many_parts_is_not_nested() -> None:
    sql = "SELECT id FROM orders WHERE " + " AND ".join(f"id <> {n}" for n in range(2000))
    assert len(join_of(sql).condition) == 2000
