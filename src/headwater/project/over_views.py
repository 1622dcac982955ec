"""Views that read other views of the project: which do, in what order, and never in a circle.

Such a view is unfolded to the tables of its sources: the SELECTs of the views that it reads become
part of its own. So it is maintained like any other, and its level holds by itself.

A name without a source means the view of that name, but for a view's own name, which means a table.
What functions of one's own read counts as read by the views that call them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headwater.algebra.sql.view import unfolded
from headwater.errors import HeadwaterError, InputError
from headwater.project.settings import Problems
from headwater.project.view_files import ViewFile


def with_others(
    files: Mapping[str, ViewFile], problems: Problems
) -> tuple[dict[str, ViewFile], frozenset[str]]:
    """The view files, each with the views that it reads, those before it that they read.

    Beside them the names of those that read views in a circle. A circle is told once.
    """
    by_name = {name.lower(): file for name, file in files.items()}
    found = dict(files)
    told: dict[str, InputError] = {}
    endless = set()
    for name, file in files.items():
        try:
            read = {other.name: other.select for other in _read_by(file, by_name, (file,))}
            found[name] = replace(file, others=_in_their_own_words(read, by_name))
        except InputError as error:
            told[str(error)] = error
            problems.of.setdefault(name, []).append(error)
            endless.add(name)
    problems.extend(told.values())
    return found, frozenset(endless)


def _read_by(
    file: ViewFile, by_name: Mapping[str, ViewFile], path: tuple[ViewFile, ...]
) -> Iterator[ViewFile]:
    """The views that a view reads, each behind those that it reads itself."""
    for other, _, _ in _named_in(file, by_name):
        if other in path:
            raise _in_a_circle(path[path.index(other) :], by_name)
        yield from _read_by(other, by_name, (*path, other))
        yield other


def _in_a_circle(circle: tuple[ViewFile, ...], by_name: Mapping[str, ViewFile]) -> InputError:
    """The same sentence wherever one comes into the circle: from its first view by name on."""
    first = circle.index(min(circle, key=lambda file: file.name))
    turned = (*circle[first:], *circle[: first + 1])
    last = turned[-2]
    place = next((line, at) for file, line, at in _named_in(last, by_name) if file == turned[-1])
    listed = " reads ".join(file.name for file in turned)
    return InputError(
        f"{last.path}:{place[0]}:{place[1]}: views read each other in a circle: {listed}.",
        "Let one of them read tables of sources only.",
    )


def _named_in(
    file: ViewFile, by_name: Mapping[str, ViewFile]
) -> Iterator[tuple[ViewFile, int, int]]:
    try:
        tables = replace(file, others={}).tables()
    except HeadwaterError:
        return  # told where the file itself is read
    for table in tables:
        other = by_name.get(table.name.lower()) if not table.source else None
        if other is not None and (other.name != file.name or table.function):
            yield other, table.line, table.column


def _in_their_own_words(
    others: Mapping[str, str], by_name: Mapping[str, ViewFile]
) -> dict[str, str]:
    """Each view unfolded, so that what it reads is no longer a matter of names."""
    done: dict[str, str] = {}
    for name, select in others.items():
        needed = [other.name for other, _, _ in _named_in(by_name[name.lower()], by_name)]
        known = {n: done[n] for n in dict.fromkeys(needed)}
        done[name] = unfolded(select, known, by_name[name.lower()].functions)
    return done
