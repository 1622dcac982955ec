"""What comes to the runner's port and should not: refused in a sentence, and nothing else stops."""

import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from headwater import __version__
from headwater.algebra.schema import Relation
from headwater.errors import HeadwaterError, InputError, RefusedError
from headwater.nodes import beside, link, listening
from headwater.nodes.beside import NodeProcess
from headwater.nodes.settings import of_node
from headwater.pipeline.runner import Runner
from headwater.project.project import open_source
from headwater.project.settings import FILE, nodes_settings, read_document
from headwater.storage.location import Location
from tests.cli.commands import quick
from tests.nodes.certificates import certificates
from tests.nodes.processes import free_port, with_nodes
from tests.pipeline.small import LIMIT_S, Small, supervised, wait_until
from tests.warehouse.test_small import no_spark

SELECT = "SELECT o.amount, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.id"
VIEWS = {
    "v": f"CREATE MATERIALIZED VIEW v USING rings-star AS {SELECT}",
    "others": "CREATE MATERIALIZED VIEW others AS SELECT id, amount FROM shop.orders",
}


class Shop(Small):
    """A small project whose crm has a node of its own."""

    def __init__(self, folder: Path, nodes: str = "") -> None:
        super().__init__(folder, VIEWS)
        self.port = free_port()
        with_nodes(folder, self.port, "crm", nodes=nodes)

    @property
    def amounts(self) -> set[object]:
        return {amount for amount, _ in self.rows("v")}

    def update(self, amount: int) -> None:
        self.write("shop", f"UPDATE orders SET amount = {amount} WHERE id = 1")


class Node:
    """A node process in a thread."""

    def __init__(self, folder: Path, source: str = "crm") -> None:
        path = folder / FILE
        settings = nodes_settings(path, read_document(path))
        meeting = partial(of_node, settings, folder, Location.of(folder / "warehouse"), __version__)
        self.said: list[tuple[str, str]] = []
        self.failure: HeadwaterError | None = None
        self._stop = threading.Event()
        process = NodeProcess(
            source, meeting, partial(open_source, folder, source), lambda *s: self.said.append(s)
        )
        self._thread = threading.Thread(target=self._run, args=(process,), daemon=True)
        self._thread.start()

    def _run(self, process: NodeProcess) -> None:
        try:
            process.run(self._stop)
        except HeadwaterError as error:
            self.failure = error

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def has_said(self, part: str) -> bool:
        return any(part in sentence for _, sentence in self.said)


@contextlib.contextmanager
def node(folder: Path, source: str = "crm") -> Iterator[Node]:
    found = Node(folder, source)
    try:
        yield found
    finally:
        found.stop()


@contextlib.contextmanager
def runner_of(shop: Shop) -> Iterator[Runner]:
    with supervised(Runner(shop.project, no_spark)) as runner:
        yield runner


def is_running(runner: Runner, view: str = "v") -> bool:
    return runner.views[view].state == "running"


def relations_of(shop: Shop) -> list[Relation]:
    return [r for s in shop.project.sources.values() for r in s.relations().values()]


def refused(runner: Runner) -> str:
    return str(runner.describe()["nodes"]["refused"])


@pytest.mark.parametrize(
    ("bytes_", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no frame of Headwater's"),
        (b"hwnd\x07", "version 7 of the nodes' protocol"),
        (b"hwnd\x01\xff\xff\xff\xff" + bytes(32), "was announced"),
        (b"hwnd\x01\0\0\0\x02" + bytes(32) + b"{}", "damaged"),
    ],
)
def test_garbage_is_refused_and_the_view_goes_on(tmp_path: Path, bytes_: bytes, why: str) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path):
        wait_until(lambda: is_running(runner))
        with socket.create_connection(("127.0.0.1", shop.port)) as stranger:
            stranger.sendall(bytes_)
            wait_until(lambda: why in refused(runner), lambda: refused(runner))
            while stranger.recv(4096):
                pass  # the challenge; then it is closed
        shop.update(11)
        wait_until(lambda: shop.amounts == {11})


def test_who_says_nothing_is_left_after_a_while(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path):
        wait_until(lambda: is_running(runner))
        with socket.create_connection(("127.0.0.1", shop.port)):
            wait_until(lambda: "did not introduce itself in time" in refused(runner))


def test_many_who_say_nothing_do_not_keep_a_node_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "INTRODUCTION_S", 2 * LIMIT_S)  # nobody leaves by itself
    shop = Shop(tmp_path)
    with runner_of(shop) as runner:
        silent = [socket.create_connection(("127.0.0.1", shop.port)) for _ in range(80)]
        with node(tmp_path):
            wait_until(lambda: is_running(runner))
        for each in silent:
            each.close()


