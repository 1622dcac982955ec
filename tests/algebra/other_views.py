"""Views as people write them for other incremental-view systems, and which of them are refused.

The list was drawn before anything was compared: from the tests and the documentation of each of
five systems, 34 definitions by chance out of all that are expected to work there and that read a
table. Each is restated here over a schema of its own and in Spark's words; no text is theirs. What
Spark says otherwise is said its way: TUMBLE and HOP as arithmetic of time, hints left out, a
parameter as a constant, a function of one's own as one in SQL. `REFUSED` has those that Headwater
refuses, each with its reason; the tests fail where it should be shorter, and docs/sql.md has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.function_statements import script
from headwater.algebra.sql.functions import Functions
from headwater.algebra.values import parse_type

DRAWN = {"pg_ivm": 74, "RisingWave": 381, "Materialize": 389, "Feldera": 169, "ReadySet": 847}
"""The systems, and out of how many definitions of each those here were drawn."""


def _relation(source: str, name: str, columns: str) -> Relation:
    pairs = (column.split(" ", 1) for column in columns.split("; "))
    return Relation(name, source, Schema.of((n, parse_type(kind)) for n, kind in pairs))


RELATIONS = (
    _relation("crm", "customers", "id int; name text; city text; tier text; vip bool; joined date"),
    _relation(
        "shop",
        "orders",
        "id int; customer int; placed date; total decimal(10,2); status text; priority text",
    ),
    _relation(
        "shop",
        "lines",
        "order_id int; product int; supplier int; quantity int; price decimal(10,2); "
        "discount decimal(4,2); shipped date; due date; received date; mode text",
    ),
    _relation(
        "shop", "products", "id int; name text; kind text; brand text; size int; volume float"
    ),
    _relation(
        "supply", "suppliers", "id int; name text; nation int; balance decimal(12,2); phone text"
    ),
    _relation("supply", "offers", "product int; supplier int; cost decimal(10,2); stock int"),
    _relation("supply", "nations", "id int; nation text; region int"),
    _relation("supply", "regions", "id int; region text"),
    _relation(
        "web",
        "events",
        "id int; customer int; kind text; at timestamp; until timestamp; sent timestamp_tz; "
        "value float; amount int; payload text; hash bytes",
    ),
    _relation("web", "tags", "id int; words array<text>; place struct<city text, zip int>"),
    _relation(
        "bank", "accounts", "id int; owner int; branch text; balance decimal(12,2); open bool"
    ),
    _relation("bank", "moves", "source int; target int; amount decimal(12,2); at timestamp"),
)
VIEWS = {
    "large": "SELECT id, customer, total FROM orders WHERE total > 1000",
    "all_ids": "SELECT id FROM orders UNION ALL SELECT id FROM events",
}
"""Views that other views read."""

FUNCTIONS = Functions(
    script(
        """
        CREATE FUNCTION open_accounts()
          RETURNS TABLE (id BIGINT, owner BIGINT, balance DECIMAL(12,2))
          RETURN SELECT id, owner, balance FROM accounts WHERE open;
        CREATE FUNCTION joined_up(texts ARRAY<STRING>) RETURNS STRING
          RETURN ARRAY_JOIN(texts, ', ');
        CREATE FUNCTION mentioned_in(message STRING) RETURNS ARRAY<STRING>
          RETURN FILTER(SPLIT(message, ' '), word -> STARTSWITH(word, '@'));
        """
    )[0]
)
"""Functions of one's own that views call; what they do there is not restated."""


# Why views are refused
CLOCK = "the clock: the view would change although no source did"
CHANGES = "the changes of a table as a query: `WITH CHANGES` has those of a view"
ARRIVAL = "EMIT: depends on when rows arrive, not on what they are"
TYPES = "a type of one database: ranges, numbers of an enumeration's labels"
EFFECT = "a function that waits"
NO_FUNCTION_OF_SOURCES = frozenset({CLOCK, CHANGES, ARRIVAL, EFFECT})
"""What no view can be that is a function of the states of its sources."""


@dataclass(frozen=True)
class OtherView:
    """One definition: the system where its like was found, what it is an example of, its SQL."""

    system: str
    feature: str
    sql: str
    refused: str = ""
    """Why it is refused, if it is."""


def _views(system: str, *rows: tuple[str, str] | tuple[str, str, str]) -> tuple[OtherView, ...]:
    return tuple(OtherView(system, *row) for row in rows)


