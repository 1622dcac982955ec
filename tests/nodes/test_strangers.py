"""What comes to the runner's port and should not: refused in a sentence, and nothing else stops."""

import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headwater import __version__
from headwater.errors import HeadwaterError, InputError
from headwater.nodes import link
from headwater.nodes.beside import NodeProcess
from headwater.nodes.settings import of_node
from headwater.pipeline.runner import Runner
from headwater.project.project import open_source
from headwater.project.settings import FILE, nodes_settings, read_document
from headwater.storage.location import Location
from tests.cli.commands import quick
from tests.nodes.processes import free_port, with_nodes
from tests.pipeline.small import Small, supervised, wait_until
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
        silent = [socket.create_connection(("127.0.0.1", shop.port)) for _ in range(40)]
        wait_until(lambda: is_running(runner))
        silent.append(socket.create_connection(("127.0.0.1", shop.port)))
        wait_until(lambda: "did not introduce itself in time" in refused(runner))
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
        with node(there):
            wait_until(lambda: "beside another database" in runner.views["v"].message)
            assert runner.views["v"].state == "stopped"


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


def certificates(folder: Path, name: str = "") -> str:
    """A certificate for this machine, signed by an authority of its own; the settings for it."""
    now = datetime.now(UTC)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nodes")])

    def built(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    root = built(issuer, authority).add_extension(x509.BasicConstraints(True, 0), critical=True)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = root.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    root = root.add_extension(identifier, critical=False)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    leaf = built(subject, own).add_extension(names, critical=False)
    leaf = leaf.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    pem = serialization.Encoding.PEM
    (folder / f"ca{name}.pem").write_bytes(root.sign(authority, hashes.SHA256()).public_bytes(pem))
    (folder / f"cert{name}.pem").write_bytes(
        leaf.sign(authority, hashes.SHA256()).public_bytes(pem)
    )
    (folder / f"key{name}.pem").write_bytes(
        own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return "certificate = 'cert.pem'\nkey = 'key.pem'\nauthorities = 'ca.pem'"


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
        shop.update(16)
        wait_until(lambda: shop.amounts == {16})
