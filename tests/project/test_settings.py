from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.project.setting_values import parse_duration
from headwater.project.settings import (
    Problems,
    ProjectError,
    Settings,
    read_document,
    read_settings,
    source_settings,
)
from headwater.project.variables import with_variables
from headwater.sources.postgres.settings import PostgresSettings
from headwater.sources.sqlite.settings import SqliteSettings

CRM = "[sources.crm]\nkind = 'sqlite'\npath = 'crm.db'\nrelations = ['customers']\n"
SHOP = "[sources.shop]\nkind = 'postgres'\ndsn = '${SHOP_DSN}'\nrelations = ['sales.lines']\n"


def read(folder: Path, text: str) -> Settings:
    path = folder / "headwater.toml"
    path.write_text(text, encoding="utf-8")
    problems = Problems()
    settings = read_settings(path, read_document(path), problems)
    problems.raise_any()
    return settings


def refused(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder / 'headwater.toml'}: ")


def test_everything_has_a_default(tmp_path: Path) -> None:
    settings = read(tmp_path, "")
    assert settings.warehouse.path == Path("warehouse")
    assert (settings.warehouse.retention, settings.warehouse.publish_every) == (86400, 60)
    assert (settings.spark.master, settings.spark.engine) == ("local[*]", "auto")
    assert (settings.spark.threshold, settings.spark.settings) == (None, {})
    assert (settings.run.backlog, settings.run.batch, settings.run.in_work) == (10_000, 1000, 4)
    assert settings.sources == {}


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", "postgresql://u:hush@h/d")
    monkeypatch.setenv("LAKE", "lake")
    settings = read(
        tmp_path,
        "[warehouse]\npath = '${LAKE}/views'\nretention = '2 weeks'\n"
        "[spark]\nengine = 'spark'\nthreshold = 5\n[run]\nbatch = 7\n" + CRM + SHOP,
    )
    assert settings.warehouse.path == Path("lake/views")
    assert settings.warehouse.retention == 2 * 7 * 86400
    assert (settings.spark.engine, settings.spark.threshold, settings.run.batch) == ("spark", 5, 7)
    crm, shop = settings.sources["crm"], settings.sources["shop"]
    assert isinstance(crm, SqliteSettings)
    assert isinstance(shop, PostgresSettings)
    assert (crm.names, shop.names) == (("customers",), ("lines",))
    assert shop.dsn.get_secret_value() == "postgresql://u:hush@h/d"
    assert "hush" not in repr(settings)


def test_a_kind_may_be_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", "sqlite")
    crm = read(tmp_path, CRM.replace("'sqlite'", "'${KIND}'")).sources["crm"]
    assert isinstance(crm, SqliteSettings)


def test_each_kind_has_its_words_for_a_position(tmp_path: Path) -> None:
    sources = read(tmp_path, CRM + SHOP.replace("${SHOP_DSN}", "")).sources
    crm, shop = sources["crm"], sources["shop"]
    assert crm.position_text({"seq": 412, "log": "ab"}) == "412"
    assert shop.position_text({"lsn": "0/1A", "snapshot": "7:7:"}) == "0/1A"
    assert shop.position_text({"snapshot": "7:9:8", "token": "t"}) == "7:9:8"
    assert crm.position_text({}) == shop.position_text({}) == ""


def test_keys_may_be_given_with_the_schema_or_without(tmp_path: Path) -> None:
    for name in ("lines", "'sales.lines'"):
        shop = SHOP.replace("${SHOP_DSN}", "") + f"keys = {{{name} = ['id']}}\n"
        assert len(read(tmp_path, shop).sources["shop"].keys) == 1


def test_settings_of_spark_may_be_written_with_or_without_quotes(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "[spark.settings]\nspark.sql.shuffle.partitions = 4\n'spark.ui.enabled' = false\n",
    )
    assert settings.spark.settings == {
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1 day", 86400),
        ("5 seconds", 5),
        ("1 second", 1),
        ("1.5 Hours", 5400),
        ("2min", 120),
        ("250 ms", 0.25),
        (" 3  weeks ", 3 * 7 * 86400),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "seconds", "5 parsecs", "-1 day", "0 seconds", 5, True])
