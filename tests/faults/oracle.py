"""What a view ought to hold: computed from its tables as their drivers show them.

Views over one database are also put to that database itself, in its own SQL, and both must agree,
so that the evaluation here is not trusted by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.faults.databases import Database, canonical
from tests.faults.schemas import LOOSE, Value
from tests.faults.views import View

Bag = Counter[tuple[Value, ...]]


def expected(view: View, databases: Mapping[str, Database]) -> Bag:
    """The view of what its tables hold now."""
    contents = {}
    for (source, name), columns in view.used().items():
        database = databases[source]
        table = database.schema.tables[name]
        # A table may be named for its rows only; then any column tells how many there are.
        names = sorted(c.name for c in columns) or [table.columns[0].name]
        rows = database.rows(table, names)
        contents[source, name] = [dict(zip(names, row, strict=True)) for row in rows]
    found = view.evaluate(contents)
    if len(view.sources) == 1 and not any(c.declared in LOOSE for c in view.all_columns()):
        (source,) = view.sources
        kinds = [place.column.kind for place in view.parts[0].outputs]
        asked = databases[source].select(view.query())
        own = Counter(tuple(map(canonical, row, kinds)) for row in asked)
        assert own == found, f"the oracle disagrees with {databases[source].kind}: {view.query()}"
    return found


def difference(found: Bag, wanted: Bag) -> str:
    """In words, at most some rows of each; empty if there is none."""
    lines = []
    for title, rows in (("missing", wanted - found), ("too many", found - wanted)):
        lines += [f"{title}: {count} x {row!r}" for row, count in list(rows.items())[:3]]
        if len(rows) > 3:
            lines.append(f"{title}: {sum(rows.values())} in all")
    return "; ".join(lines)
