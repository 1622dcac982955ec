"""Rewriting: the updategrams paper's examples, and what its steps do."""

from __future__ import annotations

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import FLOAT, INT, TEXT, Type
from headwater.check.levels import Level
from headwater.errors import InputError
from headwater.lab.run import run
from headwater.lab.scenario import scenario_from_json
from headwater.lab.schedules import seeded
from headwater.lab.simulate import simulate
from headwater.mediation import rewriting
from headwater.mediation.binding import Answer, bind
from headwater.protocol.trace import Sent
from tests.mediation.random_settings import schema_of


def relation(name: str, *columns: tuple[str, Type], key: tuple[str, ...] = ()) -> Relation:
    return Relation(name, name.partition(".")[0], Schema.of(columns), key)


GENES = relation(
    "lab.Genes", ("GeneID", INT), ("GeneName", TEXT), ("ChromosomeLocus", TEXT), key=("GeneID",)
)
MEDIATOR = """
CREATE TABLE GeneNames (GeneID INT, GeneName STRING);
CREATE TABLE GeneLoci (GeneID INT, Locus STRING);
CREATE SOURCE VIEW lab.Genes AS
SELECT N.GeneID, GeneName, Locus AS ChromosomeLocus
FROM GeneNames AS N, GeneLoci AS L
WHERE N.GeneID = L.GeneID
"""
EXAMPLE = """SELECT N.GeneID, GeneName, Locus AS ChromosomeLocus
FROM GeneNames AS N, GeneLoci AS L
WHERE N.GeneID = L.GeneID"""


def answer(schema: str, query: str, *relations: Relation) -> Answer:
    found = schema_of(schema)
    return bind(found, found.read_in(query), relations).answer(query)


def flat(sql: str) -> str:
    return " ".join(sql.split())


def test_example_4_1_one_row_tells_one_row_of_each_virtual_relation() -> None:
    row = (7, "BRCA2", "13q13.1")
    state = {"lab.Genes": Rows.of(GENES.schema, [row, (8, None, "1p36"), (9, "TP53", None)])}
    for query, wanted in (
        ("SELECT GeneID, GeneName FROM GeneNames", {(7, "BRCA2"), (8, None), (9, "TP53")}),
        ("SELECT GeneID, Locus FROM GeneLoci", {(7, "13q13.1"), (8, "1p36"), (9, None)}),
    ):
        found = answer(MEDIATOR, query, GENES)
        shown = evaluate_shown(parse_view(found.sql, [GENES]), state)
        assert set(shown) == wanted
        assert all(shown.count(each) == 1 for each in wanted)


def test_example_4_1_a_row_without_a_gene_id_tells_nothing() -> None:
    plain = relation("lab.Genes", *zip(GENES.schema.names, GENES.schema.types, strict=True))
    found = answer(MEDIATOR, "SELECT GeneName FROM GeneNames", plain)
    state = {"lab.Genes": Rows.of(GENES.schema, [(None, "BRCA2", "13q13.1"), (9, "TP53", None)])}
    assert set(evaluate_shown(parse_view(found.sql, [plain]), state)) == {("TP53",)}


def test_example_4_2_the_view_is_the_base_relation() -> None:
    """Genes is read once, so that a change of it is one change of the view."""
    found = answer(MEDIATOR, EXAMPLE, GENES)
    assert flat(found.sql) == (
        'SELECT t1."GeneID" AS "GeneID", t1."GeneName" AS "GeneName", '
        't1."ChromosomeLocus" AS "ChromosomeLocus" FROM "lab"."Genes" AS t1'
    )
    view = parse_view(found.sql, [GENES])
    assert [occurrence.relation.name for occurrence in view.joins[0].occurrences] == ["lab.Genes"]
    assert view.top is None