def test_anything_else_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|must be longer"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[warehouse\n", "is not valid TOML: "),
        ("[warehous]\n", "warehous: there is no such setting. Did you mean 'warehouse'? "),
        ("warehouse = 3\n", "warehouse: must be a table. Write [warehouse]."),
        ("[spark]\nmastr = 'x'\n", "spark.mastr: there is no such setting. Did you mean 'master'?"),
        ("[spark]\nengine = 'fast'\n", "spark.engine: should be 'auto' or 'spark'."),
        ("[spark]\nthreshold = -1\n", "spark.threshold: should be greater than or equal to 0."),
        ("[spark]\nsettings = 3\n", "spark.settings: should be a valid dictionary."),
        ("[run]\nbatch = 0\n", "run.batch: should be greater than 0."),
        ("[run]\nin_work = 'x'\n", "run.in_work: should be a valid integer"),
        ("[run]\nbacklog = true\n", "run.backlog: is true or false, and should be a whole number."),
        ("[run]\nbatch = false\n", "run.batch: is true or false, and should be a whole number."),
        ("[run]\nin_work = true\n", "run.in_work: is true or false, and should be a whole number."),
        ("[spark]\nthreshold = true\n", "spark.threshold: is true or false, and should be a whole"),
        (
            SHOP.replace("${SHOP_DSN}", "") + "limit_s = true\n",
            "sources.shop.limit_s: is true or false, and should be a whole number.",
        ),
        ("[warehouse]\nretention = '3'\n", "warehouse.retention: is not a duration: "),
        ("sources = 3\n", "sources: must hold tables. Write [sources.NAME]."),
        ("[sources]\ncrm = 3\n", "sources.crm: must be a table. Write [sources.crm]."),
        ("[sources.crm]\n", "sources.crm.kind: there is no such kind of source. The kinds are: "),
        ("[sources.crm]\nkind = ['sqlite']\n", "sources.crm.kind: there is no such kind"),
        (CRM + "colour = 1\n", "sources.crm.colour: there is no such setting. The settings here"),
        (CRM + "pth = 1\n", "sources.crm.pth: there is no such setting. Did you mean 'path'?"),
        (CRM.replace("path = 'crm.db'\n", ""), "sources.crm.path: is missing. The database file, "),
        (CRM.replace("['customers']", "3"), "sources.crm.relations: should be a valid list"),
        (CRM + "keys = {custmers = ['id']}\n", "sources.crm.keys: has a table that is not in rel"),
        (CRM.replace("crm.db", "${NOT_SET}"), "sources.crm.path: the environment variable NOT_SET"),
        ("[warehouse]\npath = 's3://lake/x?key=y'\n", "warehouse.path: has a secret or options in"),
        ("[warehouse]\npath = 's3:///x'\n", "warehouse.path: names no bucket"),
        ("[warehouse]\npath = 'file:///data'\n", "warehouse.path: is an address of a kind that is"),
        ("[warehouse]\npath = '~/lake'\n", "warehouse.path: starts with ~, which is not replaced"),
        ("[warehouse]\npath = ' '\n", "warehouse.path: is empty: write a path."),
        ('[warehouse]\npath = "a\\u0000b"\n', "warehouse.path: has a NUL, which no path can have"),
        ("[spark]\nmaster = 'lokal'\n", "spark.master: is no place where Spark runs: write local["),
        ("[spark]\nmaster = 'local[0]'\n", "spark.master: is no place where Spark runs: "),
        ("[spark]\nmaster = 'spark:/h:7077'\n", "spark.master: is no place where Spark runs: "),
        ("[spark.settings]\n'driver.memory' = '4g'\n", "spark.settings: driver.memory is no sett"),
        (
            "[spark.settings]\nspark.sql.ansi.enabled = false\n",
            "spark.settings: spark.sql.ansi.ena",
        ),
        (
            CRM.replace("path", "pth"),
            "sources.crm.pth: there is no such setting. Did you mean 'path'",
        ),
        (
            CRM.replace("kind", "knd"),
            "sources.crm.knd: there is no such setting. Did you mean 'kind'",
        ),
        (
            CRM.replace("relations", "relation"),
            "sources.crm.relation: there is no such setting. Did",
        ),
        (
            CRM.replace("sqlite", "sqlit"),
            "sources.crm.kind: there is no such kind of source. Did you",
        ),
        (
            CRM.replace("crm.db", "sqlite:///crm.db"),
            "sources.crm.path: is an address, and only pat",
        ),
        (
            CRM + "keys = {customer = ['id']}\n",
            "sources.crm.keys: has a table that is not in relat",
        ),
        (CRM.replace("[sources.crm]", "[sources.c-rm]"), "sources.c-rm: cannot be the name of a"),
        (CRM + CRM.replace(".crm]", ".CRM]"), "sources.CRM: differs from sources.crm only in case"),
    ],
)
def test_a_mistake_is_one_line_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4]", "local[4, 2]", "local-cluster[2,1,1024]", "yarn", "",
     "spark://h:7077", "spark://a:7077,b:7077", "k8s://https://h:6443"],
)  # fmt: skip
def test_spark_runs_at_every_place_that_spark_knows(tmp_path: Path, master: str) -> None:
    assert read(tmp_path, f"[spark]\nmaster = '{master}'\n").spark.master == master


