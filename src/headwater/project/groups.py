"""Groups: which views belong together, and that their files say the same.

The views of a group are maintained as one, so what says how is one for all of them: their level,
their algorithm, how often they are refreshed and published, when they are recomputed, whether they
have tables of changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.project.settings import Problems
from headwater.project.view_files import ViewFile


class _Clause(NamedTuple):
    """A clause that is the same in all files of a group."""

    place: str
    words: str
    fields: tuple[str, ...]


_CLAUSES = (
    _Clause("WITH", "WITH ... CONSISTENCY", ("level",)),
    _Clause("USING", "USING", ("algorithm", "parameters")),
    _Clause("KEEP", "KEEP KEYS", ("keep_keys",)),
    _Clause("REFRESH", "REFRESH EVERY", ("refresh_every",)),
    _Clause("PUBLISH", "PUBLISH EVERY", ("publish_every",)),
    _Clause("RECOMPUTE", "RECOMPUTE", ("recompute",)),
    _Clause("WITH CHANGES", "WITH CHANGES", ("changes",)),
)


def units_of(files: Mapping[str, ViewFile]) -> dict[str, tuple[str, ...]]:
    """What is maintained as one: views by themselves and groups, each with its views by name."""
    found: dict[str, tuple[str, ...]] = {}
    for name, file in files.items():
        unit = file.group or name
        found[unit] = tuple(sorted((*found.get(unit, ()), name)))
    return found


def check_groups(files: Iterable[ViewFile], problems: Problems) -> set[str]:
    """Note what is wrong with groups; the names of the views that it concerns."""
    views = {file.name.lower(): file for file in files}
    groups: dict[str, list[ViewFile]] = {}
    for file in views.values():
        if file.group is not None:
            groups.setdefault(file.group.lower(), []).append(file)
    wrong: set[str] = set()
    for members in groups.values():
        before = len(problems)
        for file in members:
            with problems.collecting():
                _check_name(file, members[0], views)
                _check_clauses(file, members[0])
        if len(problems) > before:
            wrong.update(file.name for file in members)
            for file in members:
                problems.of.setdefault(file.name, []).extend(problems[before:])
    return wrong


def _check_name(file: ViewFile, first: ViewFile, views: Mapping[str, ViewFile]) -> None:
    assert file.group is not None
    if other := views.get(file.group.lower()):
        raise file.error(
            "IN",
            f"{file.group} is a view, in {other.path}, and cannot be a group as well.",
            "Give the group another name.",
        )
    if file.group != first.group:
        raise file.error(
            "IN",
            f"group {file.group} is written {first.group} in {first.path}.",
            "Write its name in one way.",
        )


def _check_clauses(file: ViewFile, first: ViewFile) -> None:
    for clause in _CLAUSES:
        here, there = ([getattr(f, name) for name in clause.fields] for f in (file, first))
        if here != there:
            raise file.error(
                clause.place if clause.place in file.places else "IN",
                f"{clause.words} of view {file.name} is not that of view {first.name} in "
                f"{first.path}, which is in the same group.",
                f"The views of group {file.group} are maintained as one: write the same clause in "
                "all of their files, or in none.",
            )