def test_example_4_2_one_change_at_the_source_is_one_change_of_the_view() -> None:
    """Nothing is asked, and the view changes once; over both relations it would be twice."""
    scenario = scenario_from_json(
        {
            "relations": {
                "Genes": {
                    "source": "lab",
                    "columns": {"GeneID": "int", "GeneName": "text", "ChromosomeLocus": "text"},
                    "key": ["GeneID"],
                    "rows": [[1, "TP53", "17p13.1"]],
                }
            },
            "view": answer(MEDIATOR, EXAMPLE, GENES).sql,
            "transactions": [
                {
                    "id": "T1",
                    "updates": [{"relation": "Genes", "insert": [7, "BRCA2", "13q13.1"]}],
                }
            ],
        }
    )
    done = run(simulate(scenario, "sweep"), seeded(1))
    assert done.verdict.level == Level.COMPLETE
    assert [len(state) for state in done.trace.states] == [1, 2]
    assert not any(isinstance(entry, Sent) for entry in done.trace.entries)


def test_without_a_key_rows_of_one_gene_meet_each_other() -> None:
    plain = relation("lab.Genes", *zip(GENES.schema.names, GENES.schema.types, strict=True))
    found = answer(MEDIATOR, EXAMPLE, plain)
    state = {"lab.Genes": Rows.of(plain.schema, [(1, "a", "x"), (1, "b", "y")])}
    shown = set(evaluate_shown(parse_view(found.sql, [plain]), state))
    assert shown == {(1, n, at) for n in "ab" for at in "xy"}


# Steps

R = relation("p.r", ("a", INT), ("b", INT))
S = relation("p.s", ("a", INT))
TWO = "CREATE TABLE m (a INT, b INT, c INT);"


def test_a_value_that_is_not_told_reaches_no_reader() -> None:
    schema = f"{TWO} CREATE SOURCE VIEW p.r AS SELECT a, b FROM m"
    with pytest.raises(InputError, match=r"no source can ever answer.*c of m by source view p\.r"):
        answer(schema, "SELECT a, c FROM m", R)
    assert answer(schema, "SELECT a, b FROM m", R).sql


def test_an_unknown_value_that_two_atoms_share_joins_them() -> None:
    schema = (
        "CREATE TABLE m (a INT, b INT); CREATE TABLE n (b INT, c INT);"
        "CREATE SOURCE VIEW p.r AS SELECT m.a, n.c AS b FROM m JOIN n ON m.b = n.b"
    )
    found = answer(schema, "SELECT m.a, n.c FROM m JOIN n ON m.b = n.b", R)
    (clause,) = found.rewriting.clauses
    assert [atom.relation for atom in clause.atoms] == ["p.r"]
    with pytest.raises(InputError, match="no source can ever answer"):
        answer(schema, "SELECT m.a, n.c FROM m JOIN n ON m.b = n.c", R)


def test_what_a_description_says_of_an_unknown_value_is_used() -> None:
    schema = f"{TWO} CREATE SOURCE VIEW p.r AS SELECT a, b FROM m WHERE c < 10"
    assert "WHERE" not in answer(schema, "SELECT a FROM m WHERE c < 20", R).sql
    assert answer(schema, "SELECT a FROM m WHERE c IS NOT NULL", R).sql
    with pytest.raises(InputError, match="no source can ever answer"):
        answer(schema, "SELECT a FROM m WHERE c < 5", R)


def test_descriptions_that_contradict_a_query_are_left_out() -> None:
    schema = (
        f"{TWO} CREATE SOURCE VIEW p.r AS SELECT a, b FROM m WHERE b < 10 AND c = 1;"
        "CREATE SOURCE VIEW p.s AS SELECT a FROM m WHERE c = 2 AND b = 30"
    )
    assert "p" in answer(schema, "SELECT a FROM m WHERE b > 20", R, S).sql
    assert '"r"' not in answer(schema, "SELECT a FROM m WHERE b > 20", R, S).sql
    assert '"r"' not in answer(schema, "SELECT a FROM m WHERE c = 2", R, S).sql


