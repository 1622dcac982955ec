from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import ALL, PART, QUICK, renewed

PAGES = sorted((Path(__file__).parent.parent.parent / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_generated_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert renewed(text, QUICK) == text, "run 'make docs'"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_generated_part_has_a_generator_and_is_filled(page: Path) -> None:
    for match in PART.finditer(page.read_text(encoding="utf-8")):
        assert match[2] in ALL
        assert "| ---" in match[0], f"{match[2]} is empty: run 'make docs'"
