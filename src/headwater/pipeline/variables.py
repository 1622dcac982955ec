"""`${NAME}` in texts of settings: the environment's value stands in its place.

In a URI of PostgreSQL a value that is a role, a password or an option is percent-encoded as it is
put in: an `@` in a password would otherwise make the rest of it a host, which messages name.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote

from headwater.errors import InputError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_URI = re.compile(r"postgres(?:ql)?://")


def with_variables(value: Any, place: str) -> Any:
    """What was written at this place, with the values of all variables put in."""
    if isinstance(value, dict):
        return {key: with_variables(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [with_variables(item, place) for item in value]
    if not isinstance(value, str):
        return value

    def put_in(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(
                f"{place}: the environment variable {match[1]} is not set.",
                f"Set it before you run: export {match[1]}=...",
            )
        found = os.environ[match[1]]
        return quote(found, safe=kept) if (kept := _kept(match)) is not None else found

    return _VARIABLE.sub(put_in, value)


def _kept(match: re.Match[str]) -> str | None:
    """The characters that stay as they are, if a value must be encoded where it stands."""
    scheme = _URI.match(match.string)
    if scheme is None:
        return None
    before, after = match.string[scheme.end() : match.start()], match.string[match.end() :]
    if "/" not in before and "@" not in before and "@" in after.partition("/")[0]:
        is_all = not before and after.startswith("@")
        return ":" if is_all else ""  # both a role and its password, or one of them
    option = before.partition("?")[2].rpartition("&")[2]
    return "" if "=" in option else None
