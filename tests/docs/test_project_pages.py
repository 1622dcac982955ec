"""The pages on configuration and views say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import BOOL, DATE, INT, TEXT, decimal_type
from headwater.errors import InputError
from headwater.project.project import Project
from headwater.project.setting_values import parse_duration
from headwater.project.view_files import read_view_file

DOCS = Path(__file__).parents[2] / "docs"
VIEWS = (DOCS / "views.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
ORDERS = Schema.of(
    [("id", INT), ("customer", INT), ("placed", DATE), ("total", decimal_type(10, 2))]
)
CUSTOMERS = Schema.of([("id", INT), ("name", TEXT), ("vip", BOOL)])
RELATIONS = [
    Relation("shop.orders", "shop", ORDERS, ("id",)),
    Relation("crm.customers", "crm", CUSTOMERS, ("id",)),
]
EXAMPLES = re.findall(r"^```sql\n(.*?)^```$", VIEWS, re.MULTILINE | re.DOTALL)
(SETTINGS,) = re.findall(r"^```toml\n(.*?)^```$", CONFIGURATION, re.MULTILINE | re.DOTALL)


def test_the_example_settings_and_views_are_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DSN", "postgresql://127.0.0.1:1/nothing")
    (tmp_path / "headwater.toml").write_text(SETTINGS, encoding="utf-8")
    for at, example in enumerate(EXAMPLES):
        folder = tmp_path / ("functions" if example.startswith("CREATE FUNCTION") else "views")
        folder.mkdir(exist_ok=True)
        (folder / f"{at}.sql").write_text(example, encoding="utf-8")
    project = Project.open(tmp_path)
    definitions = project.definitions(RELATIONS)
    chosen = {name: project.choose(found).algorithm for name, found in definitions.items()}
    assert chosen == {
        "order_lines": "sweep",
        "vip_orders": "pvm-cc",
        "dear_orders": "sweep",
        "vip_totals": "sweep",
        "goes_wrong": "conventional",
        "finance": "sweep",
    }


def test_the_example_of_a_mistake_is_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (message,) = re.findall(r"`(views/.*?: .*?)`", VIEWS)
    path = Path("views/order_lines.sql")
    path.parent.mkdir()
    path.write_text(EXAMPLES[0].replace("c.name", "c.nam"), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_view_file(path).define(RELATIONS)
    assert caught.value.message == message


def test_the_examples_of_durations_are_durations() -> None:
    examples = re.findall(r'`"(\d+ [a-z]+)"`', CONFIGURATION)
    assert len(examples) >= 6
    assert all(parse_duration(example) > 0 for example in examples)
