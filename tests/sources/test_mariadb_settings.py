"""How settings say where a MariaDB server is, and what a project is started with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.errors import SourceError
from headwater.project.start import start_project
from headwater.project.variables import with_variables
from headwater.sources.mariadb.connect import Access
from headwater.sources.mariadb.settings import MariadbSettings, MysqlSettings
from tests.sources.mariadb_harness import MariadbHarness, needs_mariadb


@pytest.fixture
def harness() -> Iterator[MariadbHarness]:
    made = MariadbHarness()
    yield made
    made.close()


def test_a_server_is_named_by_a_connection_string_or_by_its_parts() -> None:
    parts: dict[str, Any] = {"user": "app", "password": "p@ss/word", "database": "my shop"}
    settings = MariadbSettings(kind="mariadb", host="db", **parts)
    assert settings._dsn() == "mariadb://app:p%40ss%2Fword@db:3306/my%20shop"
    access = Access("shop", "mariadb", settings._dsn())
    assert access.database == "my shop"
    assert access._parameters()["password"] == "p@ss/word"
    mistakes: list[dict[str, Any]] = [{}, {"dsn": "mariadb://a@b/c", "user": "a"}]
    for wrong in mistakes:
        with pytest.raises(ValidationError, match="either dsn"):
            MysqlSettings(kind="mysql", **wrong)


def test_a_password_from_the_environment_is_encoded_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "p@ss/w:rd")
    dsn = with_variables("mariadb://app:${SECRET}@localhost:1/shop", "sources.shop.dsn")
    access = Access("shop", "mariadb", dsn)
    assert access._parameters()["password"] == "p@ss/w:rd"
    assert "p@ss" not in repr(access)
    assert "p%40ss" not in repr(access)
    with pytest.raises(SourceError) as error:
        access.connect()
    assert "p@ss" not in str(error.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://a@b/c",
        "mariadb://a:p@ss@host/shop",
        "mariadb://a@b:port/shop",
        "mariadb://a@b/shop?unknown=1",
    ],
)
def test_a_connection_string_that_cannot_be_read_is_explained(dsn: str) -> None:
    with pytest.raises(SourceError, match="connection string"):
        Access("shop", "mariadb", dsn).connect()


def test_a_connection_over_a_network_says_how_it_is_protected() -> None:
    assert Access("s", "mariadb", "mariadb://a@db/shop").is_unprotected
    assert not Access("s", "mariadb", "mariadb://a@db/shop?ssl_ca=ca.pem").is_unprotected
    assert not Access("s", "mariadb", "mariadb://a@localhost/shop").is_unprotected


@needs_mariadb
def test_a_project_starts_from_a_server(tmp_path: Path, harness: MariadbHarness) -> None:
    harness.execute("CREATE TABLE orders (id int PRIMARY KEY, total decimal(10,2))")
    started = start_project(tmp_path / "p", harness.dsn)
    settings = (tmp_path / "p" / "headwater.toml").read_text()
    assert 'kind = "mariadb"' in settings
    assert f"${{{started.variable}}}" in settings
    assert harness.dsn not in settings
    assert "SELECT id, total" in (tmp_path / "p" / "views" / "first.sql").read_text()