def test_a_close_name_is_offered_for_where_spark_runs(tmp_path: Path) -> None:
    assert "Did you mean 'local" in refused(tmp_path, "[spark]\nmaster = 'lokal'\n")


def test_a_secret_that_is_too_short_is_told_in_characters_and_not_repeated(tmp_path: Path) -> None:
    said = refused(tmp_path, "[nodes]\nsecret = 'rosebud'\n")
    assert "secret: is too short. It needs at least 16 characters." in said
    assert "rosebud" not in said


def test_a_close_name_is_offered_for_a_table_with_a_key(tmp_path: Path) -> None:
    said = refused(tmp_path, CRM + "keys = {customer = ['id']}\n")
    assert said.endswith("customer; did you mean 'customers'?")


def test_several_mistakes_in_one_table_are_all_told(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        read(tmp_path, "[run]\nbatch = 0\nbach = 1\nin_work = 'x'\n")
    assert [str(p).partition(": ")[2].partition(":")[0] for p in caught.value.problems] == [
        "run.bach",
        "run.batch",
        "run.in_work",
    ]


def test_a_folder_without_settings_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file") as caught:
        read_document(tmp_path / "headwater.toml")
    assert "headwater init" in caught.value.hint


def test_all_mistakes_are_found_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        read(tmp_path, "[run]\nbatch = 0\n[spark]\nengine = 'x'\n" + CRM + "a = 1\n")
    assert len(caught.value.problems) == 3
    assert str(caught.value).count("\n") == 2


@pytest.mark.parametrize("table", ["dsn = 3", "dsn = ['${SECRET}']", "dsn.${SECRET} = 1"])
def test_a_secret_is_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setenv("SECRET", "hush")
    shop = f"[sources.shop]\nkind = 'postgres'\nrelations = ['a']\n{table}\n"
    assert "hush" not in refused(tmp_path, shop)


def test_one_source_is_read_whatever_the_others_are(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text("[run]\nx = 1\n[sources.shop]\nkind = 'x'\n" + CRM)
    assert source_settings(path, read_document(path), "crm").kind == "sqlite"
    with pytest.raises(InputError, match=r"no source 'crn'. Did you mean 'crm'\? There are: shop"):
        source_settings(path, read_document(path), "crn")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("postgresql://app:${PW}@h:1/d", "postgresql://app:a%40b%2F%3Ac@h:1/d"),
        ("postgres://${PW}:x@h/d", "postgres://a%40b%2F%3Ac:x@h/d"),
        ("postgresql://${PAIR}@h/d", "postgresql://app:p%40w@h/d"),
        ("postgresql://h/d?user=u&password=${PW}", "postgresql://h/d?user=u&password=a%40b%2F%3Ac"),
        ("postgresql://u@${PLACE}/d", "postgresql://u@h:5432/d"),
        ("postgresql://u@h/d?${OPTIONS}", "postgresql://u@h/d?a=b&c=d"),
        ("${WHOLE}", "postgresql://u:p%40w@h/d"),
        ("host=h password=${PW}", "host=h password=a@b/:c"),
        ("host=h password=${BLANKS} user=u", r"host=h password='it\'s host=x' user=u"),
        ("host=h password=${ESCAPED}", r"host=h password=a\ b"),
        ("host=h password='${PW}'", "host=h password='a@b/:c'"),
    ],
)
def test_a_value_in_a_uri_is_encoded_where_it_could_end_it(
    monkeypatch: pytest.MonkeyPatch, written: str, expected: str
) -> None:
    values = {
        "PW": "a@b/:c",
        "ESCAPED": r"a\ b",
        "BLANKS": "it's host=x",
        "PAIR": "app:p@w",
        "PLACE": "h:5432",
        "OPTIONS": "a=b&c=d",
        "WHOLE": "postgresql://u:p%40w@h/d",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert with_variables({"dsn": written}, "here") == {"dsn": expected}
