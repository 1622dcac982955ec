"""Which loads go together, and what they read."""

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algebra.views import View
from headwater.pipeline.companions import Company, companies, shortened

SCHEMA = Schema.of((name, INT) for name in ("k", "a", "b"))
RELATIONS = [Relation(f"{s}.{r}", s, SCHEMA) for s, r in (("x", "r"), ("x", "s"), ("y", "t"))]


def view(name: str, select: str) -> View:
    return parse_view(select, RELATIONS, name).narrowed()


R = view("of_r", "SELECT r.a FROM x.r AS r")
S = view("of_s", "SELECT s.a FROM x.s AS s")
T = view("of_t", "SELECT t.a FROM y.t AS t")
R_S = view("of_r_and_s", "SELECT r.k, s.b FROM x.r AS r JOIN x.s AS s ON r.k = s.k")


def names(found: list[Company]) -> list[set[str]]:
    return [{view.name for view in company.views} for company in found]


def test_views_that_share_a_relation_go_together_and_others_by_themselves() -> None:
    assert names(companies([R, R_S, T])) == [{"of_r", "of_r_and_s"}]
    assert companies([R, S, T]) == []
    assert companies([]) == []


def test_views_go_together_through_others_in_whatever_order() -> None:
    assert names(companies([R, S, R_S])) == [{"of_r", "of_s", "of_r_and_s"}]
    assert names(companies([R_S, S, T, R])) == [{"of_r", "of_s", "of_r_and_s"}]


def test_what_is_read_is_what_any_of_them_needs() -> None:
    company = Company((R, R_S))
    assert set(company.relations("x")) == {"x.r", "x.s"}
    assert {name: set(found) for name, found in company.columns("x").items()} == {
        "r": {"a", "k"},
        "s": {"k", "b"},
    }
    assert company.relations("y") == ()
    assert company.readers("x.s") == ("of_r_and_s",)


def test_many_names_are_shortened() -> None:
    assert shortened(["a"]) == "a"
    assert shortened("abc") == "a, b, c"
    assert shortened("abcde") == "a, b, c and 2 more"
