"""A view over views of another project is strong only where these have aligned vectors."""

from __future__ import annotations

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT
from headwater.check.levels import Level
from headwater.project.aligned import level_behind
from headwater.sources.contract import Origin

ROWS = Schema.of([("id", INT)])


def relation(name: str) -> Relation:
    return Relation(name, name.split(".")[0], ROWS, ())


def view(*databases: str, level: str = "strong") -> Origin:
    return Origin("v", frozenset(databases), level)


@pytest.mark.parametrize(
    ("origins", "others", "level"),
    [
        ({"lake.a": view("shop")}, [], Level.STRONG),
        ({"lake.a": view("shop"), "lake.b": view("crm")}, ["app.t"], Level.STRONG),
        ({"lake.a": view("shop"), "lake.b": view("shop", "crm")}, [], Level.WEAK),
        ({"lake.a": view("shop")}, ["shop.t"], Level.WEAK),
        ({"lake.a": view("shop", level="convergent")}, [], Level.CONVERGENT),
        ({}, ["app.t"], Level.STRONG),
    ],
    ids=["one", "of other databases", "of one database", "beside it", "of a lower level", "none"],
)
def test_the_level_with_regard_to_what_is_behind(
    origins: dict[str, Origin], others: list[str], level: Level
) -> None:
    relations = [relation(name) for name in [*origins, *others]]
    found, why = level_behind(Level.STRONG, relations, origins)
    assert found == level
    assert bool(why) == (level < Level.STRONG)


def test_what_is_published_is_never_every_state() -> None:
    origins = {"lake.a": view("shop", level="complete")}
    assert level_behind(Level.COMPLETE, [relation("lake.a")], origins)[0] == Level.STRONG


def test_a_level_that_is_low_anyway_is_not_explained() -> None:
    origins = {"lake.a": view("shop"), "lake.b": view("shop")}
    relations = [relation(name) for name in origins]
    assert level_behind(Level.CONVERGENT, relations, origins) == (Level.CONVERGENT, "")
