"""Commands about several views: what is wrong with one of them keeps them from no other."""

import json
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from headwater.errors import HeadwaterError, InputError, SeveralError
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from headwater.project.project import Project
from tests.cli.commands import failing, quick
from tests.pipeline.small import AMOUNTS, NAMES, NOTES, Small

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


def test_verify_of_all_names_a_view_that_is_not_loaded(small: Small) -> None:
    small.view_file("late").write_text(AMOUNTS.replace("VIEW amounts", "VIEW late"))
    verified = quick("verify", *small.arguments)
    assert verified.code == 0
    assert "○ late is not loaded yet" in verified.out
    assert "late is" not in quick("verify", "amounts", *small.arguments).out


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
    assert "names.sql:1" in found["views"]["names"]["message"]
    states = {name: view["state"] for name, view in found["views"].items()}
    assert states == {
        **dict.fromkeys(("amounts", "shares"), "not running"),
        "names": "stopped",
        "later": "not loaded",
    }


HEAD = "CREATE MATERIALIZED VIEW"
BAD = {
    "no_header": ("CREATE VIEW no_header", "no_header.sql:1:8"),
    "no_select": (f"{HEAD} no_select AS SELEC 1", "no_select.sql:1:39"),
    "no_table": (f"{HEAD} no_table AS SELECT id FROM nowhere", "no_table.sql:1:53"),
    "no_column": (f"{HEAD} no_column AS SELECT no FROM orders", "no_column.sql:1:46"),
}


def _spoil(small: Small) -> None:
    for name, (text, _) in BAD.items():
        small.view_file(name).write_text(text)


def test_a_run_goes_on_beside_views_with_mistakes_and_tells_all_of_them(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _spoil(small)
    small.write("shop", "INSERT INTO orders VALUES (3, 40, 'c', 'new')")
    done = failing(monkeypatch, capsys, "run", "--once", *small.arguments)
    assert done.code == 1
    assert (3, 40) in small.rows("amounts")
    lines = done.out.splitlines()
    for name, (_, place) in BAD.items():
        assert place in next(line for line in lines if line.startswith(f"{name}: stopped: "))
        assert done.err.count(place) == 1
        assert f"✗ {name}: stopped" in lines
    found = json.loads(quick("status", "--json", *small.arguments).out)["views"]
    for name, (_, place) in BAD.items():
        assert found[name]["state"] == "stopped"
        assert place in found[name]["message"]


def test_one_view_with_a_mistake_is_exit_code_1_since_the_others_run(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small.view_file("no_column").write_text(BAD["no_column"][0])
    assert failing(monkeypatch, capsys, "run", "--once", *small.arguments).code == 1


def test_a_project_in_which_no_view_can_be_used_is_refused_with_all_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = Small(tmp_path / "p")
    for file in small.folder.glob("views/*"):
        file.unlink()
    _spoil(small)
    done = failing(monkeypatch, capsys, "run", "--once", *small.arguments)
    assert (done.code, done.out) == (2, "")
    assert all(done.err.count(place) == 1 for _, place in BAD.values())
    small.view_file("no_column").unlink()
    for command in (["trim"], ["repair", "shop"]):
        assert failing(monkeypatch, capsys, *command, *small.arguments).code == 2


def test_a_view_whose_file_is_bad_for_a_while_misses_nothing(small: Small) -> None:
    text = NOTES.replace("id, note", "id, note, state")
    small.view_file("notes").write_text(text)
    for source in small.project.sources.values():
        source.setup()
    run_once(small)
    small.view_file("notes").write_text("CREATE MATERIALIZED VIEW notes AS SELEC 1")
    small.write("shop", "UPDATE orders SET state = 'sent', amount = 11 WHERE id = 1")
    with pytest.raises(SeveralError, match=r"notes\.sql:1"):
        api.keep_running(
            Runner(Project.open(small.folder, only=()), no_spark), True, threading.Event()
        )
    assert (1, 11) in small.rows("amounts")
    small.view_file("notes").write_text(text)
    runner = Runner(small.project, no_spark)
    api.keep_running(runner, once=True, stop=threading.Event())
    assert small.rows("notes") == {(1, "a", "sent"), (2, "b", "new")}
    assert runner.views["notes"].note == ""  # it was not loaded anew


def test_trim_and_repair_go_on_beside_views_with_mistakes(small: Small) -> None:
    _spoil(small)
    done = quick("trim", *small.arguments)
    assert done.code == 0
    assert "✗ no_select is left out: " in done.out
    small.view_file("no_column").unlink()
    assert "✗ no_select is left out: " in quick("repair", "crm", *small.arguments).out
    small.view_file("names").write_text(BAD["no_select"][0].replace("no_select", "names"))
    with pytest.raises(HeadwaterError, match=r"is set up again, but .*names\.sql:1"):
        quick("repair", "crm", *small.arguments)


def test_what_is_wrong_with_a_group_or_a_name_used_twice_is_told_of_it(
    tmp_path: Path,
) -> None:
    small = Small(tmp_path / "p")
    small.view_file("one").write_text(f"{HEAD} one IN GROUP both AS SELECT id FROM shop.orders")
    small.view_file("two").write_text(f"{HEAD} two IN GROUP both AS SELEC 1")
    small.view_file("amounts2").write_text(AMOUNTS)
    small.view_file("names").rename(small.view_file("other"))
    small.view_file("names").write_text("CREATE VIEW")
    opened = Project.open(small.folder, only=())
    assert set(opened.units) == {"names", "notes"}
    told = {name: str(why).rpartition("/")[2].split(":")[0] for name, why in opened.refused.items()}
    assert told == {
        "names.sql": "names.sql",
        "both": "two.sql",
        "amounts": "amounts.sql already. Names of views differ, also without regard to case.",
    }


def _lines(*arguments: str | Small) -> list[str]:
    """What a command prints; the project is named last."""
    *words, small = arguments
    assert isinstance(small, Small)
    return quick(*map(str, words), *small.arguments).out.splitlines()


def test_a_table_that_only_views_without_a_file_use_is_no_mistake(small: Small) -> None:
    settings = small.folder / "headwater.toml"
    settings.write_text(settings.read_text().replace("relations = ['customers']\n", ""))
    small.view_file("names").unlink()
    small.write("crm", "DROP TABLE customers")
    done = quick("check", *small.arguments)
    assert done.code == 0
    told = "there is no table customers. Only names uses it, of which the file is gone: "
    assert f"{told}headwater drop names" in done.out
    assert quick("drop", "names", *small.arguments).code == 0
    assert "customers" not in quick("check", *small.arguments).out


def test_a_table_that_a_view_names_is_missed_though_a_view_without_a_file_names_it_too(
    small: Small,
) -> None:
    settings = small.folder / "headwater.toml"
    settings.write_text(settings.read_text().replace("relations = ['customers']\n", ""))
    small.view_file("names").rename(small.view_file("called"))
    small.view_file("called").write_text(NAMES.replace("VIEW names", "VIEW called"))
    small.write("crm", "DROP TABLE customers")
    assert quick("check", *small.arguments).code == 2
