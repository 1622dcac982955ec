"""What parties of the rings say survives the wire, and what does not fit is refused."""

from random import Random

import pytest

from headwater.algorithms.away_node import AwayNode
from headwater.algorithms.hosted import Did, Hosted, Told
from headwater.algorithms.registry import algorithm, make_hosted
from headwater.lab.generate import Shape, generate
from headwater.lab.lives import Lives, LivesWorld
from headwater.nodes.codec import Parcel, Reader, Writer, read
from headwater.nodes.frames import FrameError
from headwater.protocol.events import Idled


def said(seed: int, name: str) -> tuple[Lives, list[Told | Did]]:
    """Everything that is said in a random run."""
    shape = Shape("source-local", relations=3, sources=2, transactions=5, terms=1 + seed % 2)
    scenario = generate(seed, shape)
    host = make_hosted(algorithm(name), scenario.view, {})
    assert isinstance(host, Hosted)
    away = Hosted(host.warehouse, host.nodes, host.restless, frozenset(scenario.view.sources))
    lives = Lives(scenario, away, {s: AwayNode(n) for s, n in host.nodes.items()})
    world: LivesWorld = lives.start()
    found: list[Told | Did] = []
    random = Random(seed)
    while enabled := lives.enabled(world):
        found += [message for sent in world.to_nodes for message in sent]
        found += [message for sent in world.to_host for message in sent]
        world, _ = lives.step(world, random.choice(enabled))
    return lives, list(dict.fromkeys(found))


@pytest.mark.parametrize("name", ["rings", "rings-star"])
def test_all_that_is_said_survives_the_wire(name: str) -> None:
    for seed in range(20):
        lives, messages = said(seed, name)
        view = lives.scenario.view
        for message in messages:
            writer = Writer(view)
            told = writer.told(message) if isinstance(message, Told) else writer.did(message)
            parcel = Parcel.of(Parcel({"said": told}, writer.blobs).to_bytes())
            reader = Reader(view, parcel.blobs)
            make = reader.told if isinstance(message, Told) else reader.did
            assert make(parcel.head["said"]) == message


def test_damaged_messages_are_refused_whatever_is_damaged() -> None:
    lives, messages = said(1, "rings")
    random = Random(1)
    view = lives.scenario.view
    for message in [m for m in messages if isinstance(m, Did)]:
        writer = Writer(view)
        told = writer.did(message)
        payload = bytearray(Parcel({"said": told}, writer.blobs).to_bytes())
        payload[random.randrange(len(payload))] ^= 1 << random.randrange(8)

        def make(damaged: bytes = bytes(payload)) -> Did:
            parcel = Parcel.of(damaged)
            return Reader(view, parcel.blobs).did(parcel.head["said"])

        try:
            assert isinstance(read(make), Did)  # the digest of a frame tells that it is another
        except FrameError:
            continue


def test_rows_of_other_columns_are_refused() -> None:
    lives, _ = said(1, "rings")
    reader = Reader(lives.scenario.view, [b""])
    event = ["transaction", "x:1", ["x"], [["nothing", [["A"], 0]]]]
    with pytest.raises(FrameError, match="cannot be read"):
        read(lambda: reader.told({"epoch": [1], "event": event}))


def test_an_event_without_rows_is_read() -> None:
    lives, _ = said(1, "rings")
    found = Reader(lives.scenario.view, []).told({"epoch": [1, 2], "event": ["idled"]})
    assert found == Told((1, 2), Idled())