def test_a_node_that_is_not_there_is_named_and_other_views_go_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop) as runner:
        wait_until(lambda: is_running(runner, "others"))
        wait_until(lambda: "Run 'headwater node crm'" in runner.views["v"].message)
        assert "The node of crm is not connected" in runner.views["v"].message
        wait_until(lambda: quick("status", *shop.arguments).code == 1)
        assert "node of crm: not connected" in quick("status", *shop.arguments).out
        with node(tmp_path):
            wait_until(lambda: is_running(runner))
            assert runner.describe()["nodes"]["sources"]["crm"]["address"].startswith("127.")
            wait_until(lambda: "node of crm: connected" in quick("status", *shop.arguments).out)


def test_check_and_explain_say_where_the_nodes_are(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    assert "'headwater node crm'" in quick("explain", "v", *shop.arguments).out
    assert "'headwater node crm'" in quick("check", "--json", *shop.arguments).out
    assert "headwater node" not in quick("explain", "others", *shop.arguments).out


def test_a_second_node_waits_and_takes_over(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path) as first:
        wait_until(lambda: is_running(runner))
        with node(tmp_path) as second:
            wait_until(lambda: second.has_said("has a node already"))
            first.stop()
            wait_until(lambda: second.has_said("v: begins"))
            shop.update(12)
            wait_until(lambda: shop.amounts == {12})


def test_a_wrong_secret_ends_the_node_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODES_SECRET", "the right secret, which is long")
    shop = Shop(tmp_path, "secret = '${NODES_SECRET}'")
    with runner_of(shop) as runner:
        monkeypatch.setenv("NODES_SECRET", "another secret, which is long")
        with node(tmp_path) as wrong:
            wait_until(lambda: wrong.failure is not None)
            assert "same secret" in str(wrong.failure)
            assert "secret, which" not in str(wrong.failure) + str(runner.describe())
        monkeypatch.setenv("NODES_SECRET", "the right secret, which is long")
        with node(tmp_path):
            wait_until(lambda: is_running(runner))


def test_a_node_of_a_source_that_has_none_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop), node(tmp_path, "shop") as wrong:
        wait_until(lambda: wrong.failure is not None)
        assert "has no source shop with a node of its own" in str(wrong.failure)


def test_a_node_beside_another_database_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "here")
    there = tmp_path / "there"
    shutil.copytree(shop.folder, there)
    key = shop.folder / "warehouse" / "_headwater" / "nodes.key"
    with runner_of(shop) as runner:
        shutil.copy(key, there / "warehouse" / "_headwater")
        with node(there) as wrong:
            wait_until(lambda: "beside another database" in runner.views["v"].message)
            wait_until(lambda: wrong.has_said("beside another database"))
            assert runner.views["v"].state == "waiting"
            with node(shop.folder):  # the other one leaves it the place
                wait_until(lambda: is_running(runner))


def test_a_node_knows_tables_as_they_are_when_a_view_begins(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path):
        wait_until(lambda: is_running(runner))
        shop.update(11)
        wait_until(lambda: shop.amounts == {11})
        columns = "(id INTEGER PRIMARY KEY, name INTEGER)"
        insertion = "INSERT INTO customers VALUES (1, 7)"
        shop.write("crm", "DROP TABLE customers", f"CREATE TABLE customers {columns}", insertion)
        wait_until(lambda: runner.views["v"].is_stopped)
        assert quick("repair", "crm", *shop.arguments).code == 0
        shop.update(12)
        wait_until(
            lambda: shop.rows("v") == {(12, 7)} or runner.views["v"].is_stopped,
        )
        assert shop.rows("v") == {(12, 7)}, runner.views["v"].message


def test_a_view_that_a_table_does_not_fit_asks_no_node(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    view = shop.project.definition("v", relations_of(shop)).view
    source = shop.project.sources["crm"]
    read = beside._Read(source.narrowed({"customers": frozenset({"id", "name"})}))
    read.check(view)
    shop.write("crm", "ALTER TABLE customers RENAME COLUMN name TO called")
    read.check(view)  # as it was described first; the connection finds out
    with pytest.raises(RefusedError, match="table customers is not as view v knows it"):
        beside._Read(source).check(view)


def test_a_node_whose_connection_fails_at_the_last_moment_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError("no more files")]

    def made(*parts: Any) -> link.Link:
        if failures:
            raise failures.pop()
        return link.Link(*parts)

    monkeypatch.setattr(listening, "Link", made)
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path):
        wait_until(lambda: is_running(runner))
    assert not failures


def test_a_view_that_is_loaded_anew_begins_at_its_nodes_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path) as beside:
        wait_until(lambda: is_running(runner))
        assert quick("reload", "v", *shop.arguments).code == 0
        shop.update(13)
        wait_until(lambda: shop.amounts == {13})
        shop.view_file("v").write_text(
            VIEWS["v"].replace("o.amount, c.name", "o.amount + 1 AS amount, c.name")
        )
        assert quick("reload", "v", *shop.arguments).code == 0
        shop.update(20)
        wait_until(lambda: shop.amounts == {21})
        assert sum("v: begins" in sentence for _, sentence in beside.said) >= 3


