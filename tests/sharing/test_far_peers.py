"""Taking over HTTP: what was cut off goes on, and what is not whole or not right is not kept."""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.sharing import (
    DamagedObjectError,
    ForeignObjectError,
    Limits,
    Peer,
    SharingError,
    SharingNode,
)
from headwater.sharing.answers import Answer, Answers, Asked
from headwater.sharing.errors import PeerError
from headwater.sharing.remote import HttpPeer
from headwater.sharing.serving import Bounds, Served
from tests.sharing import meeting_loop
from tests.sharing.far_peers import PERSISTENT, TOKEN, CuttingProxy, far, served
from tests.sharing.genes import GENES, node, owners, rename

LIMIT_S = 300.0


@pytest.fixture
def n1(tmp_path: Path) -> SharingNode:
    found, *_ = owners(tmp_path)
    rename(found)
    return found


def folder_of(at: SharingNode) -> Path:
    return at.catalog.store.folder


def waiting(at: SharingNode) -> set[str]:
    """What has come and is not taken yet."""
    return {path.stem for path in (folder_of(at) / "arriving").glob("*.jsonl")}


def test_a_node_takes_over_http_what_it_lacks_and_then_nothing(
    tmp_path: Path, n1: SharingNode
) -> None:
    n4, told = node(tmp_path, "N4"), list[Served]()
    with served(folder_of(n1), told=told) as url, far(url) as peer:
        assert n4.take(peer).taken == {"node": 3, "relation": 3, "contents": 3, "updategram": 1}
        assert n1.catalog.addresses() < n4.catalog.addresses()
        before = len(told)
        assert n4.take(peer).taken == {}
        assert [each.path for each in told[before:]] == ["/objects/"]
    assert not waiting(n4)


def test_what_has_come_whole_before_a_cut_is_not_asked_for_again(
    tmp_path: Path, n1: SharingNode
) -> None:
    n4, told = node(tmp_path, "N4"), list[Served]()
    (updategram,) = n1.catalog.updategrams("Genes")  # which comes last
    last = n1.catalog.store.path(updategram.address)
    content = last.read_bytes()
    with served(folder_of(n1), told=told) as url, far(url) as peer:
        last.write_bytes(content.replace(b"AFKAP", b"AFKAQ"))
        with pytest.raises(SharingError):
            n4.take(peer)
        come = waiting(n4)
        assert len(n4.catalog.addresses()) == 1, "nothing is kept before everything is there"
        last.write_bytes(content)
        before = len(told)
        n4.take(peer)
    asked = {each.path.rpartition("/")[2] for each in told[before:]}
    assert come
    assert not asked & {f"{address}.jsonl" for address in come}
    assert n1.catalog.addresses() < n4.catalog.addresses()


def test_an_exchange_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, n1: SharingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    n4, told, released = node(tmp_path, "N4"), list[Served](), threading.Event()
    (last,) = n1.catalog.updategrams("Genes")
    answer = Answers.answer

    def held_up(self: Answers, asked: Asked) -> Answer:
        if last.address in asked.path:
            released.wait(LIMIT_S)
        return answer(self, asked)

    monkeypatch.setattr(Answers, "answer", held_up)
    monkeypatch.setenv("HEADWATER_SHARE_TOKEN", TOKEN)
    with served(folder_of(n1), told=told) as url:
        command = [sys.executable, meeting_loop.__file__, str(folder_of(n4))]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write(f"{url}\n")
        process.stdin.flush()
        deadline = time.monotonic() + LIMIT_S
        while len(waiting(n4)) < 9:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.communicate()
        released.set()
        come, before = waiting(n4), len(told)
        with far(url) as peer:
            assert n4.take(peer).count == 10
    asked = {each.path[-70:-6] for each in told[before:]}
    assert not asked & come
    assert not waiting(n4)


def test_a_large_object_goes_on_where_its_connection_was_cut(tmp_path: Path) -> None:
    n1, n4 = node(tmp_path, "N1"), node(tmp_path, "N4")
    rows = [(number, "name" * 20, "locus") for number in range(3000)]
    n1.own("Genes", GENES, rows, key=["GeneID"], publish=True)
    told: list[Served] = []
    with served(folder_of(n1), told=told) as url:
        port = int(url.rpartition(":")[2])
        with (
            CuttingProxy(port, seed=1, share=1.0, most=60_000) as proxy,
            far(proxy.url, patience=PERSISTENT) as peer,
        ):
            n4.take(peer)
            assert proxy.cuts > 3
    assert [each.status for each in told].count(206) > 2
    assert n4.query("Genes").rows == n1.query("Genes").rows


