"""What the commands say that listen: an address, and a token that others have to know."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.errors import InputError

_LEAST_TOKEN = 16
_MOST_TOKEN = 4096


def address_of_option(option: str, listen: str) -> tuple[str, int]:
    """Port 0 is one that is free."""
    from headwater.project.setting_values import address_of

    is_any = listen.endswith(":0")
    try:
        host, port = address_of(f"{listen}1" if is_any else listen)
    except ValueError as error:
        raise InputError(f"{option} {listen}: {error}.") from None
    return host, 0 if is_any else port


def token_in(variable: str, file: Path | None = None) -> str:
    """The token, from a file or the environment; empty if there is none. It is never shown."""
    from headwater.reading import read_plain

    where = variable if file is None else str(file)
    try:
        found = os.environ.get(variable, "") if file is None else ""
        if file is not None:
            found = read_plain(file, _MOST_TOKEN).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise InputError(f"The token in {where} cannot be read: {why}.") from None
    token = found.strip()
    if file is None and not token:
        return ""
    if len(token) < _LEAST_TOKEN or not all("!" <= each <= "~" for each in token):
        raise InputError(
            f"The token in {where} is none: it needs {_LEAST_TOKEN} characters or more, letters, "
            "digits and signs without blanks.",
            "Make one with: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return token
