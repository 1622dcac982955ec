"""Commands about several views: what is wrong with one of them keeps them from no other."""

import json
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from headwater.errors import HeadwaterError, InputError, SeveralError
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from tests.cli.commands import quick
from tests.pipeline.small import AMOUNTS, NAMES, Small

SHARES = "CREATE MATERIALIZED VIEW shares AS SELECT id, 60 / (amount - 30) AS n FROM shop.orders"


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def run_once(small: Small) -> None:
    api.keep_running(Runner(small.project, no_spark), once=True, stop=threading.Event())


@pytest.fixture
def small(tmp_path: Path) -> Small:
    made = Small(tmp_path / "p", {"amounts": AMOUNTS, "names": NAMES, "shares": SHARES})
    run_once(made)
    return made


def test_all_views_are_folded_though_one_cannot_be(small: Small) -> None:
    small.write("shop", "INSERT INTO orders VALUES (3, 30, 'c', 'new')")
    small.write("crm", "INSERT INTO customers VALUES (2, 'Ben')")
    with pytest.raises(HeadwaterError, match="shares"):
        run_once(small)
    with pytest.raises(HeadwaterError, match="plain table of shares stays"):
        quick("fold", *small.arguments)
    assert all(small.warehouse.view(view).at().is_published for view in ("amounts", "names"))
    folded = [json.loads(line) for line in _lines("fold", "names", "amounts", "--json", small)]
    assert folded == [{"view": v, "folded": False} for v in ("names", "amounts")]


def test_one_bad_file_keeps_commands_from_no_other_view(small: Small) -> None:
    small.view_file("names").write_text("CREATE MATERIALIZED VIEW names AS SELEC id")
    verified = quick("verify", *small.arguments)
    assert verified.code == 1
    assert "✓ amounts" in verified.out
    assert "✗ names cannot be verified: The project has no view names. Its file has a mistake" in (
        " ".join(verified.out.split())
    )
    assert quick("verify", "amounts", *small.arguments).code == 0
    assert [line.split(":")[0] for line in _lines("fold", small)] == [
        "✓ amounts",
        "✓ names",
        "✓ shares",
    ]
    with pytest.raises(InputError, match="Its file has a mistake"):
        quick("explain", "names", *small.arguments)
    assert _lines("explain", "amounts", small)[0].startswith("amounts, by ")
    with pytest.raises(SeveralError, match=r"names\.sql:1"):
        quick("explain", *small.arguments)
    assert _lines("drop", "names", "shares", small)[0] == "✓ names: its tables are gone"


def test_status_tells_of_a_bad_file_and_of_views_that_are_not_loaded(small: Small) -> None:
    small.view_file("names").write_text("CREATE MATERIALIZED VIEW names AS SELEC id")
    small.view_file("later").write_text(AMOUNTS.replace("amounts", "later"))
    found = json.loads(quick("status", "--json", *small.arguments).out)
    assert "names.sql:1" in found["trouble"]
    states = {name: view["state"] for name, view in found["views"].items()}
    assert states == {
        **dict.fromkeys(("amounts", "names", "shares"), "not running"),
        "later": "not loaded",
    }


def _lines(*arguments: str | Small) -> list[str]:
    """What a command prints; the project is named last."""
    *words, small = arguments
    assert isinstance(small, Small)
    return quick(*map(str, words), *small.arguments).out.splitlines()
