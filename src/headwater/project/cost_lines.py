"""What each algorithm costs a view, estimated and measured: a line each, to be shown.

The one that USING names has the parameters of the view's file, also where it would never be chosen
by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.algebra.values import Json
from headwater.costs.statistics import Spent
from headwater.costs.weighing import Candidate
from headwater.project.choice import Choice, cost_of, costs
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
    told: Collection[str] = ()
    """The parameters that the view's file gives."""

    @property
    def cells(self) -> list[str]:
        """Of one that may be chosen, or is."""
        estimate, measured = self.candidate.estimate, "-"
        if (spent := self.spent) is not None:
            told = _figures(spent.messages, spent.bytes, spent.time_s)
            measured = f"{told[0]}, {told[1]} bytes, {told[2]}"
        figures = ["-", "-", "-"]
        if estimate is not None:
            figures = _figures(estimate.messages, estimate.bytes, estimate.time_s)
        return ["●" if self.is_chosen else "", self._title, *figures, measured]

    @property
    def _title(self) -> str:
        """With the parameters that differ from what a project's settings give."""
        parameters = self.candidate.parameters.items()
        told = [f"{n} = {v}" for n, v in parameters if n in self.told or n not in ("batch", "p")]
        name = self.candidate.algorithm
        return f"{name} ({', '.join(told)})" if told else name

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
    file, run, view = definition.file, project.settings.run, definition.view
    found = list(costs(view, file.level, run, statistics, running))
    if found and file.algorithm:
        others = [each for each in found if each.algorithm != choice.algorithm]
        found = [cost_of(choice, view, file.level, statistics), *others]
    lines = []
    for each in found:
        is_chosen = each.algorithm == choice.algorithm
        told = file.parameters if is_chosen else ()
        lines.append(CostLine(each, is_chosen, spent.get(each.algorithm), told))
    return tuple(lines)


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


def _figures(messages: float, moved: float, seconds: float) -> list[str]:
    return [f"{messages:.1f}", f"{moved:,.0f}", f"{1000 * seconds:,.1f} ms"]


def _json(messages: float, moved: float, seconds: float) -> dict[str, Json]:
    return {
        "messages": round(messages, 3),
        "bytes": round(moved, 1),
        "time_ms": round(1000 * seconds, 3),
    }
