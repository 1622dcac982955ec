"""What each algorithm costs a view, estimated and measured: a line each, to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.algebra.values import Json
from headwater.costs.statistics import Spent
from headwater.costs.weighing import Candidate
from headwater.project.choice import Choice, costs
from headwater.project.project import Project
from headwater.project.view_files import DefinedView

COST_COLUMNS = ("", "algorithm", "messages", "bytes", "time", "measured")
"""Of a table of such lines; figures are for one transaction."""


@dataclass(frozen=True)
class CostLine:
    """One algorithm: its estimate or why it is out, and what it has cost where it ran."""

    candidate: Candidate
    is_chosen: bool
    spent: Spent | None = None

    @property
    def cells(self) -> list[str]:
        """Of one that may be chosen."""
        estimate, measured = self.candidate.estimate, "-"
        assert estimate is not None
        if (spent := self.spent) is not None:
            told = _figures(spent.messages, spent.bytes, spent.time_s)
            measured = f"{told[0]}, {told[1]} bytes, {told[2]}"
        figures = _figures(estimate.messages, estimate.bytes, estimate.time_s)
        return ["●" if self.is_chosen else "", _title(self.candidate), *figures, measured]

    def to_json(self) -> dict[str, Json]:
        estimated: Json = None
        if (estimate := self.candidate.estimate) is not None:
            estimated = _json(estimate.messages, estimate.bytes, estimate.time_s)
        measured: Json = None
        if (spent := self.spent) is not None:
            measured = _json(spent.messages, spent.bytes, spent.time_s)
            measured["transactions"] = spent.transactions
        return {
            "algorithm": self.candidate.algorithm,
            "parameters": dict(self.candidate.parameters),
            "chosen": self.is_chosen,
            "out": self.candidate.out or None,
            "estimated": estimated,
            "measured": measured,
        }


def cost_lines(
    project: Project, definition: DefinedView, choice: Choice, running: str | None
) -> tuple[CostLine, ...]:
    """A line for each algorithm, those that may be chosen first."""
    statistics = project.statistics
    spent = statistics.spent.get(definition.name, {})
    run, level = project.settings.run, definition.file.level
    return tuple(
        CostLine(each, each.algorithm == choice.algorithm, spent.get(each.algorithm))
        for each in costs(definition.view, level, run, statistics, running)
    )


def able(lines: Sequence[CostLine]) -> list[CostLine]:
    """The lines of those that keep the level and can maintain the view."""
    return [line for line in lines if not line.candidate.out]


def reasons(lines: Sequence[CostLine]) -> dict[str, list[str]]:
    """Why the others are out, and who is for that reason."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.candidate.out:
            found.setdefault(line.candidate.out, []).append(line.candidate.algorithm)
    return found


def _title(candidate: Candidate) -> str:
    """With the parameters that differ from what a project's settings give."""
    told = {name: v for name, v in candidate.parameters.items() if name not in ("batch", "p")}
    listed = ", ".join(f"{name} = {value}" for name, value in told.items())
    return f"{candidate.algorithm} ({listed})" if listed else candidate.algorithm


def _figures(messages: float, moved: float, seconds: float) -> list[str]:
    return [f"{messages:.1f}", f"{moved:,.0f}", f"{1000 * seconds:,.1f} ms"]


def _json(messages: float, moved: float, seconds: float) -> dict[str, Json]:
    return {
        "messages": round(messages, 3),
        "bytes": round(moved, 1),
        "time_ms": round(1000 * seconds, 3),
    }
