"""What a command asks of a runner at work: to drop, reload or refresh a view, repair a source.

A request is a file in the warehouse. The runner carries it out and puts an answer beside it, which
the command waits for and removes, together with the request.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ELOOP
from pathlib import Path
from typing import Literal, get_args

from headwater.errors import EngineError, HeadwaterError, InputError, SeveralError
from headwater.project.project import Project
from headwater.storage.bucket import StoreError
from headwater.storage.location import Location
from headwater.warehouse.lease import Lease, current_runner
from headwater.warehouse.own_files import read_own, store_trouble
from headwater.warehouse.warehouse import Warehouse

RequestKind = Literal["drop", "reload", "repair", "refresh"]
_KINDS: Collection[object] = get_args(RequestKind)
_POLL_S = 0.1
_REQUEST = ".request"


@dataclass(eq=False)
class Request:
    """Something that a command waits for."""

    id: str
    kind: RequestKind
    name: str
    """The view, or the source."""
    others: tuple[str, ...] = ()
    """Further views with which the same is to be done."""
    failures: list[HeadwaterError] = field(default_factory=list)


def drop_view(project: Project, view: str) -> None:
    """Remove a view's tables, or a group's: by the runner, if there is one."""
    warehouse = Warehouse(project.warehouse)
    warehouse.check_droppable(view)
    if ask_runner(project, "drop", view):
        return
    lease = Lease(warehouse.own)
    lease.acquire()
    try:
        warehouse.drop(view)
    finally:
        lease.release()


def ask_runner(project: Project, kind: RequestKind, name: str, *others: str) -> bool:
    """Have the runner do something, and wait until it is done; False if none is at work.

    Several views are loaded anew at the same time.

    Raises what the runner answers if it could not.
    """
    folder = Warehouse(project.warehouse).own
    if current_runner(folder) is None:
        return False
    request = Request(uuid.uuid4().hex, kind, name)
    path, answered = _paths(folder, request.id)
    try:
        path.parent.make_folder(durable=False)
        if path.parent.is_link():
            raise OSError(ELOOP, "it is a link")
        _put(path, {"action": kind, "name": name, "others": others})
    except StoreError as error:
        raise store_trouble(error) from None
    except OSError as error:
        raise HeadwaterError(
            f"The runner cannot be asked to {kind} {name}: {path.parent}: {error.strerror}.",
            "See to that folder.",
        ) from None
    try:
        while not answered.exists():
            if current_runner(folder) is None:
                raise HeadwaterError(
                    f"The runner ended before it could {kind} {name}.", "See 'headwater status'."
                )
            time.sleep(_POLL_S)
        found = read_own(answered)
    finally:
        path.remove()
        answered.remove()
    told = found.get("failures") if found else None
    if not isinstance(told, list):
        raise HeadwaterError(
            f"What the runner answered to {kind} {name} cannot be read.",
            "See 'headwater status'.",
        )
    failure = InputError if found and found.get("input") else HeadwaterError
    failures = [failure(str(text)) for text in told]
    if failures:
        raise failures[0] if len(failures) == 1 else SeveralError(failures)
    return True


def waiting_requests(folder: Location | Path) -> list[Request]:
    """The requests that have not been taken yet, oldest first; for the runner, which takes them."""
    found = []
    requests = Location.of(folder) / "requests"
    for name in _names(requests):
        path = requests / name
        if not name.endswith(_REQUEST):
            continue
        try:
            told = read_own(path)
            path.remove()
        except (OSError, EngineError):
            continue  # what is no file is no request either
        if told and told.get("action") in _KINDS and isinstance(told.get("name"), str):
            others = told.get("others", [])
            named = [n for n in others if isinstance(n, str)] if isinstance(others, list) else []
            asked = (told["action"], told["name"], tuple(named))
            found.append(Request(name.removesuffix(_REQUEST), *asked))
    return found


def forget_requests(folder: Location | Path) -> None:
    """Remove what an earlier runner and its commands left behind."""
    requests = Location.of(folder) / "requests"
    for name in _names(requests):
        with suppress(OSError):  # what is no file is no request either
            (requests / name).remove()


def answer(folder: Location, request: Request, *failures: HeadwaterError) -> None:
    """Tell the command that waits how it went."""
    _, answered = _paths(folder, request.id)
    mistake = all(isinstance(failure, InputError) for failure in failures)
    _put(answered, {"failures": list(dict.fromkeys(map(str, failures))), "input": mistake})


def _names(requests: Location) -> list[str]:
    """Files of requests, oldest first; a link may lead to what is somebody else's."""
    if requests.is_link():
        return []
    listed = requests.listed()
    return sorted(listed, key=lambda name: listed[name].modified)


def _paths(folder: Location, request: str) -> tuple[Location, Location]:
    requests = folder / "requests"
    return requests / f"{request}{_REQUEST}", requests / f"{request}.answer"


def _put(path: Location, told: dict[str, object]) -> None:
    path.replace(json.dumps(told).encode(), durable=False)
