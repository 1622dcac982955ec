"""What a reader asks for by options: which view of which warehouse, and which version of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from headwater.errors import InputError
from headwater.project.settings import warehouse_of_project
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

_PLACES = ("project", "warehouse")
_NAMES = ("view", "path")
"""`load("order_lines")` gives the name as the option `path`."""


def asked_view(options: Mapping[str, str], also: Collection[str]) -> ViewTable:
    """The view that options name; those in `also` are known, others are refused."""
    known = (*_PLACES, *_NAMES, *also)
    for option in options:
        if option.lower() not in [name.lower() for name in known]:
            raise InputError(
                f"The option '{option}' is not known to the format headwater.",
                f"It has {', '.join(name for name in known if name != 'path')}.",
            )
    return _warehouse(options).shown_view(_name(options))


def _warehouse(options: Mapping[str, str]) -> Warehouse:
    given = [name for name in _PLACES if options.get(name)]
    if len(given) != 1:
        said = "Both are given" if given else "Neither is given"
        raise InputError(
            f"{said} of the options project and warehouse.",
            'Name the folder of headwater.toml: .option("project", DIR).',
        )
    place = options[given[0]]
    return Warehouse(warehouse_of_project(Path(place)) if given == ["project"] else place)


def _name(options: Mapping[str, str]) -> str:
    given = {options[name] for name in _NAMES if options.get(name)}
    if len(given) != 1:
        said = (
            f"Several views are named: {', '.join(sorted(given))}" if given else "No view is named"
        )
        raise InputError(f"{said}.", 'Name one: .load("order_lines").')
    return given.pop()


def asked_version(view: ViewTable, options: Mapping[str, str]) -> int | None:
    """The version that options name; None if they do not."""
    version, moment = options.get("version"), options.get("timestamp")
    if version is not None and moment is not None:
        raise InputError("Both a version and a timestamp are given.", "Give one of them.")
    if moment is not None:
        return view.version_at(moment_of(moment))
    return None if version is None else whole_number("version", version)


def whole_number(option: str, text: str, least: int = 0) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        hint = f"It is a whole number from {least} on."
        raise InputError(f"The option {option} is '{text}'.", hint)
    return int(text)


def moment_of(text: str) -> float:
    """Seconds since 1970; a time without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"The timestamp '{text}' cannot be read.", "Write it as 2026-01-31 18:00:00+01:00."
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
