"""Words that the parser reads past are refused, with their place."""

import pytest

from headwater.algebra.sql.view import parse_view
from headwater.errors import SqlError
from tests.algebra.sql_features import FEATURES, RELATIONS
from tests.algebra.test_sql_meaning import QUERIES

REFUSED = {
    "SELECT t, SUM(b) AS s FROM r GROUP BY t WITH ROLLUP": "WITH ROLLUP is not supported",
    "SELECT t, SUM(b) AS s FROM r GROUP BY t WITH CUBE": "WITH CUBE is not supported",
    "SELECT t, SUM(b) AS s FROM r GROUP BY t WITH TOTALS": "WITH TOTALS is not supported",
    "SELECT t, SUM(b) AS s FROM r GROUP BY t GROUPING SETS ((t), ())": "stands behind expressions",
    "SELECT r.a FROM r RIGHT ANTI JOIN s ON r.a = s.a": "RIGHT ANTI JOIN is not supported",
    "SELECT r.a FROM r RIGHT SEMI JOIN s ON r.a = s.a": "RIGHT SEMI JOIN is not supported",
    "SELECT r.a FROM r JOIN s ON": "nothing behind ON",
    "SELECT r.a FROM r JOIN s ON WHERE b > 1": "nothing behind ON",
    "SELECT r.a FROM r JOIN s ON LEFT JOIN u ON u.c = s.c": "nothing behind ON",
    "SELECT r.a FROM r LEFT JOIN s ON": "nothing behind ON",
    "SELECT r.a FROM r JOIN s USING ()": "USING names no column",
    "SELECT t FROM r GROUP BY DISTINCT ROLLUP (t), ROLLUP (t)": "GROUP BY DISTINCT",
    "SELECT a FROM r LIMIT 1 BY a": "LIMIT ... BY is not supported",
    "WITH x AS (SELECT a FROM r), X AS (SELECT c FROM s) SELECT * FROM x": "names X twice",
    "SELECT COUNT(*) AS n FROM r GROUP BY": "nothing behind GROUP BY",
    "SELECT t FROM r GROUP BY t,": "nothing behind a comma",
    "SELECT a, FROM r": "nothing behind a comma",
    "SELECT SUM(a) FILTER (b > 1) AS n FROM r": "FILTER has no WHERE",
    "SELECT NTILE(0) OVER (ORDER BY a) AS n FROM r": "NTILE(0) has no buckets",
}


@pytest.mark.parametrize("query", REFUSED)
def test_words_that_would_be_passed_over_are_refused(query: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_view(query, RELATIONS)
    assert REFUSED[query] in str(caught.value)


def test_words_that_only_look_like_it_are_taken() -> None:
    assert len(QUERIES) == sum(len(feature.queries) for feature in FEATURES)
    for query in (
        "SELECT r.a FROM r JOIN s ON LEFT(t, 1) = 'x' AND r.a = s.a",
        "SELECT a AS \"group\", 'on' AS x FROM r WHERE t <> ', '",
        "SELECT t FROM r GROUP BY GROUPING SETS ((t), ())",
    ):
        assert parse_view(query, RELATIONS).shown_schema.columns
