"""How everything stands in Prometheus's text format.

Counts begin anew when a view is brought up again, as Prometheus's counters may. What is not known
has no sample: a lag of 0 says that a view is up to date, and none says that nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Labels = tuple[tuple[str, str], ...]
KIND = "text/plain; version=0.0.4; charset=utf-8"
STATES = (
    *("running", "loading", "waiting", "stopped"),
    *("not loaded", "not running", "no file", "damaged"),
)


@dataclass(frozen=True)
class Metric:
    """One family of samples."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Labels, float], ...]

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            listed = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            yield f"{self.name}{{{listed}}} {value:.15g}" if listed else f"{self.name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text_of(found: Mapping[str, Any], wrong: int, now: float) -> str:
    """Everything, of a description; `wrong` is how many things are."""
    metrics = [*_of_runner(found, wrong), *_of_views(found["views"], now)]
    metrics += _of_sources(found["sources"])
    lines = (line for metric in metrics if metric.samples for line in metric.lines())
    return "".join(f"{line}\n" for line in lines)


def _of_runner(found: Mapping[str, Any], wrong: int) -> Iterator[Metric]:
    runs = float(bool(found.get("runner")))
    yield Metric("headwater_running", "gauge", "Whether a runner is at work.", (((), runs),))
    yield Metric("headwater_troubles", "gauge", "How many things are wrong.", (((), wrong),))
    waiting = float(len((found.get("global") or {}).get("waiting", ())))
    told = "Transactions across databases that are not whole yet."
    yield Metric("headwater_global_waiting", "gauge", told, (((), waiting),))


_COUNTED = {
    "commits": "Commits of the view.",
    "rows": "Rows that its commits changed.",
    "transactions": "Transactions of its sources that it has received.",
    "questions": "Questions that it has put to sources.",
    "overlaps": "Answers that reflected transactions delivered after their questions, for which "
    "its algorithm compensates.",
    "retries": "Questions put again, because their snapshot did not fit the log.",
    "answer_bytes": "What the answers to its questions held, about.",
    "answered_by_copies": "Questions that copies of relations have answered.",
}
_NAMES = {
    "rows": "changed_rows",
    "overlaps": "compensations",
    "answered_by_copies": "questions_saved",
}


def _of_views(views: Mapping[str, Mapping[str, Any]], now: float) -> Iterator[Metric]:
    def each(member: str) -> Iterator[tuple[Labels, float]]:
        for name, view in views.items():
            if isinstance(value := view.get(member), int | float):
                yield (("view", name),), float(value)

    def gauge(name: str, told: str, samples: Iterable[tuple[Labels, float]]) -> Metric:
        return Metric(f"headwater_view_{name}", "gauge", told, tuple(samples))

    states = (
        ((("view", name), ("state", state)), float(view["state"] == state))
        for name, view in views.items()
        for state in STATES
    )
    yield gauge("state", "1 for the state that a view is in.", states)
    wrong = (((("view", name),), float(bool(v.get("message")))) for name, v in views.items())
    yield gauge("trouble", "Whether something is wrong with a view.", wrong)
    lag = (
        ((("view", name), ("source", source)), float(behind))
        for name, view in views.items()
        for source, behind in (view.get("lag") or {}).items()
        if behind is not None
    )
    yield gauge("lag_transactions", "How many transactions it is behind a source.", lag)
    fresh = (
        ((("view", name), ("quantile", quantile)), view["freshness_ms"][member] / 1000)
        for name, view in views.items()
        if view.get("freshness_ms")
        for member, quantile in (("median", "0.5"), ("p99", "0.99"))
    )
    told = "From reading a transaction to its commit in the view, of the last thousand."
    yield gauge("freshness_seconds", told, fresh)
    yield gauge("version", "The number of its newest commit.", each("number"))
    yield gauge("committed_timestamp_seconds", "When that was.", each("committed_at"))
    plain = (
        ((("view", name),), max(0.0, now - view["unfolded_since"]) if lacks else 0.0)
        for name, view in views.items()
        if "commits" in view
        for lacks in [view.get("unfolded_since")]
    )
    told = "For how long its plain table has lacked something; 0 if it has everything."
    yield gauge("fold_age_seconds", told, plain)
    tail = (
        ((("view", name),), float(view["tail"]["rows"]))
        for name, view in views.items()
        if view.get("tail")
    )
    yield gauge("tail_rows", "Rows that wait to be folded.", tail)
    progress = {n: v["progress"] for n, v in views.items() if v.get("progress")}
    read = (((("view", name),), float(told["rows"])) for name, told in progress.items())
    yield gauge("load_rows", "Rows that were read for the load that is under way.", read)
    left = (
        ((("view", name),), float(told["left_s"]))
        for name, told in progress.items()
        if told.get("left_s") is not None
    )
    yield gauge("load_left_seconds", "How long reading will take.", left)
    for member, told in _COUNTED.items():
        name = f"headwater_view_{_NAMES.get(member, member)}_total"
        yield Metric(name, "counter", told, tuple(each(member)))


_RETAINED = {"bytes": "Bytes", "rows": "Rows", "left_bytes": "Bytes until the server gives up"}


def _of_sources(sources: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    def each(*path: str) -> Iterator[tuple[Labels, float]]:
        for name, source in sources.items():
            value: Any = source
            for member in path:
                value = value.get(member) if isinstance(value, Mapping) else None
            if isinstance(value, int | float):
                yield (("source", name),), float(value)

    def of(name: str, kind: str, told: str, samples: Iterable[tuple[Labels, float]]) -> Metric:
        return Metric(f"headwater_source_{name}", kind, told, tuple(samples))

    up = (((("source", name),), float(not s.get("trouble"))) for name, s in sources.items())
    yield of("up", "gauge", "Whether nothing is wrong with a source.", up)
    yield of("transactions_total", "counter", "Transactions that were read of it.", each("end"))
    told = "Of its transactions, those that are kept in the change log."
    yield of("change_log_transactions", "gauge", told, each("kept"))
    yield of("change_log_bytes", "gauge", "How large its change log is.", each("bytes"))
    for member, unit in _RETAINED.items():
        told = f"{unit} of the log that the source keeps to be read."
        yield of(f"retained_{member}", "gauge", told, each("retained", member))
    for member, told in {
        "questions": "Questions of views that it has answered.",
        "rounds": "In how many rounds, one transaction there each.",
        "shared": "Queries that were not evaluated, because another view had asked the same.",
    }.items():
        yield of(f"{member}_total", "counter", told, each("asked", member))
