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
    assert "What is stored is what is shown." in _shown(project)


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
    text = _shown(project)
    assert "It is recomputed when so much waits that a load is quicker, by estimate" in " ".join(
        text.split()
    )


def _shown(project: Path) -> str:
    """What explain prints, with single blanks."""
    lines = quick("explain", "order_lines", "-p", str(project)).out.splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def _using(project: Path, using: str) -> dict[str, object]:
    """What is told of the cost of the one algorithm that maintains a view."""
    file = project / "views" / "order_lines.sql"
    file.write_text(file.read_text().replace("WITH STRONG CONSISTENCY", f"USING {using}"))
    costs = _told(project, "order_lines")["costs"]
    assert isinstance(costs, list)
    (chosen,) = (each for each in costs if each["chosen"])
    assert chosen["out"] is None
    found: dict[str, object] = chosen
    return found


def test_what_using_names_is_weighed_with_the_parameters_that_the_file_gives(project: Path) -> None:
    assert _using(project, "sweep (batch = 3)")["parameters"] == {"batch": "3"}
    assert "● sweep (batch = 3)" in _shown(project)


def test_what_is_taken_by_name_only_is_weighed_where_it_is_named(project: Path) -> None:
    estimated = _using(project, "copies")["estimated"]
    assert isinstance(estimated, dict)
    assert (estimated["messages"], estimated["bytes"]) == (0, 0)
    text = _shown(project)
    assert "● copies" in text
    assert "not conventional, rings, rings-star: is taken only where USING names it" in text


def test_what_nodes_do_is_not_estimated(project: Path) -> None:
    assert _using(project, "rings-star")["estimated"] is None
    assert "● rings-star" in _shown(project)


def test_the_table_of_costs_is_whole_in_a_narrow_terminal(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "66")
    _using(project, "pvm-cc (handle = posse, policy = adjacent)")
    text = _shown(project)
    heads = next(line for line in text.splitlines() if line.startswith("algorithm"))
    assert heads.split() == ["algorithm", "messages", "bytes", "time", "measured"]
    assert "ms" in text.partition("○ not")[0]
