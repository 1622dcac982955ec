"""The worked example of docs/sources/own.md passes the test kit; its entry point is found."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, to_json
from headwater.errors import InputError
from headwater.project.project import open_source
from headwater.sources import kinds
from headwater.testing.channel import ChannelConformance, tables_in
from headwater.testing.harness import Harness
from headwater.testing.published import PublishedDatabase, PublishingWriter, Tables
from headwater.testing.values import ValueConformance
from tests.sources.http_kind import HttpSource


class HttpHarness:
    """A service in this process, empty at first."""

    kind = "http"

    def __init__(self) -> None:
        self._keys: dict[str, Sequence[str]] = {}
        self._versions: list[Tables] = [{}]
        self.database = PublishedDatabase(self._publish)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _publish(self, before: Tables, after: Tables) -> None:
        time.sleep(0.02)  # a service has no more versions in a second
        self._versions.append(after)

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        self._keys[name] = key
        self.database.create_table(name, schema, key)

    def source(self, relations: Sequence[str], **settings: object) -> HttpSource:
        return HttpSource("s", self.url, relations)

    def writer(self) -> PublishingWriter:
        return self.database.writer()

    def contents(self, name: str) -> Counter[Row]:
        return self.database.contents(name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.database.close()

    # What the service says

    def state(self) -> object:
        version = len(self._versions) - 1
        tables = {
            name: {"columns": schema.to_json(), "key": list(self._keys[name])}
            for name, schema in self.database.schemas.items()
        }
        return {"service": "1", "version": version, "tables": tables}

    def rows(self, table: str, version: str) -> object:
        return [_listed(row) for row in self._versions[int(version)][table].elements()]

    def changes(self, after: str) -> object:
        found = []
        last = len(self._versions) - 1
        for version in range(int(after) + 1, last + 1):
            before, now = self._versions[version - 1], self._versions[version]
            changes = {name: _delta(before.get(name, Counter()), now[name]) for name in now}
            found.append({"version": version, "changes": changes})
        return found


def _listed(row: Row) -> object:
    return [to_json(value) for value in row]


def _delta(before: Counter[Row], after: Counter[Row]) -> list[object]:
    counts = Counter(after)
    counts.subtract(before)
    return [[count, _listed(row)] for row, count in counts.items() if count]


def _handler(harness: HttpHarness) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
            said = json.dumps(getattr(harness, parts.path[1:])(**parameters)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *arguments: Any) -> None:
            """Not a word."""

    return Handler


class TestHttpChannel(ChannelConformance):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        with tables_in(HttpHarness()) as made:
            yield made

    def test_setup_can_be_shown_before_it_is_run(self, harness: Harness) -> None:
        assert harness.source(["items", "lines"]).setup_statements() == []  # there is none

    def test_a_subscriber_is_told_why_a_log_ended_also_when_its_channel_is_closed_by_then(
        self, source: Any
    ) -> None:
        """Nothing that a teardown takes away would end it."""


class TestHttpValues(ValueConformance):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        made = HttpHarness()
        yield made
        made.close()


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> Iterator[None]:
    """As if a package were installed that has the entry point."""
    entry = EntryPoint("http-tables", value, kinds.GROUP)

    def entry_points(group: str, name: str = "http-tables") -> list[EntryPoint]:
        return [entry] if (group, name) == (kinds.GROUP, entry.name) else []

    monkeypatch.setattr(kinds, "entry_points", entry_points)
    yield


def test_a_kind_that_is_installed_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = HttpHarness()
    try:
        harness.create_table("items", Schema.from_json([["id", "int"]]))
        settings = f'[sources.shop]\nkind = "http-tables"\nurl = "{harness.url}"\n'
        (tmp_path / "headwater.toml").write_text(settings + 'relations = ["items"]\n')
        (tmp_path / "views").mkdir()
        with pytest.raises(InputError, match="there is no such kind"):
            open_source(tmp_path, "shop")
        with installed(monkeypatch, "tests.sources.http_kind:HttpSettings"):
            assert list(open_source(tmp_path, "shop").relations()) == ["items"]
        for value, words in (
            ("tests.sources.http_kind:Service", "is no model of settings"),
            ("tests.sources.nowhere:Settings", "cannot be loaded"),
        ):
            with installed(monkeypatch, value), pytest.raises(InputError, match=words):
                open_source(tmp_path, "shop")
    finally:
        harness.close()
