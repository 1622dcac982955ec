"""What one command asks of a runner that is at work: to drop a view, or to load it again.

A request is a file in the warehouse; the runner takes it, does it, and removes it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from headwater.errors import HeadwaterError, InputError
from headwater.pipeline.project import Project
from headwater.warehouse.lease import Lease, current_runner
from headwater.warehouse.warehouse import Warehouse

_WAIT_S = 60.0
_POLL_S = 0.1


def drop_view(project: Project, view: str, missing_ok: bool = False) -> None:
    """Remove a view's tables: by the runner, if there is one."""
    warehouse = Warehouse(project.warehouse)
    if missing_ok and view not in warehouse.view_names():
        return
    warehouse.view(view)  # says so if there is none
    if current_runner(warehouse.internal) is not None:
        _ask(warehouse, view, "drop")
        return
    lease = Lease(warehouse.internal)
    lease.acquire()
    try:
        warehouse.drop(view)
    finally:
        lease.release()


def ask_reload(project: Project, view: str) -> bool:
    """Have the runner load a view again; False if none is at work."""
    if view not in project.view_files:
        raise InputError(
            f"The project has no view {view}.", f"It has {', '.join(project.view_files)}."
        )
    warehouse = Warehouse(project.warehouse)
    if current_runner(warehouse.internal) is None:
        return False
    _ask(warehouse, view, "reload")
    return True


def taken_requests(folder: Path) -> dict[str, str]:
    """The requests that wait, by view; for the runner."""
    found = {}
    for path in sorted((folder / "requests").glob("*.json")):
        found[path.stem] = str(json.loads(path.read_text())["action"])
    return found


def done(folder: Path, view: str) -> None:
    (folder / "requests" / f"{view}.json").unlink(missing_ok=True)


def _ask(warehouse: Warehouse, view: str, action: str) -> None:
    path = warehouse.internal / "requests" / f"{view}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"action": action}))
    temporary.replace(path)
    deadline = time.monotonic() + _WAIT_S
    while path.exists():
        if time.monotonic() > deadline or current_runner(warehouse.internal) is None:
            path.unlink(missing_ok=True)
            raise HeadwaterError(
                f"The runner did not {action} view {view}.", "See 'headwater status'."
            )
        time.sleep(_POLL_S)