def test_a_node_that_is_not_heard_of_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "SILENT_S", 1.0)
    monkeypatch.setattr(link, "_PING_S", 5.0)  # nobody says anything by itself
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path) as beside:
        wait_until(lambda: beside.has_said("has not been heard of") or beside.has_said("closed"))
        monkeypatch.setattr(link, "_PING_S", 0.2)
        wait_until(lambda: is_running(runner))
        shop.update(14)
        wait_until(lambda: shop.amounts == {14})


def test_a_node_that_sleeps_while_another_takes_over_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "SILENT_S", 2.0)
    monkeypatch.setattr(link, "_PING_S", 0.2)
    receive, awake, sleeping = link.Link._receive, threading.Event(), set[link.Link]()
    known: list[link.Link] = []

    def receive_awake(self: link.Link) -> bool:
        known.append(self)
        if self in sleeping:
            awake.wait()
        return receive(self)

    monkeypatch.setattr(link.Link, "_receive", receive_awake)
    shop = Shop(tmp_path)
    with runner_of(shop) as runner, node(tmp_path) as sleeper:
        wait_until(lambda: is_running(runner))
        sleeping |= {each for each in known if each._name.startswith("The runner")}
        assert sleeping
        with node(tmp_path) as substitute:
            try:
                wait_until(lambda: substitute.has_said("v: begins"))
                shop.update(15)
                wait_until(lambda: shop.amounts == {15})
            finally:
                awake.set()
            wait_until(lambda: sleeper.has_said("has a node already"))
            shop.update(16)
            wait_until(lambda: shop.amounts == {16})


def test_run_once_without_its_node_ends_with_the_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.nodes import switchboard

    monkeypatch.setattr(switchboard, "GRACE_S", 0.5)
    shop = Shop(tmp_path)
    with pytest.raises(HeadwaterError, match="node of crm is not connected"):
        shop.project.run(once=True)


# Settings


def test_other_addresses_need_a_secret(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    path = shop.folder / FILE
    path.write_text(path.read_text().replace("127.0.0.1:", "0.0.0.0:"))
    with pytest.raises(InputError, match="needs a secret, or certificate"):
        shop.project  # noqa: B018 (opening is what is refused)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("secret = 'short'", "at least 16"),
        ("certificate = 'a.pem'", "all three"),
        ("connect = 'nowhere'", "HOST:PORT"),
        ("connect = 'warehouse.example:7440'", "needs a secret"),
    ],
)
def test_what_is_not_safe_is_refused(tmp_path: Path, nodes: str, why: str) -> None:
    shop = Shop(tmp_path, nodes)
    with pytest.raises(InputError, match=why):
        shop.project  # noqa: B018 (opening is what is refused)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    taken = socket.create_server(("127.0.0.1", shop.port))
    try:
        with pytest.raises(HeadwaterError, match="cannot listen for nodes"):
            Runner(shop.project, no_spark).start()
    finally:
        taken.close()


# TLS


def test_certificates_of_both_sides_are_enough(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", "certificate = 'cert.pem'\nkey = 'key.pem'\nauthorities = 'ca.pem'")
    certificates(shop.folder)
    certificates(shop.folder, "-strange")
    with runner_of(shop) as runner, node(shop.folder) as beside:
        wait_until(lambda: is_running(runner), lambda: beside.said)
        shop.update(15)
        wait_until(lambda: shop.amounts == {15})
        context = ssl.create_default_context(cafile=shop.folder / "ca.pem")
        context.load_cert_chain(shop.folder / "cert-strange.pem", shop.folder / "key-strange.pem")
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", shop.port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as stranger,
        ):
            assert stranger.recv(4096) == b""
        wait_until(lambda: "TLS" in refused(runner), lambda: refused(runner))
        settings = shop.folder / FILE
        for name in ("cert", "key"):
            settings.write_text(
                settings.read_text().replace(f"'{name}.pem'", f"'{name}-strange.pem'")
            )
        with node(shop.folder) as strange:
            wait_until(lambda: strange.has_said("does not take this node's certificate"))
        shop.update(16)
        wait_until(lambda: shop.amounts == {16})


def test_a_key_that_needs_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path, certificates(tmp_path))
    key, pem = tmp_path / "key.pem", serialization.Encoding.PEM
    found = serialization.load_pem_private_key(key.read_bytes(), None)
    kept = serialization.BestAvailableEncryption(b"a password of some length")
    key.write_bytes(found.private_bytes(pem, serialization.PrivateFormat.PKCS8, kept))
    with node(tmp_path) as beside:
        wait_until(lambda: beside.failure is not None)
        assert "the key is encrypted" in str(beside.failure)
    with pytest.raises(InputError, match="the key is encrypted"):
        Runner(shop.project, no_spark)
