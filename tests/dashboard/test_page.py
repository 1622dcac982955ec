"""The page in a real browser, beside real runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser import Browser, Page, browser, needs_browser
from tests.dashboard.commands import Serving
from tests.pipeline.small import AMOUNTS, NAMES, Small

pytestmark = needs_browser
PAIRS = (
    "CREATE MATERIALIZED VIEW pairs AS SELECT o.id, c.name "
    "FROM shop.orders o JOIN crm.customers c ON o.id = c.id"
)
STATES = "[...document.querySelectorAll('.node.view .state')].map((each) => each.innerText)"
RUNS = f"{STATES}.length > 0 && {STATES}.every((state) => state === 'running')"


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def page(opened: Browser) -> Iterator[Page]:
    opened.complaints.clear()
    found = opened.page()
    found.looks()
    yield found
    complaints = list(found.complaints)
    found.call("Page.close")
    assert complaints == []


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "project", {"amounts": AMOUNTS, "names": NAMES, "pairs": PAIRS})


def run(small: Small, address: str = "127.0.0.1:0") -> Serving:
    return Serving("run", "--serve", address, *small.arguments)


def test_the_page_follows_a_run_and_tells_of_a_source_that_is_away(
    small: Small, page: Page
) -> None:
    with run(small) as running:
        page.go(running.address)
        page.waits_for(RUNS)
        page.waits_for_text("Nothing is wrong.")
        page.go(f"{running.address}/#/view/amounts/rows")
        small.write("shop", "INSERT INTO orders VALUES (3, 31415, 'c', 'new')")
        page.waits_for_text("31415")
        page.go(f"{running.address}/#/view/pairs/moments")
        small.write("shop", "INSERT INTO orders VALUES (4, 40, 'd', 'new')")
        page.waits_for("document.querySelector('.spacetime .transaction')")
        page.waits_for("document.querySelector('.spacetime .answer')")
        (small.folder / "crm.db").rename(small.folder / "away.db")
        page.waits_for_text("source crm")
        assert "Affected: names, pairs" in page.text
        assert "What to do:" in page.text
        assert page.does("document.querySelectorAll('.edge.bad').length") == 2
        (small.folder / "away.db").rename(small.folder / "crm.db")
        page.waits_for_text("Nothing is wrong.")