PG_IVM = _views(
    "pg_ivm",
    (
        "FULL JOIN",
        "SELECT DISTINCT o.id, l.order_id, l.product, p.id AS product_id FROM orders AS o "
        "FULL JOIN lines AS l ON o.id = l.order_id FULL JOIN products AS p ON l.product = p.id",
    ),
    (
        "FULL JOIN",
        "SELECT o.id, l.order_id FROM orders AS o FULL JOIN lines AS l ON o.id = l.order_id "
        "WHERE l.order_id > 0",
    ),
    (
        "FULL JOIN",
        "SELECT a.id AS a, o.id AS o, o.customer, c.id AS c FROM accounts a "
        "FULL JOIN orders o ON a.id = o.id FULL JOIN customers c ON o.customer = c.id",
    ),
    (
        "FULL JOIN",
        "SELECT s.id AS s, f.supplier, f.product, p.name FROM suppliers AS s "
        "FULL JOIN offers AS f ON s.id = f.supplier FULL JOIN products AS p ON f.product = p.id",
    ),
    (
        "FULL JOIN",
        "SELECT s.id AS s, f.supplier, f.product, p.name FROM suppliers AS s "
        "FULL JOIN offers AS f ON s.id = f.supplier RIGHT JOIN products AS p ON f.product = p.id",
    ),
    (
        "FULL JOIN",
        "SELECT s.id AS s, f.supplier, f.product, p.name FROM suppliers AS s "
        "INNER JOIN offers AS f ON s.id = f.supplier FULL JOIN products AS p ON f.product = p.id",
    ),
    (
        "LEFT or RIGHT JOIN",
        "SELECT s.id AS s, f.supplier, f.product, p.name FROM suppliers AS s "
        "LEFT JOIN offers AS f ON s.id = f.supplier INNER JOIN products AS p ON f.product = p.id",
    ),
    (
        "FULL JOIN",
        "SELECT s.id AS s, f.supplier, f.product, p.name FROM suppliers AS s "
        "RIGHT JOIN offers AS f ON s.id = f.supplier FULL JOIN products AS p ON f.product = p.id",
    ),
    (
        "LEFT or RIGHT JOIN",
        "SELECT s.id AS s, f.supplier, f.product, p.name FROM suppliers AS s "
        "RIGHT JOIN offers AS f ON s.id = f.supplier LEFT JOIN products AS p ON f.product = p.id",
    ),
    ("DISTINCT", "SELECT * FROM (SELECT DISTINCT customer, status FROM orders) AS x"),
    (
        "WITH",
        "SELECT * FROM (WITH o AS (SELECT * FROM orders), c AS (SELECT * FROM customers) "
        "SELECT o.id, o.total FROM o, c WHERE o.customer = c.id) v",
    ),
    ("columns and filters", "SELECT * FROM moves"),
    ("functions of one's own", "SELECT * FROM open_accounts()"),
    ("columns and filters", "SELECT * FROM accounts"),
    ("columns and filters", "SELECT * FROM nations"),
    ("columns and filters", "SELECT * FROM regions"),
    ("aggregates of all rows", "SELECT MIN(total), MAX(total) FROM orders"),
    ("aggregates of all rows", "SELECT SUM(amount), COUNT(amount), AVG(amount) FROM events"),
    (
        "EXISTS and IN",
        "SELECT c.id, c.name FROM customers c "
        "WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    ),
    (
        "subqueries in FROM",
        "SELECT x.id, y.id AS other FROM (SELECT * FROM nations) x, (SELECT * FROM regions) y",
    ),
    (
        "EXISTS and IN",
        "SELECT c.id, c.name FROM customers c "
        "WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) AND c.id > 2",
    ),
    ("rows from a function (generate_series, UNNEST)", "SELECT o.id FROM orders o, RANGE(1, 11)"),
    ("GROUP BY", "SELECT customer, MIN(total), MAX(total) FROM orders GROUP BY customer"),
    (
        "subqueries in FROM",
        "SELECT id, total, quantity FROM (SELECT l.order_id AS id, o.total, l.quantity FROM "
        "lines l "
        "INNER JOIN (SELECT * FROM orders) o ON o.id = l.order_id) x",
    ),
    (
        "subqueries in FROM",
        "SELECT id, total, balance FROM (SELECT id, o.total, a.balance FROM accounts a "
        "INNER JOIN orders o USING (id)) x",
    ),
    ("GROUP BY", "SELECT customer, SUM(amount) FROM events GROUP BY customer"),
    ("GROUP BY", "SELECT branch, SUM(balance) FROM accounts GROUP BY branch"),
    ("inner joins", "SELECT id, total, balance FROM orders o INNER JOIN accounts a USING (id)"),
    ("columns and filters", "SELECT total FROM orders"),
    ("columns and filters", "SELECT balance FROM accounts"),
    ("inner joins", "SELECT n.id AS n, r.id AS r FROM nations n JOIN regions r USING (id)"),
    (
        "WITH",
        "WITH m AS (SELECT * FROM moves) SELECT x.amount AS first, y.amount AS second "
        "FROM m AS x JOIN m AS y ON x.target = y.source",
    ),
    (
        "WITH",
        "WITH v AS (WITH o AS (SELECT * FROM orders) SELECT id, o.total, a.balance FROM accounts a "
        "INNER JOIN o USING (id)) SELECT * FROM v",
    ),
    (
        "WITH",
        "WITH x AS (SELECT id, o.total, a.balance FROM accounts a INNER JOIN orders o USING (id)) "
        "SELECT * FROM x",
    ),
)

RISINGWAVE = _views(
    "RisingWave",
    (
        "lists as aggregates (array_agg)",
        "SELECT COUNT(*) AS n, SUM(id) AS s, ARRAY_AGG(id) AS all_ids FROM orders GROUP BY id",
    ),
    ("aggregates of all rows", "SELECT BOOL_AND(vip), BOOL_OR(vip) FROM customers"),
    (
        "ordered aggregates (string_agg, percentiles)",
        "SELECT PERCENTILE_CONT(NULL) WITHIN GROUP (ORDER BY value) AS nothing, "
        "PERCENTILE_CONT(0.3 + NULL) WITHIN GROUP (ORDER BY value) AS again FROM events",
    ),
    (
        "approximate aggregates",
        "SELECT APPROX_PERCENTILE(value, 0.01) AS p01, APPROX_PERCENTILE(value, 0.5) AS p50, "
        "APPROX_PERCENTILE(value, 0.99) AS p99 FROM events GROUP BY kind",
    ),
    (
        "ordered aggregates (string_agg, percentiles)",
        "SELECT STRING_AGG(name, ',' ORDER BY name DESC) AS names FROM customers",
    ),
    (
        "ordered aggregates (string_agg, percentiles)",
        "SELECT STRING_AGG(kind, CAST(amount AS STRING) ORDER BY amount) AS x FROM events "
        "GROUP BY customer",
    ),
    (
        "lists as aggregates (array_agg)",
        "SELECT AGGREGATE(ARRAY_AGG(amount), 0, (a, x) -> a + x) AS s FROM events",
    ),
    (
        "lists as aggregates (array_agg)",
        "SELECT kind, ARRAY_MAX(ARRAY_AGG(amount)) AS most FROM events GROUP BY kind",
    ),
    (
        "functions of one's own",
        "SELECT kind, joined_up(ARRAY_AGG(payload)) AS x FROM events GROUP BY kind",
    ),
    ("columns and filters", "SELECT name, id FROM customers WHERE id >= 16"),
    ("ORDER BY ... LIMIT", "SELECT id, total FROM orders ORDER BY id LIMIT 3 OFFSET 3"),
    ("columns and filters", "SELECT * FROM offers"),
    (
        "windows of time (TUMBLE, HOP)",
        "SELECT *, TIMESTAMP_SECONDS(UNIX_SECONDS(sent) DIV 600 * 600) AS window_start FROM events "
        "UNION ALL SELECT *, TIMESTAMP_SECONDS((UNIX_SECONDS(sent) DIV 600 - 1) * 600) FROM events "
        "UNION ALL SELECT *, TIMESTAMP_SECONDS((UNIX_SECONDS(sent) DIV 600 - 2) * 600) FROM events",
    ),
    (
        "rows from a function (generate_series, UNNEST)",
        "SELECT id, EXPLODE(SEQUENCE(1, 2, amount)) AS step FROM events",
    ),
    (
        "LATERAL",
        "SELECT o.*, b.worth, b.pieces FROM orders o LEFT JOIN LATERAL (SELECT "
        "SUM(l.quantity * l.price) FILTER (WHERE l.price <= o.total) AS worth, "
        "SUM(l.quantity) FILTER (WHERE l.price <= o.total) AS pieces FROM lines l "
        "WHERE l.order_id = o.id AND l.shipped >= o.placed) AS b ON TRUE",
    ),
    (
        "joins of a table with itself",
        "SELECT x.source AS p1, x.target AS p2, y.target AS p3 FROM moves x, moves y, moves z "
        "WHERE x.target = y.source AND y.source = z.target AND z.target = x.source",
    ),
    ("the changes of a table as rows", "WITH x AS CHANGELOG FROM orders SELECT * FROM x", CHANGES),
    (
        "windows of time (TUMBLE, HOP)",
        "SELECT f.customer, f.ended, f.kind, f.mean FROM (SELECT customer, kind, "
        "TIMESTAMP_SECONDS((UNIX_SECONDS(sent) DIV 180 + 1) * 180) AS ended, AVG(value) AS mean "
        "FROM events WHERE payload = 'all' GROUP BY customer, kind, ended) AS f "
        "JOIN (SELECT customer, TIMESTAMP_SECONDS((UNIX_SECONDS(sent) DIV 180 + 1) * 180) AS "
        "ended, "
        "AVG((value * 8 / 10) / amount) AS used FROM events WHERE kind = 'sent' "
        "GROUP BY customer, ended) AS g ON f.customer = g.customer AND f.ended = g.ended "
        "WHERE used >= 50",
    ),
    (
        "what depends on the order of arrival",
        "SELECT DATE_TRUNC('HOUR', at) AS window_start, MAX(amount) AS most FROM events "
        "GROUP BY DATE_TRUNC('HOUR', at) EMIT ON WINDOW CLOSE",
        ARRIVAL,
    ),
    (
        "aggregates of all rows",
        "SELECT MAX(id) AS a, MAX(value) AS b, MAX(kind) AS c, MAX(at) AS d FROM events",
    ),
    ("aggregates of all rows", "SELECT MAX(total) AS most, MAX(placed) AS last FROM orders"),
    (
        "LEFT or RIGHT JOIN",
        "SELECT e.id AS e, m.source AS m, e.at FROM events e LEFT JOIN moves m ON e.at = m.at",
    ),
    (
        "FULL JOIN",
        "SELECT o.id, o.customer, o.total, a.id AS account, a.owner, a.balance FROM orders o "
        "FULL JOIN accounts a ON o.customer = a.owner AND o.total > a.balance",
    ),
    ("columns and filters", "SELECT * FROM products"),
    ("views over views", "SELECT 1 AS one FROM large AS x JOIN large ON x.id = large.id"),
    ("views over views", "SELECT SUM(id) AS s, AVG(total) AS mean FROM large GROUP BY customer"),
    ("columns and filters", "SELECT id, customer, 0.908 * total AS total, placed FROM orders"),
    ("columns and filters", "SELECT id, 10 / amount AS share FROM events"),
    ("arrays, structs and JSON", "SELECT * FROM tags ORDER BY place.zip"),
    (
        "windows of time (TUMBLE, HOP)",
        "SELECT SUM(amount) AS s, TIMESTAMP_SECONDS(UNIX_SECONDS(sent) DIV 1800 * 1800) AS begun "
        "FROM events GROUP BY begun",
    ),
    (
        "subqueries that stand for one value",
        "SELECT product, ROUND(SUM(cost * stock), 1) AS value FROM offers, suppliers, nations "
        "WHERE supplier = suppliers.id AND suppliers.nation = nations.id AND region = 3 "
        "GROUP BY product HAVING SUM(cost * stock) > (SELECT SUM(cost * stock) * 0.0001 FROM "
        "offers, "
        "suppliers s, nations n WHERE supplier = s.id AND s.nation = n.id AND n.region = 3) "
        "ORDER BY value DESC",
    ),
    (
        "GROUP BY",
        "SELECT mode, SUM(CASE WHEN priority = 'urgent' OR priority = 'high' THEN 1 ELSE 0 END) "
        "AS a, "
        "SUM(CASE WHEN priority <> 'urgent' AND priority <> 'high' THEN 1 ELSE 0 END) AS b "
        "FROM orders, lines WHERE id = order_id AND mode IN ('ship', 'rail') AND due < received "
        "AND shipped < due AND received >= DATE '2024-01-01' "
        "AND received < DATE '2024-01-01' + INTERVAL '1' YEAR GROUP BY mode ORDER BY mode",
    ),
    (
        "subqueries that stand for one value",
        "SELECT s.balance, s.name, n.nation, p.id, p.brand, s.phone FROM products p, suppliers s, "
        "offers f, nations n, regions r WHERE p.id = f.product AND s.id = f.supplier AND p.size "
        "= 4 "
        "AND p.kind LIKE '%wood' AND s.nation = n.id AND n.region = r.id AND r.region = 'north' "
        "AND f.cost = (SELECT MIN(g.cost) FROM offers g, suppliers t, nations m, regions q "
        "WHERE p.id = g.product AND t.id = g.supplier AND t.nation = m.id AND m.region = q.id "
        "AND q.region = 'north') ORDER BY s.balance DESC, n.nation, s.name, p.id LIMIT 100",
    ),
    ("columns and filters", "SELECT * FROM customers"),
)

MATERIALIZE = _views(
    "Materialize",
    (
        "inner joins",
        "SELECT o.total AS a, c.name AS b, a.balance AS c FROM orders o, customers c, accounts a "
        "WHERE o.customer = c.id AND c.name = a.branch",
    ),
    (
        "types that only one database has",
        "SELECT customer, id, n, UPPER(during) - LOWER(during) AS length, s AS worth FROM (SELECT "
        "customer, during, MIN(id) AS id, COUNT(id) AS n, SUM(amount) AS s FROM events "
        "WHERE during @> at GROUP BY customer, during)",
        TYPES,
    ),
    (
        "inner joins",
        "SELECT f.stock, f.supplier, s.name FROM suppliers AS s, offers AS f "
        "WHERE s.id = f.supplier AND s.phone = 'none'",
    ),
    (
        "WITH RECURSIVE",
        "WITH RECURSIVE x(n) AS (SELECT id FROM orders UNION ALL SELECT n + 1 FROM x WHERE n < 3) "
        "SELECT * FROM x",
    ),
    ("DISTINCT ON", "SELECT DISTINCT ON (customer) customer, total FROM orders"),
    (
        "DISTINCT ON",
        "SELECT DISTINCT ON (kind) kind, id, amount FROM events WHERE kind IS NOT NULL",
    ),
    (
        "the clock",
        "SELECT kind, at, until FROM events WHERE NOW() >= at + INTERVAL '60' SECOND "
        "AND NOW() < until + INTERVAL '60' SECOND",
        CLOCK,
    ),
    (
        "the clock",
        "SELECT kind, at FROM events WHERE NOW() < TRY_CAST(payload AS TIMESTAMP)",
        CLOCK,
    ),
    ("the clock", "SELECT COUNT(*) FROM events WHERE NOW() >= at AND NOW() < until", CLOCK),
    (
        "the clock",
        "WITH x AS (SELECT id, at, CASE WHEN amount = 0 THEN at - INTERVAL '1' DAY "
        "ELSE at - INTERVAL '2' DAY END AS late FROM events) SELECT id, at FROM x WHERE late < "
        "NOW()",
        CLOCK,
    ),
    (
        "LATERAL",
        "SELECT c.id, x.last FROM customers c, LATERAL (SELECT status, MAX(id) AS last FROM orders "
        "WHERE customer = c.id GROUP BY status ORDER BY status DESC LIMIT 3) x",
    ),
    (
        "DISTINCT ON",
        "SELECT id, customer, last FROM (SELECT DISTINCT ON (customer) id, customer, last FROM "
        "(SELECT id, customer, MAX(placed) AS last FROM orders GROUP BY id, customer) "
        "ORDER BY customer, id) ORDER BY customer, id LIMIT 2",
    ),
    (
        "DISTINCT ON",
        "SELECT product, supplier, least FROM (SELECT DISTINCT ON (supplier) product, supplier, "
        "least FROM (SELECT product, supplier, MIN(cost) AS least FROM offers "
        "GROUP BY product, supplier) ORDER BY supplier, product) ORDER BY supplier LIMIT 2",
    ),
    ("columns and filters", "SELECT id, name, city AS located FROM customers WHERE tier = 'gold'"),
    (
        "arrays, structs and JSON",
        "SELECT * FROM events "
        "WHERE kind = FROM_JSON(GET_JSON_OBJECT(payload, '$.kinds'), 'array<string>')[amount]",
    ),
    ("views over views", "SELECT COUNT(*) FROM large"),
    ("views over views", "SELECT * FROM large"),
    (
        "lists as aggregates (array_agg)",
        "SELECT customer, CAST(ARRAY_AGG(amount ORDER BY amount DESC) AS STRING) AS x FROM events "
        "GROUP BY customer HAVING ARRAY_AGG(amount ORDER BY amount DESC)[0] + 1 - customer > 2",
    ),
    ("columns and filters", "SELECT * FROM orders"),
    (
        "subqueries that stand for one value",
        "SELECT SUM(l.price) / 7.0 AS yearly FROM lines l, products p WHERE p.id = l.product "
        "AND p.brand = 'oak' AND p.kind = 'box' "
        "AND l.quantity < (SELECT 0.2 * AVG(m.quantity) FROM lines m WHERE m.product = p.id)",
    ),
    (
        "ranks and neighbours",
        "SELECT at, id, amount, LAG(amount) OVER (ORDER BY at) - amount AS drop FROM events",
    ),
    ("chance, session and side effects", "SELECT SLEEP(id * 3600) AS s FROM orders", EFFECT),
    ("columns and filters", "SELECT id, region FROM regions AS r (region, id)"),
    ("columns and filters", "SELECT * FROM suppliers"),
    (
        "subqueries that stand for one value",
        "SELECT l.product, MAX(l.price) AS most, (SELECT m.quantity FROM lines m "
        "WHERE m.product = l.product ORDER BY m.price DESC LIMIT 1) AS of_it FROM lines l "
        "GROUP BY l.product",
    ),
    (
        "joins of a table with itself",
        "SELECT a.id FROM regions AS a, regions AS b, regions AS c, regions AS d, regions AS e",
    ),
    ("subqueries in FROM", "SELECT * FROM (SELECT * FROM moves) AS x"),
    ("aggregates of all rows", "SELECT SUM(amount) AS s FROM events"),
    ("aggregates of all rows", "SELECT SUM(balance) AS s FROM accounts"),
    (
        "NATURAL JOIN",
        "SELECT * FROM (SELECT id, amount * 2 AS a FROM events) NATURAL JOIN "
        "(SELECT id, 1 / amount AS b FROM events)",
    ),
    ("columns and filters", "SELECT id, amount * value AS product FROM events"),
    (
        "UNION, INTERSECT, EXCEPT",
        "SELECT id + 0 AS a FROM orders EXCEPT ALL SELECT id - 0 AS a FROM accounts",
    ),
    ("columns and filters", "SELECT * FROM nations"),
    ("columns and filters", "SELECT * FROM accounts"),
)

FELDERA = _views(
    "Feldera",
    ("columns and filters", "SELECT id, customer, 0.908 * total AS total, placed FROM orders"),
    (
        "subqueries that stand for one value",
        "SELECT s.balance, s.name, n.nation, p.id, p.brand FROM products p, suppliers s, offers f, "
        "nations n, regions r WHERE p.id = f.product AND s.id = f.supplier AND p.size = 15 "
        "AND p.kind LIKE '%brass' AND s.nation = n.id AND n.region = r.id AND r.region = 'south' "
        "AND f.cost = (SELECT MIN(cost) FROM offers, suppliers t, nations m, regions q "
        "WHERE p.id = product AND t.id = supplier AND t.nation = m.id AND m.region = q.id "
        "AND q.region = 'south') ORDER BY s.balance DESC, n.nation, s.name, p.id LIMIT 100",
    ),
    (
        "GROUP BY",
        "SELECT one, other, year, SUM(volume) AS revenue FROM (SELECT n.nation AS one, m.nation AS "
        "other, YEAR(l.shipped) AS year, l.price * (1 - l.discount) AS volume FROM suppliers s, "
        "lines l, orders o, accounts a, nations n, nations m WHERE s.id = l.supplier "
        "AND o.id = l.order_id AND a.id = o.customer AND s.nation = n.id AND a.owner = m.id "
        "AND ((n.nation = 'one' AND m.nation = 'two') OR (n.nation = 'two' AND m.nation = 'one')) "
        "AND l.shipped BETWEEN DATE '2023-01-01' AND DATE '2024-12-31') AS shipping "
        "GROUP BY one, other, year ORDER BY one, other, year",
    ),
    ("columns and filters", "SELECT id, name, kind, brand FROM products WHERE id IS NOT NULL"),
    (
        "RANGE between moments",
        "SELECT placed, status, total, total - LAG(total, 1) OVER (PARTITION BY status ORDER BY "
        "placed) AS more, AVG(CAST(total AS DECIMAL(30,6))) OVER (PARTITION BY status ORDER BY "
        "placed "
        "RANGE BETWEEN INTERVAL 21 DAYS PRECEDING AND CURRENT ROW) AS moving, SUM(total) OVER "
        "(PARTITION BY status, EXTRACT(YEAR FROM placed) ORDER BY placed) AS so_far FROM orders",
    ),
    (
        "types that only one database has",
        "SELECT e.*, ST_DISTANCE(ST_POINT(e.value, e.amount), ST_POINT(0, 0)) AS distance "
        "FROM events AS e LEFT JOIN customers AS c ON e.customer = c.id",
    ),
    (
        "inner joins",
        "SELECT o.id, l.product FROM orders o INNER JOIN lines l ON o.id = l.order_id",
    ),
    (
        "UNION, INTERSECT, EXCEPT",
        "SELECT source, source AS via, amount FROM moves UNION (SELECT a.owner AS source, a.id "
        "AS via, "
        "m.amount FROM accounts a INNER JOIN moves m ON a.id = m.source WHERE a.owner IS NOT NULL)",
    ),
    (
        "LEFT or RIGHT JOIN",
        "(SELECT s.id, s.name, SUM(f.stock) AS pieces, SUM(f.stock * p.size) AS sizes, "
        "SUM(f.stock * p.volume) AS volume FROM suppliers s LEFT JOIN offers f ON s.id = "
        "f.supplier "
        "LEFT JOIN products p ON f.product = p.id GROUP BY (s.id, s.name))",
    ),
    ("aggregates of all rows", "SELECT COUNT(*) AS n FROM offers"),
    ("aggregates of all rows", "SELECT COUNT(*) AS n FROM suppliers"),
    (
        "RANGE between moments",
        "SELECT *, SUM(CASE WHEN kind = 'far' THEN 1 ELSE 0 END) OVER w AS n FROM events WINDOW "
        "w AS "
        "(PARTITION BY customer ORDER BY at RANGE BETWEEN INTERVAL 30 DAYS PRECEDING "
        "AND CURRENT ROW)",
    ),
    ("GROUP BY", "SELECT product, MIN(cost) AS cost FROM offers GROUP BY product"),
    ("the clock", "SELECT * FROM events WHERE at >= NOW() - INTERVAL 7 DAYS", CLOCK),
    (
        "FULL JOIN",
        "WITH bought AS (SELECT DATE_TRUNC('DAY', at) AS day, SUM(amount) AS s FROM events "
        "GROUP BY DATE_TRUNC('DAY', at)), moved AS (SELECT DATE_TRUNC('DAY', at) AS day, "
        "SUM(amount) AS s FROM moves GROUP BY DATE_TRUNC('DAY', at)) SELECT bought.day AS d, "
        "bought.s AS bought, moved.s AS moved FROM bought FULL OUTER JOIN moved "
        "ON bought.day = moved.day",
    ),
    (
        "UNION, INTERSECT, EXCEPT",
        "SELECT * FROM regions UNION ALL SELECT id, nation FROM nations "
        "UNION ALL SELECT id, name FROM suppliers",
    ),
    (
        "lists as aggregates (array_agg)",
        "SELECT customer, kind, ARRAY_AGG(id) AS ids, ARRAY_AGG(value) AS all_values FROM events "
        "GROUP BY customer, kind",
    ),
    (
        "LEFT or RIGHT JOIN",
        "SELECT o.id, o.total, o.customer, large.total AS other FROM orders o "
        "LEFT JOIN large ON o.customer = large.id",
    ),
    ("columns and filters", "SELECT * FROM regions"),
    ("columns and filters", "SELECT 1 + 2 AS three FROM orders"),
    (
        "rows from a function (generate_series, UNNEST)",
        "SELECT word, t.id FROM tags t LATERAL VIEW EXPLODE(t.words) AS word",
    ),
    ("columns and filters", "SELECT amount <=> customer AS same FROM events"),
    ("arrays, structs and JSON", "SELECT id, PARSE_JSON(payload) AS payload FROM events"),
    (
        "rows from a function (generate_series, UNNEST)",
        "SELECT t.id, at, word FROM tags t LATERAL VIEW POSEXPLODE(t.words) AS at, word",
    ),
    (
        "WITH RECURSIVE",
        "WITH RECURSIVE closure AS (SELECT source, target FROM moves UNION SELECT c.source, "
        "m.target "
        "FROM closure c JOIN moves m ON c.target = m.source) SELECT * FROM closure",
    ),
    (
        "RANGE between moments",
        "SELECT id, at, COUNT(*) OVER m AS in_minute, COUNT(*) OVER d AS in_day FROM events WINDOW "
        "m AS (ORDER BY at RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW), "
        "d AS (ORDER BY at RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW)",
    ),
    ("functions", "SELECT BASE64(hash) AS text FROM events"),
    (
        "functions",
        "SELECT product, stock, supplier, "
        "TRY_DIVIDE(CAST(stock AS DECIMAL(12,6)), stock + supplier) AS a, "
        "TRY_DIVIDE(CAST(stock AS DECIMAL(12,6)), stock + product) AS b FROM offers",
    ),
    (
        "inner joins",
        "SELECT o.id, o.placed, o.total, o.status, l.discount, l.discount >= 0.5 AS cheap "
        "FROM orders o JOIN lines l ON o.id = l.order_id AND o.placed = l.shipped",
    ),
    (
        "subqueries that stand for one value",
        "SELECT s.kind, SUM(s.amount - COALESCE((SELECT SUM(k.amount) FROM events k "
        "WHERE k.customer = s.customer AND k.kind = s.payload), 0)) AS own FROM events s "
        "GROUP BY s.kind",
    ),
    (
        "rows from a function (generate_series, UNNEST)",
        "SELECT id, word, place FROM tags, LATERAL EXPLODE(words) AS x(word)",
    ),
    (
        "rows from a function (generate_series, UNNEST)",
        "SELECT place, word FROM tags, LATERAL EXPLODE(words) AS x(word)",
    ),
    (
        "rows from a function (generate_series, UNNEST)",
        "SELECT word FROM tags LATERAL VIEW EXPLODE(words) x AS word",
    ),
    (
        "functions of one's own",
        "WITH latest AS (SELECT customer, MAX(at) AS last FROM events GROUP BY customer) "
        "SELECT e.id, e.payload, ARRAY_APPEND(mentioned_in(e.payload), NULL) AS mentioned "
        "FROM events e JOIN latest ON e.customer = latest.customer AND e.at = latest.last",
    ),
)

READYSET = _views(
    "ReadySet",
    ("types that only one database has", "SELECT id, status FROM orders WHERE status < 3", TYPES),
    (
        "EXISTS and IN",
        "SELECT id FROM orders WHERE status = 'open' AND EXISTS (SELECT l.product FROM lines l "
        "JOIN "
        "suppliers s ON l.supplier = s.id WHERE orders.customer = s.nation AND l.order_id = "
        "orders.id "
        "AND shipped IS NULL) AND customer = 7",
    ),
    ("EXISTS and IN", "SELECT total FROM orders WHERE customer NOT IN (SELECT id FROM customers)"),
    (
        "subqueries in FROM",
        "SELECT s.customer, s.total FROM (SELECT o.customer, SUM(o.total) AS total FROM orders o "
        "GROUP BY o.customer) s ORDER BY s.customer",
    ),
    (
        "aggregates of all rows",
        "SELECT COUNT(*) FROM orders JOIN customers ON orders.status = customers.tier",
    ),
    (
        "inner joins",
        "SELECT orders.id FROM orders JOIN customers ON orders.status = customers.tier",
    ),
    (
        "joins on expressions",
        "SELECT c.id, s.name FROM customers c JOIN suppliers s WHERE c.name = UPPER(s.name)",
    ),
    (
        "joins on expressions",
        "SELECT c.id, s.name FROM customers c JOIN suppliers s WHERE LOWER(s.name) = LOWER(c.name)",
    ),
    ("DISTINCT", "SELECT DISTINCT l.mode FROM orders o JOIN lines l ON o.id = l.order_id"),
    (
        "LEFT or RIGHT JOIN",
        "SELECT o.id, c.name, o.status FROM orders o LEFT JOIN customers c ON c.id = o.customer "
        "AND o.id > 3",
    ),
    (
        "subqueries in ON",
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id "
        "AND o.customer IN (SELECT a.owner FROM accounts a WHERE a.branch = o.status)",
    ),
    (
        "subqueries in ON",
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id "
        "AND o.status NOT IN (SELECT a.branch FROM accounts a WHERE a.id = 20)",
    ),
    (
        "subqueries in ON",
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id "
        "AND o.customer IN (SELECT MAX(d.id) FROM customers d)",
    ),
    (
        "EXISTS and IN",
        "SELECT x.id, s.nation FROM (SELECT c.id, c.city, CASE WHEN EXISTS (SELECT 1 FROM "
        "accounts a "
        "WHERE a.branch = 'main') THEN 0 ELSE 1 END AS none FROM customers c) x LEFT JOIN "
        "suppliers s "
        "ON x.city = s.name AND x.none = 1",
    ),
    (
        "columns and filters",
        "SELECT id FROM orders WHERE (id IS NULL OR id IS NOT NULL) AND id NOT BETWEEN 1 AND 5 "
        "AND (id IS NULL OR id IS NOT NULL)",
    ),
    (
        "columns and filters",
        "SELECT * FROM events WHERE sent = TIMESTAMP '2024-01-02 03:04:05-05:00'",
    ),
    ("functions", "SELECT HEX(id) AS h FROM orders WHERE customer = 0"),
    ("columns and filters", "SELECT * FROM orders WHERE customer = 42.0"),
    (
        "functions",
        "SELECT CONVERT_TIMEZONE('America/New_York', 'UTC', at) AS t FROM events WHERE id = 1",
    ),
    (
        "subqueries in FROM",
        "SELECT MIN(total) FROM (SELECT total FROM orders WHERE customer = 1) x",
    ),
    (
        "ORDER BY ... LIMIT",
        "SELECT id FROM orders WHERE customer = 10 ORDER BY id ASC LIMIT 1 OFFSET 3",
    ),
    (
        "ORDER BY ... LIMIT",
        "SELECT SUM(amount) v FROM events WHERE id <= 100 GROUP BY amount ORDER BY v ASC "
        "LIMIT 1 OFFSET 2",
    ),
    (
        "ORDER BY ... LIMIT",
        "SELECT SUM(total) v FROM orders WHERE id <= 100 GROUP BY total ORDER BY v ASC LIMIT 1",
    ),
    (
        "aggregates of all rows",
        "SELECT AVG(quantity), AVG(price) FROM lines WHERE product IN (1, 2)",
    ),
    (
        "columns and filters",
        "SELECT id, CASE WHEN total < 15 THEN 'low' ELSE 'high' END AS tier FROM orders "
        "ORDER BY CASE WHEN total < 15 THEN 'low' ELSE 'high' END, id",
    ),
    ("functions", "SELECT EXTRACT(DAYOFWEEK_ISO FROM sent) AS d FROM events WHERE id = 3"),
    (
        "arrays, structs and JSON",
        "SELECT GET_JSON_OBJECT(payload, '$.flag') AS flag FROM events WHERE id = 5",
    ),
    ("WITH", "WITH x AS (SELECT * FROM orders) SELECT * FROM x"),
    (
        "columns and filters",
        "SELECT * FROM events WHERE sent = TIMESTAMP '2024-04-25 21:23:26+02:00'",
    ),
    (
        "VALUES",
        "SELECT c.name, v.tier FROM customers c LEFT JOIN (VALUES ('gold'), ('blue')) AS v(tier) "
        "ON c.tier = v.tier",
    ),
    ("GROUP BY", "SELECT COUNT(total) FROM orders WHERE id > 1 GROUP BY status"),
    (
        "inner joins",
        "SELECT o.id FROM orders o JOIN lines l ON l.order_id = o.id WHERE l.product = 1 "
        "AND l.supplier = 2 AND o.status = 'open' AND (o.customer = 30 OR (o.customer = 20 "
        "AND o.total > 0) OR (o.customer = 20 AND o.total = 0))",
    ),
    ("ORDER BY ... LIMIT", "SELECT DISTINCT total FROM orders ORDER BY total ASC LIMIT 1"),
    ("views over views", "SELECT * FROM all_ids"),
)

OTHER_VIEWS = PG_IVM + RISINGWAVE + MATERIALIZE + FELDERA + READYSET
REFUSED = {view.sql: view.refused for view in OTHER_VIEWS if view.refused}
"""What is refused, and why."""
