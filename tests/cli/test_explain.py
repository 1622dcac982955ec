"""`headwater explain`: what is stored, what is looked up, and how what is shown is computed."""

import json
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.project.example import make_project
from tests.cli.commands import quick

BY_NAME = (
    "CREATE MATERIALIZED VIEW by_name AS SELECT c.name, count(*) AS n, sum(l.price) AS paid "
    "FROM crm.customers c JOIN shop.orders o ON o.customer = c.id "
    "JOIN shop.lines l ON l.order_id = o.id GROUP BY c.name HAVING count(*) > 1"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    make_project(folder)
    (folder / "views" / "by_name.sql").write_text(BY_NAME)
    (folder / "views" / "names.sql").write_text(
        "CREATE MATERIALIZED VIEW names AS SELECT DISTINCT name FROM order_lines"
    )
    return folder


def _told(project: Path, view: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(quick("explain", view, "--json", "-p", str(project)).out)
    return found


def test_what_is_looked_up_when_a_table_changes(project: Path) -> None:
    assert [one for one in _lookups(project) if one[0] == "crm.customers"] == [
        ("crm.customers", "shop.orders", ("customer",)),
        ("crm.customers", "shop.lines", ("order_id",)),
    ]


def _lookups(project: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    found = _told(project, "order_lines")["lookups"]
    assert isinstance(found, list)
    return [(one["changed"], one["asked"], tuple(one["by"])) for one in found]


def test_the_steps_from_what_is_stored_to_what_is_shown(project: Path) -> None:
    text = quick("explain", "by_name", "-p", str(project)).out
    assert "the sum of l.price for each c.name" in " ".join(text.split())
    assert "COUNT(*), SUM(l.price) for each c.name" in text
    assert "rows where COUNT(*) > 1" in text
    assert "Not loaded yet" in text


def test_views_that_a_view_reads_are_named(project: Path) -> None:
    assert _told(project, "names")["over_views"] == ["order_lines"]


def test_a_plain_join_stores_what_it_shows(project: Path) -> None:
    assert (
        "What is stored is what is shown."
        in quick("explain", "order_lines", "-p", str(project)).out
    )


def test_a_view_that_is_not_there_is_told_with_those_that_are(project: Path) -> None:
    with pytest.raises(InputError, match=r"no view 'nosuch'\. There are big_orders, by_name"):
        quick("explain", "nosuch", "-p", str(project))


def test_when_a_view_would_be_recomputed_is_told_by_table(project: Path) -> None:
    told = _told(project, "order_lines")
    recompute = told["recompute"]
    assert isinstance(recompute, dict)
    assert (recompute["when"], recompute["measured"]) == ("when cheaper", False)
    tables = told["tables"]
    assert isinstance(tables, dict)
    assert set(recompute["from_rows"]) == set(tables)
    text = quick("explain", "order_lines", "-p", str(project)).out
    assert "It is recomputed when so much waits that a load is quicker, by estimate" in " ".join(
        text.split()
    )
