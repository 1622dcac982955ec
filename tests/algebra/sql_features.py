"""What a view's SQL may say, feature by feature: the table behind docs/sql.md, and its tests.

Each query is over r(a, b, t), s(a, c) and u(c, d), all of integers but the text t; v(a, xs, p),
where xs is an array of integers and p a struct of the integer x and the text y; and
e(a, since, until, day), where since and until are timestamps and day is a date.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import DATE, INT, TEXT, TIMESTAMP, array_type, struct_type

POINT = struct_type([("x", INT), ("y", TEXT)])
RELATIONS = (
    Relation("r", "x", Schema.of([("a", INT), ("b", INT), ("t", TEXT)]), ("a",)),
    Relation("s", "y", Schema.of([("a", INT), ("c", INT)])),
    Relation("u", "y", Schema.of([("c", INT), ("d", INT)])),
    Relation("v", "x", Schema.of([("a", INT), ("xs", array_type(INT)), ("p", POINT)])),
    Relation(
        "e",
        "x",
        Schema.of([("a", INT), ("since", TIMESTAMP), ("until", TIMESTAMP), ("day", DATE)]),
    ),
)


@dataclass(frozen=True)
class Feature:
    """A feature, and queries that use it."""

    group: str
    name: str
    queries: tuple[str, ...]


def _feature(group: str, name: str, *queries: str) -> Feature:
    return Feature(group, name, queries)


FEATURES = (
    _feature(
        "Joins",
        "inner joins, also of a table with itself",
        "SELECT r.a, s.c FROM r JOIN s ON r.a = s.a WHERE b > 1",
        "SELECT x.a, y.a AS other FROM r x JOIN r y ON x.b = y.b AND x.a < y.a",
        "SELECT r.a, c, d FROM r JOIN s USING (a) JOIN u USING (c)",
        "SELECT k, x.a, b FROM s AS x (k, a) JOIN r ON r.a = k WHERE x.a > 0",
    ),
    _feature(
        "Joins",
        "LEFT, RIGHT and FULL JOIN",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a AND b > 1",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a WHERE c IS NULL",
        "SELECT r.a, c FROM r RIGHT JOIN s ON r.a = s.a",
        "SELECT r.a, s.a AS other, c FROM r FULL JOIN s ON r.a = s.a",
        "SELECT a, b, c FROM r FULL JOIN s USING (a)",
        "SELECT a, b, c FROM r RIGHT JOIN s USING (a)",
        "SELECT r.a, s.c, d FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN u ON s.c = u.c",
        "SELECT r.a, s.c, d FROM r LEFT JOIN s ON r.a = s.a JOIN u ON s.c = u.c OR s.c IS NULL",
        "SELECT r.a, s.c, u.d FROM r LEFT JOIN (s JOIN u ON s.c = u.c) ON r.a = s.a",
        "SELECT r.a, x.c, y.c AS e, z.c AS f, w.c AS g FROM r LEFT JOIN s x ON r.a = x.a LEFT JOIN "
        "s y ON r.b = y.a LEFT JOIN s z ON x.c = z.a LEFT JOIN s w ON y.c = w.a",
    ),
    _feature(
        "Joins",
        "SEMI and ANTI JOIN",
        "SELECT r.a FROM r LEFT SEMI JOIN s ON r.a = s.a",
        "SELECT r.a FROM r LEFT ANTI JOIN s ON r.a = s.a AND r.b < s.c",
    ),
    _feature(
        "Groups",
        "GROUP BY, aggregates, HAVING",
        "SELECT t, COUNT(*) AS n, SUM(b) AS s FROM r GROUP BY t",
        "SELECT b, COUNT(t) AS n, MIN(t) AS low, MAX(a) AS high, AVG(a) AS mean FROM r GROUP BY b",
        "SELECT r.t, SUM(s.c) AS s FROM r JOIN s ON r.a = s.a GROUP BY r.t HAVING COUNT(*) > 1",
        "SELECT COUNT(*) AS n, SUM(b) AS s, MAX(t) AS m FROM r",
        "SELECT b + 1 AS k, COUNT(*) AS n FROM r GROUP BY b + 1",
        "SELECT b + 1 AS k, COUNT(*) AS n FROM r GROUP BY k",
        "SELECT b + 1 AS k, COUNT(*) AS n FROM r GROUP BY 1",
        "SELECT SUM(a) + COUNT(*) * 2 AS x FROM r GROUP BY t HAVING MAX(b) > 1 AND t <> 'x'",
        "SELECT t, b, COUNT(*) AS n FROM r GROUP BY ALL",
        "SELECT CASE WHEN b > 1 THEN 'many' ELSE 'few' END AS k, SUM(a) AS s FROM r "
        "GROUP BY CASE WHEN b > 1 THEN 'many' ELSE 'few' END",
    ),
    _feature(
        "Groups",
        "DISTINCT and FILTER in aggregates",
        "SELECT t, COUNT(DISTINCT b) AS n, SUM(DISTINCT b) AS s FROM r GROUP BY t",
        "SELECT t, COUNT(*) FILTER (WHERE b > 1) AS n, SUM(a) FILTER (WHERE b = 1) AS s "
        "FROM r GROUP BY t",
        "SELECT COUNT(DISTINCT c, d) AS n FROM u",
    ),
    _feature(
        "Groups",
        "more aggregates",
        "SELECT t, BOOL_AND(b > 0) AS e, BOOL_OR(b > 1) AS o, COUNT_IF(a > 1) AS n "
        "FROM r GROUP BY t",
        "SELECT b, STRING_AGG(t, ',' ORDER BY a DESC) AS x, MEDIAN(a) AS m FROM r GROUP BY b",
        "SELECT t, PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY a) AS p FROM r GROUP BY t",
        "SELECT b, STRING_AGG(t, CAST(a AS STRING) ORDER BY a) AS x FROM r GROUP BY b",
        "SELECT t, COUNT(*) AS n, PERCENTILE_CONT(NULL) WITHIN GROUP (ORDER BY a) AS p FROM r "
        "GROUP BY t",
        "SELECT t, MAX_BY(a, b * 100 + a) AS x, MIN_BY(a, b * 100 + a) AS y FROM r GROUP BY t",
        "SELECT t, MODE() WITHIN GROUP (ORDER BY b) AS x FROM r GROUP BY t",
        "SELECT t, PERCENTILE(GREATEST(a, b), 0.4) AS x FROM r GROUP BY t",
    ),
    _feature(
        "Groups",
        "FIRST and LAST, aggregates of bits",
        "SELECT t, FIRST(a ORDER BY b DESC, a) AS x, LAST(b ORDER BY a) AS y FROM r GROUP BY t",
        "SELECT b, FIRST(a) IGNORE NULLS AS x, LAST(t, TRUE) AS y FROM r GROUP BY b",
        "SELECT t, BIT_AND(b) AS x, BIT_OR(b) AS y, BIT_XOR(a) AS z FROM r GROUP BY t",
        "SELECT a, BIT_XOR(b) OVER (PARTITION BY t ORDER BY a) AS x FROM r",
    ),
    _feature(
        "Groups",
        "correlation and regression",
        "SELECT t, ROUND(CORR(a, b), 9) AS c, REGR_COUNT(a, b) AS n, ROUND(REGR_SLOPE(a, b), 9) "
        "AS s FROM r GROUP BY t",
        "SELECT ROUND(REGR_INTERCEPT(c, d), 9) AS i, ROUND(REGR_R2(c, d), 9) AS r FROM u",
        "SELECT c, REGR_AVGX(c, d) AS x, ROUND(REGR_SXX(c, d), 9) AS y, ROUND(KURTOSIS(d), 9) AS k "
        "FROM u GROUP BY c",
        "SELECT a, ROUND(REGR_SXY(a, b) OVER (PARTITION BY t), 9) AS x FROM r",
    ),
    _feature(
        "Groups",
        "approximate aggregates, which are exact here",
        "SELECT t, APPROX_PERCENTILE(a, 0.3) AS p, APPROX_COUNT_DISTINCT(b) AS n FROM r GROUP BY t",
        "SELECT APPROX_PERCENTILE(c, ARRAY(0, 0.5, 1.0), 100) AS p FROM u",
        "SELECT a, APPROX_PERCENTILE(b, 0.5) OVER (PARTITION BY t) AS p FROM r",
    ),
    _feature(
        "Groups",
        "ROLLUP, CUBE, GROUPING SETS, GROUPING",
        "SELECT t, b, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((t, b), (t))",
        "SELECT t, b, GROUPING(b) AS g, COUNT(*) AS n FROM r WHERE a IS NOT NULL "
        "GROUP BY ROLLUP (t, b) HAVING COUNT(*) > 0 AND t IS NOT NULL",
        "SELECT c, d, SUM(c) AS n FROM u GROUP BY CUBE (c, d) HAVING c > 0",
        "SELECT COUNT(*) AS n, MAX(c) AS m FROM u GROUP BY GROUPING SETS (())",
    ),
    _feature(
        "Groups",
        "PIVOT",
        "SELECT * FROM (SELECT t, b, a FROM r) PIVOT (SUM(a) FOR b IN (0 AS zero, 1 AS one))",
        "SELECT b, x_n, y_m FROM r PIVOT (COUNT(*) AS n, MAX(a) AS m FOR t IN ('x' AS x, "
        "'y' AS y)) WHERE b > 0",
    ),
    _feature(
        "Sets",
        "DISTINCT",
        "SELECT DISTINCT t FROM r",
        "SELECT DISTINCT r.b, s.c FROM r JOIN s ON r.a = s.a",
        "SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY t",
    ),
    _feature(
        "Sets",
        "DISTINCT ON",
        "SELECT DISTINCT ON (b) b, a FROM r ORDER BY b, a DESC",
        "SELECT DISTINCT ON (k) b + 1 AS k, -a AS a FROM r ORDER BY k, a",
        "SELECT DISTINCT ON (b) a, t FROM r ORDER BY b DESC, a LIMIT 1",
        "SELECT DISTINCT ON (1) t, b, MAX(a) AS m FROM r GROUP BY t, b ORDER BY 1, m DESC, b",
        "SELECT b, a FROM (SELECT DISTINCT ON (b, t) * FROM r ORDER BY t, b, a) ORDER BY b, a "
        "LIMIT 2",
    ),
    _feature(
        "Sets",
        "UNION, INTERSECT, EXCEPT, with and without ALL",
        "SELECT b FROM r UNION ALL SELECT c FROM s",
        "SELECT b FROM r UNION SELECT c FROM s",
        "SELECT b FROM r INTERSECT SELECT c FROM s",
        "SELECT b FROM r EXCEPT SELECT c FROM s",
        "SELECT b FROM r EXCEPT ALL SELECT c FROM s",
        "SELECT b FROM r INTERSECT ALL SELECT c FROM s",
        "SELECT b FROM r UNION SELECT c FROM s INTERSECT SELECT d FROM u",
        "(SELECT b FROM r UNION ALL SELECT c FROM s) EXCEPT SELECT d FROM u",
        "SELECT t, COUNT(*) AS n FROM r GROUP BY t UNION ALL SELECT 'all', COUNT(*) FROM r",
    ),
    _feature(
        "Sets",
        "UNION BY NAME",
        "SELECT a, b FROM r UNION ALL BY NAME SELECT c AS b, a FROM s",
        "SELECT a FROM r UNION BY NAME SELECT c, a FROM s",
    ),
    _feature(
        "Subqueries",
        "EXISTS and NOT EXISTS",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.a = r.a AND s.c > r.b)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s)",
        "SELECT a, b FROM r WHERE b > 1 OR EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
        "SELECT a, EXISTS (SELECT 1 FROM s WHERE s.a = r.a) AS e FROM r",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s JOIN u ON s.c = u.c WHERE s.a = r.a "
        "AND NOT EXISTS (SELECT 1 FROM u v WHERE v.d = s.c))",
        "SELECT a FROM r WHERE EXISTS (SELECT COUNT(*) FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE NOT EXISTS (SELECT MAX(c) FROM s WHERE s.a = r.a HAVING MAX(c) > 0)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a LIMIT 0)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s LIMIT 0)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a LIMIT 1 OFFSET 1)",
        "SELECT a FROM r WHERE EXISTS (SELECT MAX(c) FROM s WHERE s.a = r.a GROUP BY s.a)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s QUALIFY RANK() OVER (ORDER BY s.c) = r.a)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s "
        "QUALIFY RANK() OVER (ORDER BY s.c * r.b) > r.a)",
    ),
    _feature(
        "Subqueries",
        "IN and NOT IN, with their rules for NULL",
        "SELECT a FROM r WHERE b IN (SELECT c FROM s)",
        "SELECT a FROM r WHERE b NOT IN (SELECT c FROM s)",
        "SELECT a FROM r WHERE b NOT IN (SELECT c FROM s WHERE c IS NOT NULL)",
        "SELECT a FROM r WHERE b NOT IN (SELECT c FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE (a, b) IN (SELECT a, c FROM s)",
        "SELECT a, b IN (SELECT c FROM s) AS e FROM r",
        "SELECT a FROM r WHERE NOT (b IN (SELECT c FROM s) AND a > 1)",
        "SELECT a FROM r WHERE a IN (SELECT c FROM u GROUP BY c HAVING COUNT(*) > 1)",
        "SELECT a FROM r WHERE a NOT IN (SELECT c FROM u GROUP BY c HAVING COUNT(*) > 1)",
        "SELECT a FROM r WHERE b = ANY (SELECT c FROM s)",
        "SELECT a FROM r WHERE b IN (SELECT COUNT(*) FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE b NOT IN (SELECT COUNT(*) FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE b NOT IN (SELECT MAX(c) FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE b IN (SELECT r.a FROM s)",
        "SELECT a FROM r WHERE b NOT IN (SELECT r.a FROM s)",
        "SELECT a FROM r WHERE b IN (SELECT MAX(s.c) OVER () FROM s WHERE s.c > r.a)",
    ),
    _feature(
        "Subqueries",
        "comparisons with ANY and ALL, with their rules for NULL",
        "SELECT a FROM r WHERE b > ALL (SELECT c FROM s)",
        "SELECT a FROM r WHERE b < ANY (SELECT c FROM s WHERE s.a = r.a)",
        "SELECT b FROM r GROUP BY b HAVING COUNT(*) >= ALL (SELECT COUNT(*) FROM r GROUP BY b)",
        "SELECT a FROM r WHERE b <> ALL (SELECT c FROM s)",
        "SELECT a, b >= ALL (SELECT c FROM s WHERE s.a = r.a) AS x, b <> ANY (SELECT c FROM s) "
        "AS y FROM r",
        "SELECT a FROM r WHERE NOT b = ALL (SELECT c FROM s WHERE s.a < r.a)",
        "SELECT a, NOT b <= ANY (SELECT c FROM s) AS x, b = ALL (SELECT c FROM s) AS y FROM r",
    ),
    _feature(
        "Subqueries",
        "subqueries that stand for one value",
        "SELECT a FROM r WHERE b > (SELECT AVG(c) FROM s)",
        "SELECT a, (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS n FROM r",
        "SELECT a, (SELECT MAX(c) FROM s WHERE s.a = r.a) AS m FROM r",
        "SELECT a FROM r WHERE b >= (SELECT MIN(c) FROM s WHERE s.a = r.a)",
        "SELECT r.a, s.c FROM r JOIN s ON r.a = s.a WHERE s.c = "
        "(SELECT MAX(x.c) FROM s x WHERE x.a = r.a)",
        "SELECT t, SUM(b) AS s FROM r GROUP BY t HAVING SUM(b) > (SELECT AVG(c) FROM s)",
        "SELECT a, (SELECT 2 * SUM(c) + COUNT(*) FROM s WHERE s.a = r.a AND c > 0) AS n FROM r",
        "SELECT t, SUM(b + (SELECT MAX(c) FROM s)) AS n FROM r GROUP BY t",
        "SELECT t, SUM(b - COALESCE((SELECT MAX(c) FROM s WHERE s.a = r.a), 0)) AS n FROM r "
        "GROUP BY t",
        "SELECT t, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)) AS n FROM r "
        "GROUP BY t HAVING COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)) > 0",
        "SELECT (SELECT MAX(c) FROM s WHERE s.a = r.a) AS k, COUNT(*) AS n FROM r GROUP BY k",
        "SELECT a FROM r WHERE b IN (SELECT MAX(c) OVER () FROM s WHERE s.a = r.a)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a "
        "QUALIFY ROW_NUMBER() OVER (ORDER BY c DESC) = 2)",
        "SELECT a, (SELECT COUNT(*) FROM s WHERE s.a = r.a HAVING COUNT(*) > 0) AS n FROM r",
        "SELECT a, (SELECT COUNT(*) FROM s WHERE s.a = r.a HAVING COUNT(*) = 0) AS n FROM r",
        "SELECT a, (SELECT COUNT(*) FROM s HAVING COUNT(*) > 4) AS n FROM r",
        "SELECT a, (SELECT COUNT(*) FROM s LIMIT 0) AS n FROM r",
        "SELECT a, (SELECT MAX(c) FROM s WHERE s.a = r.a GROUP BY s.a) AS m FROM r",
    ),
    _feature(
        "Subqueries",
        "LATERAL, and other subqueries for each row",
        "SELECT r.a, x.c FROM r, LATERAL (SELECT c FROM s WHERE s.a = r.a ORDER BY c DESC LIMIT 1) "
        "AS x",
        "SELECT r.a, x.n, x.m FROM r LEFT JOIN LATERAL (SELECT COUNT(*) AS n, SUM(c) FILTER (WHERE "
        "c > r.b) AS m FROM s WHERE s.a >= r.a) x ON TRUE",
        "SELECT a, (SELECT MAX(c) FROM s WHERE s.a < r.a) AS m FROM r",
        "SELECT r.a, x.* FROM r, LATERAL (SELECT c, MAX(d) + r.b AS m FROM u WHERE d = r.b "
        "GROUP BY c ORDER BY c LIMIT 2 OFFSET 1) x",
        "SELECT a, (SELECT c FROM s WHERE s.a = r.b ORDER BY c DESC LIMIT 1) AS c FROM r",
        "SELECT b, MAX(a) AS m, (SELECT d FROM u WHERE u.c = r.b ORDER BY d LIMIT 1) AS d FROM r "
        "GROUP BY b",
        "SELECT b, COUNT(*) AS n FROM r GROUP BY b HAVING b IN (SELECT c FROM s WHERE s.a = r.b)",
        "SELECT r.a, x.n FROM r CROSS JOIN LATERAL (SELECT DISTINCT c + r.b AS n FROM s WHERE "
        "s.a = r.a) x",
        "SELECT r.a, x.n FROM r JOIN LATERAL (SELECT SUM(c) AS n FROM s WHERE s.a = r.a HAVING "
        "COUNT(*) < 2) x ON n IS NULL OR n > 0",
        "SELECT r.a, x.c FROM r, LATERAL (SELECT c FROM s WHERE s.a = r.a UNION SELECT d FROM u "
        "WHERE u.c = r.b ORDER BY 1 LIMIT 2) x",
        "SELECT r.a, x.n FROM r, LATERAL (SELECT c, ROW_NUMBER() OVER (ORDER BY c, s.a) AS n FROM "
        "s WHERE s.a <= r.a QUALIFY n < 3) x",
    ),
    _feature(
        "Subqueries",
        "subqueries in ON",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a AND r.b IN (SELECT d FROM u WHERE c = r.a)",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a AND r.b NOT IN (SELECT d FROM u)",
        "SELECT r.a, c FROM r JOIN s ON r.a = s.a AND EXISTS (SELECT 1 FROM u WHERE u.c = s.c AND "
        "d > r.b)",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a AND s.c IN (SELECT MAX(d) FROM u)",
        "SELECT r.a, c FROM r RIGHT JOIN s ON r.a = s.a AND r.b = (SELECT MAX(d) FROM u) "
        "WHERE s.c IN (SELECT d FROM u)",
        "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a AND (r.b IN (SELECT d FROM u) OR "
        "EXISTS (SELECT 1 FROM u WHERE u.c = r.b))",
        "SELECT r.a FROM r LEFT ANTI JOIN s ON r.a = s.a AND EXISTS (SELECT 1 FROM u WHERE d = b)",
    ),
    _feature(
        "Subqueries",
        "subqueries in FROM, and WITH",
        "SELECT x.a FROM (SELECT a, b + 1 AS k FROM r WHERE b > 0) x WHERE k > 1",
        "SELECT n, COUNT(*) AS m FROM (SELECT r.a, COUNT(s.c) AS n FROM r LEFT JOIN s "
        "ON r.a = s.a GROUP BY r.a) x GROUP BY n",
        "WITH x AS (SELECT a, SUM(c) AS s FROM s GROUP BY a) SELECT r.a, x.s FROM r "
        "JOIN x ON r.a = x.a",
        "WITH x AS (SELECT a, SUM(c) AS s FROM s GROUP BY a) SELECT r.a, x.s FROM r "
        "LEFT JOIN x ON r.a = x.a",
        "WITH x(k) AS (SELECT b FROM r), y AS (SELECT k FROM x WHERE k > 0) SELECT x.k FROM x "
        "JOIN y ON x.k = y.k",
        "WITH x AS (SELECT a, SUM(c) AS s FROM s GROUP BY a) SELECT a FROM x WHERE s = "
        "(SELECT MAX(s) FROM x)",
        "SELECT DISTINCT k FROM (SELECT b AS k FROM r UNION ALL SELECT c FROM s) x",
        "SELECT x.n, y.m FROM (SELECT COUNT(*) AS n FROM r) x, (SELECT COUNT(*) AS m FROM s) y",
        "SELECT x.a, y.a AS c FROM (WITH k AS (SELECT a FROM r WHERE b > 0) SELECT a FROM k) x, "
        "(WITH k AS (SELECT c AS a FROM s), r AS (SELECT a FROM k WHERE a > 0) SELECT a FROM r) y",
    ),
    _feature(
        "Subqueries",
        "WITH RECURSIVE",
        "WITH RECURSIVE p AS (SELECT a, c FROM s UNION SELECT p.a, s.c FROM p JOIN s ON p.c = s.a) "
        "SELECT a, c FROM p",
        "WITH RECURSIVE x(n) AS (SELECT a FROM r UNION ALL SELECT n + 1 FROM x WHERE n < 3) "
        "SELECT n, COUNT(*) AS m FROM x GROUP BY n",
        "WITH RECURSIVE x(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM x WHERE n < 4) "
        "SELECT n, b FROM x LEFT JOIN r ON a = n",
        "WITH RECURSIVE p(a, c, n) AS (SELECT a, c, 1 FROM s UNION ALL SELECT p.a, s.c, n + 1 "
        "FROM p JOIN s ON p.c = s.a WHERE n < 3) SELECT a, c, n FROM p",
        "WITH RECURSIVE p(a, n) AS (SELECT a, 0 FROM r WHERE b > 0 UNION SELECT d, n + 1 FROM p "
        "LEFT JOIN u ON p.a = u.c WHERE n < 3), q AS (SELECT MAX(n) AS m FROM p) "
        "SELECT p.a, n FROM p, q WHERE n = m",
        "WITH RECURSIVE p(a, n) AS (SELECT a, 0 FROM r UNION SELECT g.a, n + 1 FROM p JOIN "
        "(SELECT c AS a, COUNT(*) AS k FROM s GROUP BY c) g ON g.k > p.a WHERE n < 2 AND NOT "
        "EXISTS (SELECT 1 FROM u WHERE u.c = p.a AND u.d = p.n)) SELECT a, n FROM p",
        "SELECT r.a FROM r WHERE b IN (WITH RECURSIVE p AS (SELECT c FROM s UNION (SELECT DISTINCT "
        "u.d FROM u JOIN (SELECT c + 0 AS k FROM p) x ON u.c = x.k)) SELECT c FROM p)",
    ),
    _feature(
        "Subqueries",
        "rows that the query names",
        "SELECT r.a, x.k FROM r LEFT JOIN (VALUES ('x', 1), ('y', 2)) AS x(t, k) ON r.t = x.t",
        "SELECT a, id FROM r, RANGE(0, 3) AS n(id) WHERE id < b",
        "SELECT n, COUNT(a) AS m FROM (VALUES (0), (1), (NULL)) AS v(n) LEFT JOIN r ON b = n "
        "GROUP BY n",
        "SELECT a FROM r UNION SELECT k FROM (VALUES (7), (1)) AS x(k)",
        "SELECT a, n FROM r, (SELECT 1 AS n) AS x UNION ALL SELECT 7, 8",
    ),
    _feature(
        "First rows",
        "ORDER BY ... LIMIT, OFFSET",
        "SELECT a, b FROM r ORDER BY b DESC, a LIMIT 2",
        "SELECT a, b FROM r ORDER BY b, a LIMIT 2 OFFSET 1",
        "SELECT a FROM r ORDER BY b NULLS LAST, a LIMIT 3",
        "SELECT t, COUNT(*) AS n FROM r GROUP BY t ORDER BY n DESC, t LIMIT 2",
        "SELECT t, SUM(b) AS s FROM r GROUP BY t ORDER BY COUNT(*) DESC, t LIMIT 1",
        "SELECT b FROM r UNION ALL SELECT c FROM s ORDER BY 1 LIMIT 3",
        "SELECT r.a, x.c FROM r JOIN (SELECT c, d FROM u ORDER BY c, d LIMIT 2) x ON r.b = x.d",
        "SELECT a, b FROM r ORDER BY a",
    ),
    _feature(
        "First rows",
        "ORDER BY ALL, LIMIT ALL",
        "SELECT b, a FROM r ORDER BY ALL DESC LIMIT 2",
        "SELECT a FROM r ORDER BY b, a LIMIT ALL OFFSET 1",
        "SELECT b FROM r UNION ALL SELECT c FROM s ORDER BY ALL LIMIT 3",
    ),
    _feature(
        "Windows",
        "numbers and ranks, QUALIFY",
        "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r",
        "SELECT a, RANK() OVER (ORDER BY b) AS x, DENSE_RANK() OVER (ORDER BY b DESC) AS y FROM r",
        "SELECT a, b FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) = 1",
        "SELECT t, SUM(b) AS s, RANK() OVER (ORDER BY SUM(b)) AS n FROM r GROUP BY t",
        "SELECT a, NTILE(2) OVER (ORDER BY a) AS n FROM r",
        "SELECT * FROM (SELECT a, b, ROW_NUMBER() OVER (ORDER BY a) AS n FROM r) x WHERE n <= 2",
    ),
    _feature(
        "Windows",
        "neighbours and frames",
        "SELECT a, LAG(b) OVER (ORDER BY a) AS p, LEAD(b, 2, 0) OVER (ORDER BY a) AS q FROM r",
        "SELECT a, SUM(b) OVER (PARTITION BY t ORDER BY a) AS s FROM r",
        "SELECT a, COUNT(*) OVER (PARTITION BY t) AS n, MAX(b) OVER () AS m FROM r",
        "SELECT a, SUM(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM r",
        "SELECT a, SUM(b) OVER w AS s, COUNT(*) OVER w AS n FROM r WINDOW w AS (ORDER BY b)",
        "SELECT a, FIRST_VALUE(b) OVER (PARTITION BY t ORDER BY a) AS f FROM r",
        "SELECT a, SUM(a) OVER (PARTITION BY t ORDER BY b RANGE BETWEEN 1 PRECEDING AND "
        "CURRENT ROW) AS s FROM r",
        "SELECT c, d, COUNT(*) OVER (ORDER BY c DESC RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING) "
        "AS n, MAX(d) OVER (ORDER BY c RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS m "
        "FROM u",
    ),
    _feature(
        "Windows",
        "FILTER before OVER",
        "SELECT a, SUM(b) FILTER (WHERE a > 1) OVER (PARTITION BY t) AS s FROM r",
        "SELECT a, COUNT(*) FILTER (WHERE b > 0) OVER (ORDER BY a) AS n FROM r",
        "SELECT a, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY b) FILTER (WHERE a > 0) OVER "
        "(PARTITION BY t) AS p FROM r",
        "SELECT t, SUM(COUNT(*)) FILTER (WHERE MAX(b) > 0) OVER () AS n FROM r GROUP BY t",
    ),
    _feature(
        "Arrays and structs",
        "rows of arrays: UNNEST, EXPLODE, LATERAL VIEW",
        "SELECT a, x FROM v, UNNEST(xs) AS n(x)",
        "SELECT a, x FROM v LATERAL VIEW EXPLODE(xs) AS x",
        "SELECT a, POSEXPLODE(xs) AS (at, x) FROM v",
        "SELECT v.a, x FROM v CROSS JOIN LATERAL UNNEST(v.xs) AS n(x) WHERE x > 0",
        "SELECT a, x, n FROM v CROSS JOIN UNNEST(xs) WITH ORDINALITY AS k(x, n)",
        "SELECT v.a, x, b FROM v, UNNEST(xs) AS n(x) JOIN r ON r.a = x AND b > v.a",
        "SELECT a, x FROM v LEFT JOIN UNNEST(xs) AS n(x) ON TRUE",
        "SELECT x, COUNT(*) AS n, SUM(a) AS s FROM v, UNNEST(xs) AS n(x) GROUP BY x",
        "SELECT a, EXPLODE(SEQUENCE(0, b)) AS x FROM r WHERE b IS NOT NULL",
        "SELECT DISTINCT x FROM r, UNNEST(ARRAY[a, b]) AS n(x)",
    ),
    _feature(
        "Arrays and structs",
        "lists as aggregates",
        "SELECT t, ARRAY_AGG(a ORDER BY a DESC) AS l FROM r WHERE a IS NOT NULL GROUP BY t",
        "SELECT b, ARRAY_AGG(DISTINCT c ORDER BY c) AS l FROM r JOIN s USING (a) "
        "WHERE c IS NOT NULL GROUP BY b",
        "SELECT ARRAY_MAX(ARRAY_AGG(a)) AS m, SIZE(ARRAY_AGG(a)) AS n FROM r GROUP BY t",
    ),
    _feature(
        "Arrays and structs",
        "elements and fields",
        "SELECT a, p.x, v.p.y AS z FROM v WHERE p.x > 0",
        "SELECT a, GET(xs, 0) AS first, SIZE(xs) AS n FROM v WHERE ARRAY_CONTAINS(xs, 1)",
        "SELECT a, ELEMENT_AT(xs, -1) AS last FROM v WHERE SIZE(xs) > 0",
        "SELECT p.y, ARRAY[a, p.x] AS l FROM v ORDER BY p.x",
    ),
    _feature(
        "Arrays and structs",
        "points in the plane",
        "SELECT a, ST_DISTANCE(ST_POINT(a, b), ST_POINT(0, 0.5)) AS d FROM r",
        "SELECT ST_POINT(a, b) AS p, COUNT(*) AS n FROM r GROUP BY ST_POINT(a, b) "
        "HAVING ST_X(p) > 0",
    ),
    _feature(
        "Conditions",
        "LIKE ANY, LIKE ALL, `~`",
        "SELECT a FROM r WHERE t LIKE ANY ('x%', '%z')",
        "SELECT a FROM r WHERE t NOT LIKE ANY ('x', 'z') AND t NOT LIKE ALL ('y%', 'z')",
        "SELECT a FROM r WHERE NOT t ~ '[xz]'",
    ),
    _feature(
        "Time",
        "differences of moments, compared",
        "SELECT a FROM e WHERE until - since > INTERVAL '1' HOUR",
        "SELECT a FROM e WHERE until - since BETWEEN INTERVAL '30' MINUTES AND INTERVAL '1' DAY",
        "SELECT x.a, y.since FROM e x JOIN e y ON x.a = y.a AND y.since - x.until < "
        "INTERVAL '1' DAY",
        "SELECT a, MAX(until) - MIN(since) > INTERVAL '2' HOURS AS long FROM e GROUP BY a",
        "SELECT a, until - since <= since - until AS e, until - day IS NULL AS n FROM e "
        "WHERE INTERVAL '1' DAY <> until - day + INTERVAL '1' HOUR",
        "SELECT a, since + (until - since) AS t FROM e",
    ),
    _feature(
        "Time",
        "units and bins of time",
        "SELECT a FROM e WHERE EXTRACT(EPOCH FROM (until - since)) > 3600",
        "SELECT a, TIMESTAMPDIFF(HOUR, since, until) AS h, DATEDIFF(MONTH, since, until) AS m "
        "FROM e",
        "SELECT window.start, COUNT(*) AS n FROM e GROUP BY WINDOW(since, '1 hour')",
        "SELECT DATE_BIN('15 minutes', since, TIMESTAMP_NTZ '2024-01-01 00:05:00') AS t, "
        "COUNT(*) AS n FROM e GROUP BY 1",
        "SELECT a, TIMESTAMPADD(MONTH, 1, since) AS t, DATEADD(HOUR, -a, until) AS u FROM e",
        "SELECT a, CAST(EXTRACT(EPOCH FROM since) AS BIGINT) AS s FROM e",
        "SELECT a, w.start AS t, w.end AS u FROM (SELECT a, WINDOW(since, '1 day', '1 day', "
        "'6 hours') AS w FROM e GROUP BY a, WINDOW(since, '1 day', '1 day', '6 hours')) x",
    ),
    _feature(
        "Columns",
        "`*`, and `* EXCEPT`",
        "SELECT * FROM r JOIN u ON r.b = u.c",
        "SELECT r.*, d FROM r JOIN u ON r.b = u.c",
    ),
    _feature(
        "Columns",
        "`* REPLACE`, and TABLE",
        "SELECT * REPLACE (b + 1 AS b) FROM r",
        "SELECT r.* EXCEPT (t) REPLACE (-a AS a), d FROM r JOIN u ON r.b = u.c",
        "SELECT a, c FROM s UNION ALL TABLE u",
        "SELECT x.a, n FROM (r JOIN u ON r.b = u.c) AS x (a, k, t, m, n) WHERE k = m",
    ),
    _feature(
        "Columns",
        "names of the select list in items behind them",
        "SELECT a + 1 AS x, x * 2 AS y, x + y AS z FROM r",
        "SELECT t, SUM(b) AS s, s + COUNT(*) AS x FROM r GROUP BY t",
        "SELECT b AS a, a + 1 AS c FROM r",
        "SELECT a, ROW_NUMBER() OVER (ORDER BY a) AS n, n % 2 AS odd FROM r QUALIFY odd = 1",
    ),
)
