"""What one command asks of a runner that is at work: to drop or reload a view, repair a source.

A request is a file in the warehouse. The runner carries it out and puts an answer beside it, which
the command waits for and removes, together with the request.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from headwater.errors import HeadwaterError, InputError, SeveralError
from headwater.pipeline.project import Project
from headwater.warehouse.durable import make_folder
from headwater.warehouse.lease import Lease, current_runner
from headwater.warehouse.warehouse import Warehouse

Action = Literal["drop", "reload", "repair"]
_POLL_S = 0.1


@dataclass(eq=False)
class Request:
    """Something that a command waits for."""

    id: str
    action: Action
    name: str
    """The view, or the source."""
    failures: list[HeadwaterError] = field(default_factory=list)


def drop_view(project: Project, view: str) -> None:
    """Remove a view's tables: by the runner, if there is one."""
    warehouse = Warehouse(project.warehouse)
    if not warehouse.remains(view):
        warehouse.view(view)  # says that there is none
    if ask_runner(project, "drop", view):
        return
    lease = Lease(warehouse.internal)
    lease.acquire()
    try:
        warehouse.drop(view)
    finally:
        lease.release()


def ask_runner(project: Project, action: Action, name: str) -> bool:
    """Have the runner do something, and wait until it is done; False if none is at work.

    Raises what the runner answers if it could not.
    """
    folder = Warehouse(project.warehouse).internal
    if current_runner(folder) is None:
        return False
    request = Request(uuid.uuid4().hex, action, name)
    path, answered = _paths(folder, request.id)
    make_folder(path.parent, durable=False)
    _put(path, {"action": action, "name": name})
    try:
        while not answered.exists():
            if current_runner(folder) is None:
                raise HeadwaterError(
                    f"The runner ended before it could {action} {name}.", "See 'headwater status'."
                )
            time.sleep(_POLL_S)
        found = json.loads(answered.read_text())
    finally:
        path.unlink(missing_ok=True)
        answered.unlink(missing_ok=True)
    kind = InputError if found["input"] else HeadwaterError
    failures = [kind(text) for text in found["failures"]]
    if failures:
        raise failures[0] if len(failures) == 1 else SeveralError(failures)
    return True


def waiting_requests(folder: Path) -> list[Request]:
    """The requests that have not been taken yet, oldest first; for the runner."""
    found = []
    for path in sorted((folder / "requests").glob("*.request"), key=_age):
        try:
            told = json.loads(path.read_text())
            path.rename(path.with_suffix(".taken"))
        except (OSError, ValueError):
            continue  # the command has given up
        if told.get("action") in get_args(Action):
            found.append(Request(path.stem, told["action"], str(told["name"])))
    return found


def forget_requests(folder: Path) -> None:
    """Remove what an earlier runner and its commands left behind."""
    for path in (folder / "requests").glob("*"):
        path.unlink(missing_ok=True)


def answer(folder: Path, request: Request, *failures: HeadwaterError) -> None:
    """Tell the command that waits how it went."""
    path, answered = _paths(folder, request.id)
    path.with_suffix(".taken").unlink(missing_ok=True)
    mistake = all(isinstance(failure, InputError) for failure in failures)
    _put(answered, {"failures": list(dict.fromkeys(map(str, failures))), "input": mistake})


def _paths(folder: Path, request: str) -> tuple[Path, Path]:
    return (folder / "requests" / f"{request}.request", folder / "requests" / f"{request}.answer")


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _put(path: Path, told: dict[str, object]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(told))
    temporary.replace(path)
