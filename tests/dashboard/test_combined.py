from headwater.dashboard.combined import combined
from headwater.dashboard.health import SILENT_S, lives, unready
from tests.dashboard.described import NOW, source, stored, told, view


def test_what_a_runner_tells_is_newer_than_what_is_stored() -> None:
    found = combined(stored(), told())
    assert found["views"]["amounts"]["number"] == 9
    assert found["views"]["amounts"]["vector"]["shop"]["number"] == 7
    assert found["views"]["amounts"]["tail"]["rows"] == 3  # only files know
    assert found["sources"]["shop"]["end"] == 7
    assert found["sources"]["shop"]["retained"]["bytes"] == 4096


def test_what_was_wrong_and_is_not_any_more_is_gone() -> None:
    before = stored()
    before["views"]["amounts"] |= {"message": "It waits.", "rows_read": {"shop.orders": 4}}
    before["sources"]["shop"]["trouble"] = "It is away."
    found = combined(before, told())
    assert found["views"]["amounts"]["message"] == ""
    assert "rows_read" not in found["views"]["amounts"]
    assert found["sources"]["shop"]["trouble"] is None


def test_without_a_runner_everything_is_as_stored() -> None:
    assert combined(stored(), None) == stored()


def test_a_view_that_was_never_loaded_makes_a_runner_unready() -> None:
    new = view(state="loading", number=None)
    assert unready(combined({}, told(views={"new": new}))) == ["new cannot be read yet: loading"]


def test_a_view_that_waits_for_its_source_can_be_read() -> None:
    waiting = view(state="waiting", message="Source shop: it is away.")
    sources = {"shop": source(trouble="it is away")}
    assert unready(combined(stored(), told(views={"amounts": waiting}, sources=sources))) == []


def test_a_runner_that_says_nothing_for_long_does_not_live() -> None:
    assert lives(NOW, NOW + 1)
    assert not lives(NOW, NOW + SILENT_S)
    assert not lives(None, NOW)
