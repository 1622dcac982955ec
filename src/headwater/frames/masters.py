"""Where Spark runs: on this machine alone, or on a cluster, whose master has to be there."""

from __future__ import annotations

import re
import socket

from headwater.errors import NoExecutorError

_STANDALONE = "spark://"
_LIMIT_S = 5.0


def is_one_process(master: str) -> bool:
    """Whether driver and executors are one process."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def is_one_machine(master: str) -> bool:
    """Whether driver and executors are on one machine, whatever else is."""
    return master.startswith("local")


def require_master(master: str) -> None:
    """NoExecutorError if nobody answers at the address of a standalone master.

    Spark itself tries for a minute, and then ends the session while jobs wait.
    """
    if not master.startswith(_STANDALONE):
        return
    failures = []
    for each in master.removeprefix(_STANDALONE).split(","):
        host, _, port = each.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _LIMIT_S).close()
        except ValueError:
            failures.append("it is no HOST:PORT")
        except OSError as error:
            failures.append((error.strerror or str(error)).lower())
        else:
            return
    raise NoExecutorError(
        f"Spark's master {master} cannot be reached: {', '.join(dict.fromkeys(failures))}.",
        "Check [spark] in headwater.toml, and that the master is at work; it is tried again.",
    )