@pytest.mark.parametrize("seed", range(3))
def test_connections_that_are_cut_at_any_byte_change_nothing(
    tmp_path: Path, n1: SharingNode, seed: int
) -> None:
    n4 = node(tmp_path, "N4")
    with served(folder_of(n1)) as url:
        port = int(url.rpartition(":")[2])
        with (
            CuttingProxy(port, seed, share=0.7, most=2000) as proxy,
            far(proxy.url, patience=PERSISTENT) as peer,
        ):
            n4.take(peer)
    assert n1.catalog.addresses() < n4.catalog.addresses()


@pytest.mark.parametrize("seed", range(6))
def test_a_byte_that_is_altered_on_the_way_is_noticed(
    tmp_path: Path, n1: SharingNode, seed: int
) -> None:
    """Wherever it is: in a status, a length, a listing, an object."""
    n4 = node(tmp_path, "N4")
    with served(folder_of(n1), bounds=Bounds(request_s=1.0)) as url:
        port = int(url.rpartition(":")[2])
        with CuttingProxy(port, seed, share=0.9, most=1500, alters=True) as proxy:
            for _ in range(8):
                with suppress(SharingError), far(proxy.url) as peer:
                    n4.take(peer, skip_bad=True)
    n4 = SharingNode.open(folder_of(n4), durable=False)
    for listed in n4.catalog:
        n4.catalog.load(listed.address)
    with served(folder_of(n1)) as url, far(url) as peer:
        n4.take(peer)
    assert n4.catalog.addresses() - n1.catalog.addresses() == {n4_entry(n4)}


def n4_entry(at: SharingNode) -> str:
    (own,) = [listed.address for listed in at.catalog if listed.maker == at.name]
    return own


# What is wrong is one sentence


def test_a_bad_object_leaves_everything_as_it_was_or_is_skipped(
    tmp_path: Path, n1: SharingNode
) -> None:
    n4 = node(tmp_path, "N4")
    (listed,) = n1.catalog.updategrams("Genes")
    path = n1.catalog.store.path(listed.address)
    path.write_bytes(path.read_bytes().replace(b"AFKAP", b"AFKAQ"))
    before = n4.catalog.addresses()
    with served(folder_of(n1)) as url, far(url) as peer:
        with pytest.raises(DamagedObjectError, match=rf"{url}.* is not what its name says"):
            n4.take(peer)
        assert n4.catalog.addresses() == before
        done = n4.take(peer, skip_bad=True)
    assert list(done.refused) == [listed.address]
    assert done.taken == {"node": 3, "relation": 3, "contents": 3}


def test_what_is_judged_bad_is_fetched_anew_when_it_was_put_right(
    tmp_path: Path, n1: SharingNode
) -> None:
    """The same object, first without its maker's signature."""
    n4 = node(tmp_path, "N4")
    (listed,) = n1.catalog.updategrams("Genes")
    path = n1.catalog.store.path(listed.address)
    signed = path.read_bytes()
    line, _, content = signed.partition(b"\n")
    envelope = {k: v for k, v in json.loads(line).items() if k != "signature"}
    path.write_bytes(json.dumps(envelope).encode() + b"\n" + content)
    with served(folder_of(n1)) as url, far(url) as peer:
        with pytest.raises(SharingError, match="is not signed"):
            n4.take(peer)
        path.write_bytes(signed)
        assert n4.take(peer).taken["updategram"] == 1


def test_too_much_is_refused_before_anything_is_transferred(
    tmp_path: Path, n1: SharingNode
) -> None:
    n4, told = node(tmp_path, "N4"), list[Served]()
    with served(folder_of(n1), told=told) as url, far(url) as peer:
        with pytest.raises(SharingError, match=r"--most-megabytes takes more"):
            n4.take(peer, limits=Limits(bytes=1000))
        assert not [each for each in told if each.path.endswith(".jsonl")]
        done = n4.take(peer, limits=Limits(bytes=2500), skip_bad=True)
        assert done.refused
        while done.refused:
            done = n4.take(peer, limits=Limits(bytes=2500), skip_bad=True)
            assert done.taken
    assert n1.catalog.addresses() < n4.catalog.addresses()


