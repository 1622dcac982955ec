"""Nodes that meet over HTTP and by folders, are cut off and killed at random, and end equal.

Three nodes own a relation each. N1 and N3 are served over networks that cut connections off; N2 is
met in its folder. N4 is mobile: it owns nothing, meets one of the others now and then, and takes
only what its view needs. Who does what next is drawn from a seed; when a kill arrives is not.
"""

import os
import subprocess
import sys
import threading
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from headwater.sharing import SharingNode, Versions
from tests.sharing import meeting_loop
from tests.sharing.far_peers import TOKEN, CuttingProxy, ServeCommand
from tests.sharing.genes import V1, V2, node, owners
from tests.sharing.test_nodes import random_change, recomputed

OWNERS = {"N1": "Genes", "N2": "Variants", "N3": "Proteins"}
FAR = ("N1", "N3")
MOBILE = "N4"
PASSING = ("PeerError",)
"""What may be wrong with a meeting: the other side is away. Nothing else may ever be."""


class Process:
    """A node's own process, started when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def meet(self, other: str, view: str = "", kill_after_s: float | None = None) -> str:
        """What it says of a meeting; nothing if it was killed before."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(kill_after_s or 0.0, process.kill)
        if kill_after_s is not None:
            timer.start()
        process.stdin.write(f"{other}\t{view}\n")
        process.stdin.flush()
        said = process.stdout.readline().rstrip("\n")
        if kill_after_s is not None:
            timer.join()
            self.end()
        return said

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, meeting_loop.__file__, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "HEADWATER_SHARE_TOKEN": TOKEN},
            )
        return self._process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class System:
    """The nodes, their processes, their servers and the networks before these."""

    def __init__(self, folder: Path, seed: int, bytes_between_cuts: int) -> None:
        self.random, self._folder = Random(seed), folder
        n1, n2, n3 = owners(folder)
        for view, sql in (("V1", V1), ("V2", V2)):
            n1.define(view, sql)
            n1.hold(view)
            n1.publish(view)
        for other in (n2, n3):
            n1.exchange(other)
        node(folder, MOBILE)
        self.processes = {name: Process(folder / name) for name in (*OWNERS, MOBILE)}
        self.servers = {name: ServeCommand(folder / name) for name in FAR}
        self.networks = {
            name: CuttingProxy(server.port, seed, most=bytes_between_cuts)
            for name, server in self.servers.items()
        }

    def close(self) -> None:
        for process in self.processes.values():
            process.end()
        for server in self.servers.values():
            server.kill()
        for network in self.networks.values():
            network.__exit__()

    def node(self, name: str) -> SharingNode:
        return SharingNode.open(self._folder / name, durable=False)

    def step(self) -> None:
        """Something that happens to one of them."""
        name = self.random.choice(list(OWNERS))
        match self.random.choice(["change", "change", "meet", "meet", "kill", "serve", "mobile"]):
            case "change":
                for _ in range(self.random.randint(1, 4)):
                    random_change(self.random, self.node(name), OWNERS[name])
            case "meet":
                self.meet(name, self.random.choice([n for n in OWNERS if n != name]))
            case "kill":
                other = self.random.choice([n for n in OWNERS if n != name])
                self.meet(name, other, kill_after_s=self.random.random() * 0.5)
            case "serve":
                served = self.random.choice(FAR)
                self.servers[served].kill()
                self.servers[served] = ServeCommand(self._folder / served)
                self.networks[served].leads_to = self.servers[served].port
            case "mobile":
                self.meet(MOBILE, self.random.choice(list(OWNERS)), view="V1")

    def meet(
        self, name: str, other: str, view: str = "", kill_after_s: float | None = None
    ) -> bool:
        """Whether the one has everything of the other now."""
        there = self.networks[other].url if other in FAR else str(self._folder / other)
        said = self.processes[name].meet(there, view, kill_after_s)
        assert said in ("", "ok") or said.startswith(PASSING), said
        return said == "ok"

    def all_meet(self) -> None:
        """Until each has everything of each."""
        for name, other in permutations(OWNERS, 2):
            self.meet_at_last(name, other)
        self.meet_at_last(MOBILE, "N1", view="V1")

    def meet_at_last(self, name: str, other: str, view: str = "") -> None:
        assert any(self.meet(name, other, view) for _ in range(1000))


def ends_equal(folder: Path, seed: int, steps: int, bytes_between_cuts: int = 3000) -> None:
    system = System(folder, seed, bytes_between_cuts)
    try:
        for _ in range(steps):
            system.step()
        system.all_meet()
        assert sum(network.cuts for network in system.networks.values()) > 0
    finally:
        system.close()
    nodes = {name: system.node(name) for name in (*OWNERS, MOBILE)}
    everything = [nodes[name].catalog.addresses() for name in OWNERS]
    shared = set.intersection(*everything)
    for name, relation in OWNERS.items():
        newest = nodes[name].catalog.newest(relation)
        assert {nodes[other].catalog.newest(relation) for other in OWNERS} == {newest}
        assert {u.address for u in nodes[name].catalog.updategrams(relation)} <= shared
        for other in OWNERS:
            assert nodes[other].query(relation, {relation: newest}) == nodes[name].query(relation)
    owned = {relation: nodes[name] for name, relation in OWNERS.items()}
    newest_of = {relation: owner.catalog.newest(relation) for relation, owner in owned.items()}
    mobile = nodes[MOBILE].held("V1")
    assert mobile is not None
    assert mobile.versions == Versions(newest_of).only(("Genes", "Variants"))
    assert mobile == recomputed(owned, "V1", mobile.versions)
    assert not any(u for u in nodes[MOBILE].catalog.updategrams("Proteins"))
    for name in nodes:
        for listed in nodes[name].catalog:
            nodes[name].catalog.load(listed.address)


def test_nodes_that_are_cut_off_and_killed_end_equal(tmp_path: Path) -> None:
    ends_equal(tmp_path, seed=1, steps=8)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 112))
def test_nodes_that_are_cut_off_and_killed_often_end_equal(tmp_path: Path, seed: int) -> None:
    ends_equal(tmp_path, seed, steps=120, bytes_between_cuts=(1200, 3000, 10_000)[seed % 3])
