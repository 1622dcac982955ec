"""What a view over views of other projects may say of the databases behind these. Pure.

Each of their tables is a state of its view at a version vector, and follows them at its level. Two
tables have no common moment: they are published one after the other. So what joins two that are
made from one database, or one with that database itself, shows it at two moments. Databases are
told apart by their names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

from headwater.algebra.schema import Relation
from headwater.check.levels import Level
from headwater.sources.contract import Origin


def level_behind(
    level: Level, relations: Collection[Relation], origins: Mapping[str, Origin]
) -> tuple[Level, str]:
    """The level with regard to all databases, and why it is less than that asked for.

    `origins` has the relations that are views, by their full names.
    """
    used = {r.name: origins[r.name] for r in relations if r.name in origins}
    direct = {r.source for r in relations if r.name not in origins}
    lowered = [_weak(level, words) for words in _not_aligned(used, direct)]
    lowered += [_as_its_table(level, name, origin) for name, origin in used.items()]
    return min(lowered, key=lambda found: found[0], default=(level, ""))


def _not_aligned(used: Mapping[str, Origin], direct: Collection[str]) -> list[str]:
    found = []
    for (one, a), (other, b) in combinations(sorted(used.items()), 2):
        for database in sorted(a.databases & b.databases):
            found.append(f"{one} and {other} are both made from {database}")
    for name, origin in sorted(used.items()):
        for database in sorted(origin.databases & set(direct)):
            found.append(f"{name} is made from {database}, which is read itself, too")
    return found


def _weak(level: Level, words: str) -> tuple[Level, str]:
    if level <= Level.WEAK:
        return level, ""
    return Level.WEAK, (
        f"weak, not {level}: {words}, and there are no aligned vectors, so it may be seen at two "
        f"moments; {level} with regard to the tables' versions"
    )


def _as_its_table(level: Level, name: str, origin: Origin) -> tuple[Level, str]:
    try:
        of_table = min(Level[origin.level.upper()], Level.STRONG)
    except KeyError:
        of_table = Level.NONE
    if level <= of_table:
        return level, ""
    return of_table, (
        f"{of_table}, not {level}: {name} is a published view at the level {origin.level}, of "
        f"which not every state is seen; {level} with regard to the table's versions"
    )
