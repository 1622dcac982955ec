"""`${NAME}` in texts of settings: the environment's value stands in its place.

In a URI of a server a value that is a role, a password or an option is percent-encoded as it is
put in: an `@` in a password would otherwise make the rest of it a host, which messages name. In
`name=value` pairs a password with blanks is quoted, since the rest of it would be another pair.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote

from headwater.errors import InputError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PAIR = re.compile(r"(?:^|\s)(?:ssl)?password\s*=\s*$")
_BLANK = re.compile(r"(?<!\\)\s")
_URI = re.compile(r"(?:postgres(?:ql)?|mariadb|mysql)://")


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
        if _is_password(match) and _BLANK.search(found):
            return _quoted(found)
        return quote(found, safe=kept) if (kept := _kept(match)) is not None else found

    return _VARIABLE.sub(put_in, value)


def _is_password(match: re.Match[str]) -> bool:
    """Whether a variable is all of a password in a connection string of `name=value` pairs."""
    return _PAIR.search(match.string[: match.start()]) is not None and (
        match.string[match.end() :][:1] in ("", " ")
    )


def _quoted(value: str) -> str:
    """One value as such a string has it; what is quoted already stays."""
    if value.startswith("'") and value.endswith("'"):
        return value
    return "'" + value.replace("\\", r"\\").replace("'", r"\'") + "'"


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
