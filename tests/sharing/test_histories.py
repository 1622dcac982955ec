"""Warehouses and nodes that are put back, copied and made anew in random order, and peers that meet
them and each other: what a peer shows was so in one of the histories, and never a mixture."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from headwater.algebra.rows import Rows
from headwater.sharing import SharingError, SharingNode
from headwater.sharing.lives import offset_of
from headwater.sharing.publishing import publish_warehouse
from tests.sharing.homes import Home, R

STEPS = 60
PARTS = ("warehouse", "share")


class Histories:
    """One or two places of one warehouse, with backups, and three peers."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder, self.random = folder, random
        self.homes = [Home(folder / "home")]
        self.homes[0].load([(0, "loaded")])
        self.note(self.homes[0], 0)
        self.backups: list[Home] = []
        self.truth: dict[int, set[Rows]] = {}
        """For each version what the view was there, in any history."""
        self.peers = [SharingNode.create(folder / name, name, durable=False) for name in "ABC"]
        self.row = 0

    def note(self, home: Home, number: int) -> None:
        """Remember with the warehouse what its view was at a number."""
        file = home.folder / "warehouse" / "states.json"
        known = json.loads(file.read_text()) if file.exists() and number else {}
        known[str(number)] = sorted(home.rows)
        file.write_text(json.dumps(known))

    # What may happen

    def happen(self) -> None:
        home = self.random.choice(self.homes)
        for _ in range(self.random.randint(1, 3)):
            some = self.random.randint(1, 2)
            rows = [(self.row + at + 1, f"{home.folder.name}") for at in range(some)]
            self.row += some
            home.happen(*rows)
            number = home.warehouse.view("v").latest().vector["x"].number
            self.note(home, number)

    def publish(self, *, anew: bool = False) -> None:
        home = self.random.choice(self.homes)
        each, verify = self.random.random() < 0.5, anew or self.random.random() < 0.5
        done = publish_warehouse(
            home.node.catalog, home.warehouse, each_transaction=each, verify=verify, anew=anew
        )
        assert not done.refused
        offset = offset_of(home.node.catalog.description, "x")
        states = json.loads((home.folder / "warehouse" / "states.json").read_text())
        for number, rows in states.items():
            self.truth.setdefault(int(number) + offset, set()).add(Rows.of(R.schema, rows))

    def begin_anew(self) -> None:
        self.publish(anew=True)

    def back_up(self) -> None:
        home = self.random.choice(self.homes)
        if (home.folder / "share").exists():
            self.backups.append(home.copied(self.folder / f"backup{len(self.backups)}"))

    def put_back(self) -> None:
        if self.backups:
            parts = self.random.choice([PARTS, PARTS, PARTS, PARTS[:1], PARTS[1:]])
            self.random.choice(self.backups).copied(self.random.choice(self.homes).folder, *parts)

    def copy(self) -> None:
        home = self.homes[0]
        if len(self.homes) == 1 and (home.folder / "share").exists():
            self.homes.append(home.copied(self.folder / "second"))

    def make_anew(self) -> None:
        home = self.random.choice(self.homes)
        shutil.rmtree(home.folder / "warehouse")
        self.row += 1
        home.load([(self.row, "anew")])
        self.note(home, 0)

    def lose_a_file(self) -> None:
        home = self.random.choice(self.homes)
        if (home.folder / "share").exists():
            files = sorted((home.folder / "share" / "objects").rglob("*.jsonl"))
            if files:
                self.random.choice(files).unlink()

    def meet(self) -> None:
        peer = self.random.choice(self.peers)
        others = [each for each in self.peers if each is not peer]
        others += [home.node for home in self.homes if (home.folder / "share").exists()]
        with suppress(SharingError):
            other = self.random.choice(others)
            peer.exchange(other, fetch_only=True, skip_bad=self.random.random() < 0.5)
        self.advance(peer)

    def advance(self, peer: SharingNode) -> None:
        if peer.catalog.contents("v") or peer.held("v") is not None:
            if peer.held("v") is None:
                peer.hold("v")
            peer.advance("v")
            self.check(peer)

    def check(self, peer: SharingNode) -> None:
        held = peer.held("v")
        assert held is not None
        assert held.rows in self.truth[held.versions["x.r"]], "nobody ever had that"
        for listed in peer.catalog.contents("v"):
            with suppress(SharingError):
                at = listed.versions
                assert peer.query("v", at).rows in self.truth[at["x.r"]]
        for updategram in self.random.sample(u := peer.catalog.updategrams("v"), min(len(u), 3)):
            with suppress(SharingError):
                found = peer.query("v", updategram.last).rows
                assert found in self.truth[updategram.last["x.r"]], "nobody ever had that"


ACTIONS = {
    Histories.happen: 8,
    Histories.publish: 8,
    Histories.meet: 10,
    Histories.back_up: 3,
    Histories.put_back: 3,
    Histories.copy: 2,
    Histories.make_anew: 1,
    Histories.lose_a_file: 1,
    Histories.begin_anew: 1,
}


def play(seed: int, folder: Path) -> None:
    random = Random(seed)
    played = Histories(folder, random)
    for _ in range(STEPS):
        (act,) = random.choices(list(ACTIONS), list(ACTIONS.values()))
        act(played)
    for home in played.homes[1:]:
        shutil.rmtree(home.folder)
    del played.homes[1:]
    played.begin_anew()  # what helps in the end, whatever has happened
    home = played.homes[0]
    for peer in played.peers:
        peer.exchange(home.node, fetch_only=True)
        if peer.held("v") is None:
            peer.hold("v")
        peer.advance("v")
        assert peer.query("v").rows == home.rows


@pytest.mark.parametrize("seed", [2, 7, 9, 11])
def test_no_peer_shows_a_mixture_of_histories(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path)


@pytest.mark.stress
def test_no_peer_shows_a_mixture_of_many_histories(tmp_path: Path) -> None:
    for seed in range(12, 100):
        play(seed, tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))
