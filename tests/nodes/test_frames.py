"""Frames and introductions: what is damaged, oversized, old or not trusted ends in a sentence."""

import struct

import pytest

from headwater.nodes.frames import MOST_BYTES, MOST_BYTES_OF_STRANGERS, FrameError, Opener, Sealer
from headwater.nodes.handshake import (
    TO_NODE,
    TO_RUNNER,
    Introduced,
    NodeSide,
    RefusedNodeError,
    RunnerSide,
)

WAY = b"a way"
NODE = Introduced("crm", "file 1")


def opened(*data: bytes, key: bytes = b"") -> list[bytes]:
    opener = Opener(WAY)
    if key:
        opener.trust(key)
    found: list[bytes] = []
    for each in data:
        opener.feed(each)
        found += opener.payloads()
    return found


def test_payloads_come_as_they_were_sent_however_the_bytes_are_cut() -> None:
    sealer = Sealer(WAY)
    data = b"".join(map(sealer.frame, [b"one", b"", b"three"]))
    assert opened(data) == [b"one", b"", b"three"]
    assert opened(*(data[at : at + 1] for at in range(len(data)))) == [b"one", b"", b"three"]


@pytest.mark.parametrize("at", range(41 + 3))
def test_a_damaged_byte_is_noticed_or_waits_for_what_never_comes(at: int) -> None:
    frame = bytearray(Sealer(WAY).frame(b"one"))
    frame[at] ^= 1
    try:
        assert opened(bytes(frame)) == []
    except FrameError:
        return
    assert 5 <= at < 9, "only a length that grew"


def test_what_is_no_frame_is_refused_at_its_first_bytes() -> None:
    for start in (b"G", b"GET / HTTP/1.1", b"\x16\x03\x01", b"\0" * 100):
        with pytest.raises(FrameError, match="no frame"):
            opened(start)


def test_another_version_of_the_protocol_is_named() -> None:
    with pytest.raises(FrameError, match="version 9 of the nodes' protocol"):
        opened(b"hwnd\x09")


def test_strangers_may_not_announce_large_frames() -> None:
    head = struct.pack(">4sBI32s", b"hwnd", 1, MOST_BYTES_OF_STRANGERS + 1, b"\0" * 32)
    with pytest.raises(FrameError, match="was announced"):
        opened(head)
    large = struct.pack(">4sBI32s", b"hwnd", 1, MOST_BYTES + 1, b"\0" * 32)
    with pytest.raises(FrameError, match="was announced"):
        opened(large, key=b"k")


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(FrameError, match="use another algorithm"):
        Sealer(WAY).frame(bytes(MOST_BYTES + 1))


def test_frames_cannot_be_repeated_left_out_or_brought_from_elsewhere() -> None:
    def sealed(key: bytes, way: bytes = WAY) -> list[bytes]:
        sealer = Sealer(way)
        sealer.trust(key)
        return [sealer.frame(b"one"), sealer.frame(b"two")]

    first, second = sealed(b"key")
    assert opened(first, second, key=b"key") == [b"one", b"two"]
    for wrong in ((first, first), (second,), sealed(b"other"), sealed(b"key", b"another way")):
        with pytest.raises(FrameError):
            opened(*wrong, key=b"key")


def meet(runner: bytes = b"s", node: bytes = b"s", release: str = "1") -> None:
    side = RunnerSide(runner, b"r" * 32, "1")
    other = NodeSide(node, b"n" * 32, release, NODE)
    answer = other.introduce(side.challenge())
    try:
        assert side.introduced(answer) == NODE
    except RefusedNodeError as error:
        other.welcomed(side.refusal(error))
    welcome, keys = side.welcome("0a1b2c3d")
    found = other.welcomed(welcome)
    assert (found.owner, found.keys) == ("0a1b2c3d", keys)
    assert keys.to_node != keys.to_runner


def test_both_sides_of_one_secret_trust_each_other() -> None:
    meet()


def test_another_secret_is_refused_with_the_remedy() -> None:
    with pytest.raises(RefusedNodeError, match="same secret in \\[nodes\\]"):
        meet(node=b"t")


def test_a_runner_that_does_not_know_the_secret_is_refused_too() -> None:
    side, other = RunnerSide(b"wrong", b"r" * 32, "1"), NodeSide(b"s", b"n" * 32, "1", NODE)
    with pytest.raises(RefusedNodeError):
        side.introduced(other.introduce(side.challenge()))
    with pytest.raises(RefusedNodeError, match="does not know the secret"):
        other.welcomed(side.welcome("0a1b2c3d")[0])


def test_another_release_is_named() -> None:
    with pytest.raises(RefusedNodeError, match="is release 1 of Headwater, and this is 2"):
        meet(release="2")


def test_the_secret_is_in_nothing_that_is_sent() -> None:
    secret = b"a secret of some length"
    side, other = RunnerSide(secret, b"r" * 32, "1"), NodeSide(secret, b"n" * 32, "1", NODE)
    challenge = side.challenge()
    answer = other.introduce(challenge)
    side.introduced(answer)
    said = challenge + answer + side.welcome("0a1b2c3d")[0]
    assert secret not in said
    assert secret.hex().encode() not in said


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b"{}", b'{"nonce": 1}', b"[" * 9999])
def test_what_cannot_be_read_is_no_introduction(said: bytes) -> None:
    with pytest.raises(FrameError):
        RunnerSide(b"s", b"r" * 32, "1").introduced(said)
    with pytest.raises(FrameError):
        NodeSide(b"s", b"n" * 32, "1", NODE).introduce(said)


def test_the_ways_differ() -> None:
    assert TO_NODE != TO_RUNNER