def test_a_row_that_its_description_excludes_tells_nothing() -> None:
    schema = f"{TWO} CREATE SOURCE VIEW p.r AS SELECT a, b FROM m WHERE b < 10"
    state = {"p.r": Rows.of(R.schema, [(1, 5), (2, 15), (3, None)])}
    found = answer(schema, "SELECT a FROM m", R)
    assert set(evaluate_shown(parse_view(found.sql, [R]), state)) == {(1,)}


def test_a_join_that_adds_nothing_is_left_out() -> None:
    schema = (
        "CREATE TABLE m (a INT, b INT); CREATE SOURCE VIEW p.r AS SELECT a, b FROM m;"
        "CREATE SOURCE VIEW p.s AS SELECT a FROM m WHERE b = 1"
    )
    found = answer(schema, "SELECT x.a FROM m AS x, m AS y WHERE x.a = y.a", R, S)
    assert sorted(len(clause.atoms) for clause in found.rewriting.clauses) == [1, 1]
    assert found.rewriting.contained


def test_rows_found_in_two_ways_are_shown_once_and_stay_while_one_is_left() -> None:
    schema = (
        "CREATE TABLE m (a INT); CREATE SOURCE VIEW p.s AS SELECT a FROM m;"
        "CREATE VIEW m AS SELECT a FROM p.r"
    )
    view = parse_view(answer(schema, "SELECT a FROM m", R, S).sql, [R, S])
    both = {"p.r": Rows.of(R.schema, [(1, 2)]), "p.s": Rows.of(S.schema, [(1,)])}
    one = {**both, "p.s": Rows.empty(S.schema)}
    assert dict(evaluate_shown(view, both).items()) == {(1,): 1}
    assert dict(evaluate_shown(view, one).items()) == {(1,): 1}


def test_parts_that_cannot_meet_are_not_compared() -> None:
    keyed = relation("p.r", ("a", INT), ("b", INT), key=("a",))
    other = relation("q.r", ("a", INT), ("b", INT), key=("a",))
    schema = (
        "CREATE TABLE m (shop STRING, a INT);"
        "CREATE SOURCE VIEW p.r AS SELECT a FROM m WHERE shop = 'p';"
        "CREATE SOURCE VIEW q.r AS SELECT a FROM m WHERE shop = 'q'"
    )
    assert "DISTINCT" not in answer(schema, "SELECT shop, a FROM m", keyed, other).sql
    assert "DISTINCT" in answer(schema, "SELECT a FROM m", keyed, other).sql


def test_a_foreign_key_tells_that_a_partner_is_there() -> None:
    schema = (
        "CREATE TABLE n (b INT, c INT, PRIMARY KEY (b));"
        "CREATE TABLE m (a INT, b INT, FOREIGN KEY (b) REFERENCES n);"
        "CREATE SOURCE VIEW p.r AS SELECT a, b FROM m"
    )
    found = answer(schema, "SELECT m.a FROM m JOIN n ON m.b = n.b", R)
    assert flat(found.sql).endswith('FROM "p"."r" AS t1 WHERE (t1."b" IS NOT NULL)')


def test_relations_of_sources_may_be_read_beside_mediated_ones() -> None:
    schema = "CREATE TABLE m (a INT, b INT); CREATE SOURCE VIEW p.r AS SELECT a, b FROM m"
    found = answer(schema, "SELECT m.b FROM m JOIN p.s ON s.a = m.a", R, S)
    assert {atom.relation for atom in found.rewriting.clauses[0].atoms} == {"p.r", "p.s"}


def test_computed_columns_are_told_by_a_query() -> None:
    schema = (
        "CREATE TABLE m (a INT, half DOUBLE);"
        "CREATE SOURCE VIEW halves FROM (SELECT a, b / 2 AS half FROM p.r) AS SELECT a, half FROM m"
    )
    state = {"p.r": Rows.of(R.schema, [(1, 5), (2, 4)])}
    view = parse_view(answer(schema, "SELECT a FROM m WHERE half = 2.5", R).sql, [R])
    assert set(evaluate_shown(view, state)) == {(1,)}


