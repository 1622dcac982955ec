"""Small scenarios for tests: counters at sources, whose view shows exactly how far each one is."""

import copy
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from headwater.algebra.rows import Rows
from headwater.algebra.values import Json
from headwater.check.history import History
from headwater.lab.files import load_objects
from headwater.lab.scenario import Scenario, scenario_from_json

COUNTEREXAMPLES = Path(str(resources.files("headwater.lab") / "counterexamples"))


def counters(*transactions: str, shown: str = "", sources: str = "xy") -> Scenario:
    """Each source is a counter; the transaction `xy` counts on at x and at y together.

    The view shows all counters, so that a state tells its vector, unless `shown` says otherwise.
    """
    contents = dict.fromkeys(sources, 0)
    listed: list[Json] = []
    for number, touched in enumerate(transactions, 1):
        updates: list[Json] = []
        for source in touched:
            before = contents[source]
            contents[source] += 1
            updates.append({"relation": source, "update": [[before], [before + 1]]})
        listed.append({"id": f"T{number}", "updates": updates})
    relations: dict[str, Json] = {
        source: {"source": source, "columns": {"n": "int"}, "rows": [[0]]} for source in sources
    }
    shown = shown or ", ".join(f"{source}.n AS {source}" for source in sources)
    view = f"SELECT {shown} FROM {', '.join(sources)}"
    return scenario_from_json({"relations": relations, "view": view, "transactions": listed})


def load_scenarios(path: Path) -> list[Scenario]:
    """All scenarios of a `.json` or `.jsonl` file."""
    return [scenario_from_json(data, where) for data, where in load_objects(path)]


def shown(history: History, *rows: Sequence[object]) -> list[Rows]:
    """States of a view, each of one row."""
    return [Rows.of(history.view.schema, [row]) for row in rows]


def edited(data: dict[str, Json], path: Iterable[str | int], value: Any) -> dict[str, Json]:
    """A copy of JSON data with one member set, or taken out where `value` is `GONE`."""
    *outer, last = path
    changed = copy.deepcopy(data)
    found: Any = changed
    for key in outer:
        found = found[key]
    if value is GONE:
        del found[last]
    else:
        found[last] = value
    return changed


GONE: Any = object()
