"""The page in a real browser, beside real runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.pipeline.api import keep_running
from headwater.pipeline.runner import Runner
from tests.dashboard.browser import PHONE, Browser, Page, browser, needs_browser
from tests.dashboard.commands import Serving
from tests.dashboard.http import served
from tests.dashboard.test_server import no_spark
from tests.pipeline.small import AMOUNTS, NAMES, NOTES, Small

pytestmark = needs_browser
PAIRS = (
    "CREATE MATERIALIZED VIEW pairs AS SELECT o.id, c.name "
    "FROM shop.orders o JOIN crm.customers c ON o.id = c.id"
)
STATES = "[...document.querySelectorAll('.node.view .state')].map((each) => each.innerText)"
RUNS = f"{STATES}.length > 0 && {STATES}.every((state) => state === 'running')"
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


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


def test_the_page_survives_a_runner_that_is_killed_and_started_again(
    small: Small, page: Page
) -> None:
    with run(small) as first:
        page.go(first.address)
        page.waits_for(RUNS)
        first.kill()
        page.waits_for_text("no connection since")
        small.write("shop", "INSERT INTO orders VALUES (3, 30, 'c', 'new')")
        with run(small, first.address.partition("//")[2]) as second:
            page.waits_for_text(f"process {second.process.pid}")
            page.waits_for(RUNS)


def test_a_warehouse_without_a_runner_is_shown_with_what_it_has(small: Small, page: Page) -> None:
    keep_running(Runner(small.project, no_spark), once=True, stop=threading.Event())
    with Serving("dashboard", "--listen", "127.0.0.1:0", *small.arguments) as running:
        page.go(f"{running.address}/#/view/amounts/versions")
        page.waits_for_text("no runner is at work")
        page.waits_for_text("load")
        page.go(f"{running.address}/#/view/amounts/definition")
        page.waits_for_text("Maintained by sweep")
        assert AMOUNTS in page.text


def test_text_from_elsewhere_is_never_markup(small: Small, page: Page) -> None:
    small.view_file("notes").write_text(NOTES)
    small.write("shop", "UPDATE orders SET note = '<img src=x onerror=alert(1)><b>bold</b>'")
    keep_running(Runner(small.project, no_spark), once=True, stop=threading.Event())
    with Serving("dashboard", "--listen", "127.0.0.1:0", *small.arguments) as running:
        page.go(f"{running.address}/#/view/notes/rows")
        page.waits_for_text("<img src=x onerror=alert(1)><b>bold</b>")
        assert page.does("document.querySelectorAll('main img, main b').length") == page.does(
            "document.querySelectorAll('#charts b').length"
        )


def test_the_page_fits_a_phone_and_is_light_or_dark(small: Small, page: Page) -> None:
    keep_running(Runner(small.project, no_spark), once=True, stop=threading.Event())
    with Serving("dashboard", "--listen", "127.0.0.1:0", *small.arguments) as running:
        page.looks("light", PHONE)
        page.go(f"{running.address}/#/view/pairs/definition")
        page.waits_for_text("Maintained by")
        assert page.does(FITS)
        light = page.does("getComputedStyle(document.body).backgroundColor")
        page.looks("dark", PHONE)
        dark = page.does("getComputedStyle(document.body).backgroundColor")
        assert light != dark
        page.does("document.getElementById('theme').click()")
        assert page.does("getComputedStyle(document.body).backgroundColor") == light
        page.does("localStorage.clear()")


def test_everything_that_can_be_followed_has_a_name(small: Small, page: Page) -> None:
    """For those who hear the page, and those who use no mouse."""
    from headwater.dashboard.board import Board

    with served(Board(small.folder)) as address:
        page.go(f"{address}/#/view/amounts")
        page.waits_for("document.querySelector('.tabs a')")
        unnamed = (
            "[...document.querySelectorAll('a, button, svg[role=img], progress')]"
            ".filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim())).length"
        )
        assert page.does(unnamed) == 0
        assert page.does("document.querySelectorAll('h1').length") == 1
        assert page.does("document.documentElement.lang") == "en"
