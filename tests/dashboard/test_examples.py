"""The examples of alert rules and of a board ask for what there is."""

import json
import re
from pathlib import Path
from typing import Any

from headwater.dashboard.combined import combined
from headwater.dashboard.metrics import text_of
from tests.dashboard.described import NOW, source, stored, told, view

EXAMPLES = Path("docs/examples")
NAME = re.compile(r"headwater_[a-z_]+")


def names_of_metrics() -> set[str]:
    everything = view(progress={"rows": 5, "of": 10, "left_s": 1.0})
    asked = {"questions": 1, "rounds": 1, "shared": 0}
    found = combined(
        stored(), told(views={"amounts": everything}, sources={"shop": source(asked=asked)})
    )
    found["sources"]["shop"]["retained"] = {"bytes": 1, "rows": 1, "left_bytes": 1}
    return set(NAME.findall(text_of(found, 0, NOW)))


def test_every_alert_is_about_something_that_is_measured() -> None:
    lines = (EXAMPLES / "alerts.yml").read_text().splitlines()
    asked = {name for line in lines if "expr:" in line for name in NAME.findall(line)}
    assert len(asked) > 5
    assert asked <= names_of_metrics()


def test_every_panel_shows_something_that_is_measured() -> None:
    board: dict[str, Any] = json.loads((EXAMPLES / "grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            asked = set(NAME.findall(target["expr"]))
            assert asked, panel["title"]
            assert asked <= names_of_metrics(), panel["title"]
