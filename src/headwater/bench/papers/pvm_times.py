"""How long SWEEP and PVM take: by the cost model, in virtual time, and on PostgreSQL servers.

Times are in what a question takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from headwater.bench.comparison import comparable
from headwater.bench.papers import pvm_model as model
from headwater.bench.papers.frame import Report
from headwater.bench.papers.pvm_servers import Servers, Work
from headwater.lab.generate import chain
from headwater.lab.simulate import simulate
from headwater.lab.virtual_time import run_timed

TICKS = 20
"""Of a question in virtual time: enough for intervals of a twentieth."""
LATENCY_S = 0.1
BEST_LATENCY_S = 0.25


@dataclass(frozen=True)
class Setting:
    """How much is measured on servers; in virtual time everything is, in either form."""

    processes: Sequence[int] = ()
    sources: Sequence[int] = ()
    runs: Sequence[int] = ()
    updates: Sequence[int] = ()
    intervals: Sequence[float] = ()
    best: Sequence[tuple[int, int, int]] = ((2, 6, 6),)
    """Sources, updates of each, and processes, where PVM is to come to its best."""
    latency_s: float = 0.02
    best_latency_s: float = 0.02
    table_4: Sequence[str] = ("strobe", "sweep", "pvm-cc")


FULL = Setting(
    (1, 2, 3, 4, 5, 6, 8, 10),
    (2, 4, 6),
    (1, 2, 5, 10),
    (4, 10, 20, 40),
    (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
    ((4, 30, 16), (6, 20, 24)),
    LATENCY_S,
    BEST_LATENCY_S,
    tuple(comparable()),
)


@dataclass
class Bench:
    """Times in what a question takes: in virtual time, and on servers."""

    setting: Setting
    seed: int
    report: Report
    servers: Servers
    done: dict[tuple[object, ...], float] = field(default_factory=dict)

    def measured(
        self, m: int, n: int, p: int | None = None, c: int = 1, interval: float = 0.0
    ) -> float:
        """On servers; SWEEP if no `p` is given."""
        key = m, n, p, c, interval, self.setting.latency_s
        if key not in self.done:
            self.report(f"{m} servers, {n} updates, {f'p = {p}' if p else 'SWEEP'}")
            latency = self.setting.latency_s
            work = Work(m, n, c, interval * latency, latency, self.seed)
            settings = {} if p is None else {"p": p}
            took = self.servers.time(work, "pvm-cc" if p else "sweep", **settings)
            self.done[key] = took / latency
        return self.done[key]


@cache
def virtual(m: int, n: int, p: int | None = None, c: int = 1, interval: float = 0.0) -> float:
    """In virtual time; SWEEP if no `p` is given."""
    settings = {} if p is None else {"p": str(p)}
    simulation = simulate(chain(m, n, run=c), "pvm-cc" if p else "sweep", settings)
    return run_timed(simulation, TICKS, round(interval * TICKS)).ticks / TICKS


def modelled(m: int, n: int, p: int | None = None) -> float:
    """Equation 14, or 9 for SWEEP."""
    if p is None:
        return model.sweep_time(n, m, 1)
    return model.pvm_time(n, p, m, model.update_time(m, 1))
