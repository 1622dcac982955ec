"""A node over HTTP: what is answered, to whom, and what strangers can do."""

import json
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.sharing import Peer
from headwater.sharing.answers import Access, Answer, Answers, Asked
from headwater.sharing.offers import read_lines
from headwater.sharing.serving import Bounds, Served
from tests.sharing.far_peers import TOKEN, served
from tests.sharing.genes import owners, rename

LIMIT_S = 120.0
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """N1's, with private things that nobody is to have."""
    n1, *_ = owners(tmp_path)
    rename(n1)
    (tmp_path / "N1" / "arriving").mkdir()
    (tmp_path / "N1" / "arriving" / "secret.jsonl").write_text("secret")
    return tmp_path / "N1"


def answered(folder: Path, path: str, method: str = "GET", **headers: str) -> Answer:
    asked = Asked(method, path, HEADERS | headers)
    answer = Answers(Peer(folder), Access(TOKEN)).answer(asked)
    if answer.file is not None:
        answer.file.close()
    return answer


# What there is


def test_a_node_says_who_it_is_and_nothing_of_its_policy_or_of_whom_it_trusts(folder: Path) -> None:
    found = json.loads(answered(folder, "/node.json").body)
    assert found.keys() == {"headwater", "node", "system", "key"}


def test_a_listing_says_of_each_object_its_size_its_maker_and_what_it_is(folder: Path) -> None:
    addresses = answered(folder, "/objects/").body.decode().split()
    assert set(addresses) == Peer(folder).files.addresses()
    for address in addresses:
        listed = read_lines(answered(folder, f"/objects/{address[:2]}/").body, address[:2])
        (found,) = [each for each in listed if each.address == address]
        path = Peer(folder).files.path(address)
        assert found.size == path.stat().st_size
        assert found.head == path.read_bytes().splitlines()[1]
        assert found.maker == json.loads(path.read_bytes().splitlines()[0])["maker"]


def test_what_is_damaged_is_listed_without_what_it_is(folder: Path) -> None:
    address = sorted(Peer(folder).files.addresses())[0]
    Peer(folder).files.path(address).write_bytes(b"no object")
    listed = read_lines(answered(folder, f"/objects/{address[:2]}/").body, address[:2])
    assert [each.head for each in listed if each.address == address] == [b""]


def test_a_part_of_an_object_is_given_from_a_byte_on(folder: Path) -> None:
    address = sorted(Peer(folder).files.addresses())[0]
    path, whole = f"/objects/{address[:2]}/{address}.jsonl", Peer(folder).files.path(address)
    size = whole.stat().st_size
    part = answered(folder, path, range="bytes=10-")
    assert (part.status, part.length) == (206, size - 10)
    assert part.headers["Content-Range"] == f"bytes 10-{size - 1}/{size}"
    assert answered(folder, path, range=f"bytes={size}-").status == 416


@pytest.mark.parametrize(
    "path",
    [
        "/private.key",
        "/held/",
        "/held/Genes.jsonl",
        "/lock",
        "/arriving/secret.jsonl",
        "/objects/../private.key",
        "/objects/%2e%2e/private.key",
        "/objects/ab/../../private.key",
        "/objects/ab/../../held/Genes.jsonl",
        "//etc/passwd",
        "/objects/ab/{address}.jsonl",
        "/objects/{part}/{address}.jsonl/../../../private.key",
        "/objects/{part}/{address}.jsonl\x00",
        "/objects/{part}/{address}.jsonl?x",
        "/objects/AB/",
        "http://elsewhere/node.json",
        "",
    ],
)
def test_nothing_else_has_a_path(folder: Path, path: str) -> None:
    address = next(a for a in sorted(Peer(folder).files.addresses()) if not a.startswith("ab"))
    asked = path.replace("{address}", address).replace("{part}", address[:2])
    assert answered(folder, asked).status == 404


def test_an_object_that_is_a_link_is_not_given(folder: Path, tmp_path: Path) -> None:
    address = sorted(Peer(folder).files.addresses())[0]
    path = Peer(folder).files.path(address)
    path.unlink()
    path.symlink_to(folder / "private.key")
    assert answered(folder, f"/objects/{address[:2]}/{address}.jsonl").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_objects_are_only_read(folder: Path, method: str) -> None:
    assert answered(folder, "/node.json", method).status == 405


# Who asks


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
@pytest.mark.parametrize("path", ["/node.json", "/objects/", "/objects/ab/", "/nothing"])
def test_without_the_token_nothing_is_told(folder: Path, shown: str, path: str) -> None:
    answer = answered(folder, path, authorization=shown)
    assert answer.status == 401
    assert b"N1" not in answer.body


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:7", 200), ("localhost:7", 200), ("[::1]:7", 200), ("evil.example:7", 403)],
)
def test_without_a_token_a_page_that_names_this_machine_otherwise_learns_nothing(
    folder: Path, host: str, status: int
) -> None:
    answers = Answers(Peer(folder), Access())
    assert answers.answer(Asked("GET", "/node.json", {"host": host})).status == status


# Strangers


def said(url: str, content: bytes) -> bytes:
    """What is answered to these bytes until the other side has closed."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        found = b""
        with suppress(ConnectionError):  # it may close before it has read everything
            connection.sendall(content)
            while more := connection.recv(1 << 16):
                found += more
        return found


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense\r\n\r\n",
        b"GET /node.json HTTP/9.9\r\n\r\n",
        b"POST /node.json HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /node.json HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_next_is_answered(
    folder: Path, content: bytes
) -> None:
    with served(folder) as url:
        assert re.match(rb"HTTP/1.1 (4|5)\d\d |\{", said(url, content))
        good = f"GET /node.json HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        assert said(url, good).startswith(b"HTTP/1.1 200")


def test_a_request_that_is_too_large_or_too_slow_ends_its_connection(folder: Path) -> None:
    with served(folder, bounds=Bounds(request_bytes=2000, request_s=0.5)) as url:
        large = b"GET / HTTP/1.1\r\nX: " + b"y" * 5000
        assert said(url, large) == b""
        assert said(url, b"GET / HTTP/1.1\r\nX: ") == b""


def test_more_connections_than_there_is_room_for_are_sent_away(folder: Path) -> None:
    with served(folder, bounds=Bounds(connections=1, request_s=LIMIT_S)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as first:
            first.sendall(b"GET /node.json HTTP/1.1\r\n")
            assert said(url, b"").startswith(b"HTTP/1.1 503")
            first.sendall(b"\r\n")
            assert first.recv(12) == b"HTTP/1.1 401"


def test_who_asks_and_does_not_listen_is_given_up(folder: Path) -> None:
    address = "ab" * 32
    path = folder / "objects" / "ab" / f"{address}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * (32 << 20))
    told: list[Served] = []
    bounds = Bounds(answer_s=0.2, least_bytes_per_s=1e12)
    with served(folder, bounds=bounds, told=told) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as deaf:
            line = (
                f"GET /objects/ab/{address}.jsonl HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            )
            deaf.sendall(line.encode() + b"\r\n\r\n")
            deadline = time.monotonic() + LIMIT_S
            while not told:
                assert time.monotonic() < deadline
                time.sleep(0.02)


def test_who_waits_does_not_hold_up_the_end(folder: Path) -> None:
    with served(folder) as url:
        host, port = url.removeprefix("http://").split(":")
        waiting = socket.create_connection((host, int(port)), timeout=LIMIT_S)
    with waiting:
        assert waiting.recv(1) == b""
    assert not [each for each in threading.enumerate() if each.name.startswith("share serve")]