def test_what_nobody_went_on_with_makes_room(tmp_path: Path, n1: SharingNode) -> None:
    n4 = node(tmp_path, "N4")
    (folder_of(n4) / "arriving").mkdir()
    old = folder_of(n4) / "arriving" / f"{'0' * 64}.jsonl"
    old.write_bytes(b"x" * 100_000)
    with served(folder_of(n1)) as url, far(url) as peer:
        n4.take(peer)
        assert old.exists()
        rename_back = ((42, "AFKAP", "17q2"), (42, "PRNC", "17q2"))
        n1.update("Genes", modified=[rename_back])
        n4.take(peer, limits=Limits(bytes=50_000))
    assert not old.exists()


def test_another_system_and_ones_own_name_are_refused_at_once(
    tmp_path: Path, n1: SharingNode
) -> None:
    other = SharingNode.create(tmp_path / "other", "N9", "another", durable=False)
    same = SharingNode.create(tmp_path / "same", "N1", "genes", durable=False)
    with served(folder_of(n1)) as url, far(url) as peer:
        for at, message in ((other, "belongs to the system"), (same, "are those of a node N1")):
            with pytest.raises(ForeignObjectError, match=message):
                at.take(peer)


def test_a_wrong_token_and_none_are_told(n1: SharingNode) -> None:
    with served(folder_of(n1)) as url:
        with pytest.raises(PeerError, match="does not accept this token"):
            HttpPeer(url, "another-token-of-somebody")
        with pytest.raises(PeerError, match="asks for a token"):
            HttpPeer(url)


def test_a_peer_that_is_away_is_told(n1: SharingNode) -> None:
    with served(folder_of(n1)) as url:
        pass
    with pytest.raises(PeerError, match=r"is away: connection refused\. Exchange again"), far(url):
        pass


class _Other(BaseHTTPRequestHandler):
    """A server that is not Headwater's."""

    answer = (200, b"<html></html>")

    def do_GET(self) -> None:  # the name that http.server asks for
        status, content = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def other_server(status: int, content: bytes) -> Iterator[str]:
    handler = type("Handler", (_Other,), {"answer": (status, content)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


ABOUT = '{"headwater": 1, "node": "N1", "system": "genes", "key": ""}'


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (200, "<html></html>", "does not answer as a node of Headwater does"),
        (200, "{}", "it has no 'node'"),
        (200, "[" * 100_000, "it is nested too deeply"),
        (200, ABOUT.replace("1", "2", 1), "it speaks protocol 2, not 1"),
        (200, ABOUT + " " * (1 << 20), "has more than 1,048,576 bytes"),
        (404, "", "There is no node of Headwater at"),
        (302, "", "it answers 302"),
        (500, "", "is away: it answers 500"),
    ],
)
def test_what_is_no_node_is_told(status: int, content: str, message: str) -> None:
    with (
        other_server(status, content.encode()) as url,
        pytest.raises(PeerError, match=message),
        far(url),
    ):
        pass


@pytest.mark.parametrize("listing", [b"x", b"\xff", b"<html>", b"0\t1\t\t\n" * 5, b"\n"])
def test_a_listing_that_is_none_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, n1: SharingNode, listing: bytes
) -> None:
    from headwater.sharing import answers

    monkeypatch.setattr(answers.Answers, "_listing", lambda self, part: listing)
    with served(folder_of(n1)) as url, far(url) as peer, pytest.raises(PeerError):
        node(tmp_path, "N4").take(peer)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://a:b@c/",
        "http://h:99999999",
        "http://h/?token=1",
        "https://h#x",
        "http://é",
    ],
)
def test_an_address_that_cannot_be_used_is_not_repeated(url: str) -> None:
    with pytest.raises(InputError) as caught:
        HttpPeer(url)
    assert "a:b" not in str(caught.value)
    assert url not in str(caught.value) or url == "http://"


def test_a_peer_behind_a_path_is_found(tmp_path: Path, n1: SharingNode) -> None:
    """As a proxy may have it that gives several nodes one address."""
    with served(folder_of(n1)) as url:
        inner = url.removeprefix("http://")

        class Passing(_Other):
            def do_GET(self) -> None:
                connection = http.client.HTTPConnection(inner)
                shown = {"Authorization": self.headers["Authorization"]}
                connection.request("GET", self.path.removeprefix("/genes/n1"), headers=shown)
                found = connection.getresponse()
                self.answer = found.status, found.read()
                connection.close()
                super().do_GET()

        with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            with far(f"http://127.0.0.1:{server.server_port}/genes/n1/") as peer:
                node(tmp_path, "N4").take(peer)
            server.shutdown()
            thread.join()


def test_a_peer_of_a_folder_is_taken_as_before(tmp_path: Path, n1: SharingNode) -> None:
    n4 = node(tmp_path, "N4")
    assert n4.take(Peer(folder_of(n1))).count == 10