# What is refused


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT COUNT(*) AS n FROM m", "groups rows or aggregates"),
        ("SELECT a FROM m ORDER BY a LIMIT 1", "takes the first"),
        ("SELECT m.a FROM m LEFT JOIN p.s ON s.a = m.a", "asks for what is not there"),
        ("SELECT a FROM p.s WHERE a NOT IN (SELECT a FROM m)", "asks for what is not there"),
        ("SELECT a FROM p.s EXCEPT SELECT a FROM m", "asks for what is not there"),
        ("SELECT a, ROW_NUMBER() OVER (ORDER BY a) AS n FROM m", "window function"),
    ],
)
def test_what_is_never_certain_is_refused(query: str, why: str) -> None:
    schema = f"{TWO} CREATE SOURCE VIEW p.r AS SELECT a, b FROM m"
    with pytest.raises(InputError, match=why):
        answer(schema, query, R, S)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("CREATE SOURCE VIEW p.r AS SELECT a, b + 1 AS b FROM m", "is computed from mediated"),
        ("CREATE SOURCE VIEW p.r AS SELECT a, b AS x FROM m", "p.r has no column x"),
        ("CREATE SOURCE VIEW p.s AS SELECT a FROM m UNION SELECT b FROM m", "is a union"),
        ("CREATE SOURCE VIEW p.s AS SELECT COUNT(*) AS a FROM m", "groups rows"),
        ("CREATE SOURCE VIEW p.s AS SELECT a FROM m WHERE 1 = 2", "never hold together"),
        ("CREATE VIEW m AS SELECT a, b AS z FROM p.r", "has no column z"),
        ("CREATE VIEW m (a, a) AS SELECT a, b FROM p.r", "the same"),
        ("CREATE SOURCE VIEW p.f AS SELECT a FROM m", "tells column a as float"),
        ("CREATE TABLE d (x DOUBLE); CREATE VIEW d AS SELECT a AS x FROM p.s", "column x as int"),
    ],
)
def test_descriptions_that_say_nothing_certain_are_refused(schema: str, why: str) -> None:
    floats = relation("p.f", ("a", FLOAT))
    with pytest.raises(InputError, match=why) as caught:
        answer(f"{TWO} {schema}", f"SELECT * FROM {'d' if ' d ' in schema else 'm'}", R, S, floats)
    assert str(caught.value).startswith("schema.sql:1:")


@pytest.mark.parametrize(("tables", "joined"), [(2, 12), (20, 2), (40, 3)])
def test_a_query_with_too_many_answers_is_refused_before_they_are_compared(
    tables: int, joined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "without_contained", None)
    told = [relation(f"p.t{at}", ("a", INT), ("b", INT)) for at in range(tables)]
    listed = (f"; CREATE SOURCE VIEW {each.name} AS SELECT a, b FROM m" for each in told)
    others = (f" JOIN m AS x{at} ON x{at}.a = x{at - 1}.b" for at in range(1, joined))
    with pytest.raises(InputError, match=r"at most 100 can be kept|too many ways"):
        answer(
            f"CREATE TABLE m (a INT, b INT){''.join(listed)}",
            f"SELECT x0.a FROM m AS x0{''.join(others)}",
            *told,
        )


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT COUNT(*) AS a FROM m", "this description groups rows"),
        ("SELECT a FROM m WHERE 1 = 2", "the conditions of this query never hold together"),
    ],
)
def test_a_mistake_in_a_description_is_told_where_it_stands(query: str, why: str) -> None:
    with pytest.raises(InputError, match=rf"^schema\.sql:3:2: {why}"):
        answer(f"{TWO}\nCREATE SOURCE VIEW p.s AS\n {query}", "SELECT a FROM m", S)
