"""The fault table: every row names a test that there is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "faults.md"
SHOWN = re.findall(r"\| `(tests/[\w/]+\.py)::(\w+)(?:\[.*\])?` \|$", PAGE.read_text(), re.MULTILINE)


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    headings = [row for row in rows if row.startswith("| what happens")]
    assert len(rows) - len(headings) == len(SHOWN) > 100


@pytest.mark.parametrize(("path", "name"), SHOWN, ids=[name for _, name in SHOWN])
def test_the_test_of_a_row_is_there(path: str, name: str) -> None:
    assert re.search(rf"^def {name}\b", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"
