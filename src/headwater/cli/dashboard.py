"""`headwater dashboard`, and what `headwater run --serve` serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.listening import address_of_option, token_in
from headwater.cli.running import stopped_by_signals
from headwater.cli.sources import ProjectOption
from headwater.errors import InputError
from headwater.journal import happened
from headwater.terminal.output import JsonOption, console, print_json

TOKEN_VARIABLE = "HEADWATER_SERVE_TOKEN"
Recent = Callable[[str], Sequence[Mapping[str, Any]]]


def dashboard(
    project: ProjectOption = Path(),
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT; one that others reach needs a token.")
    ] = "127.0.0.1:7460",
    as_json: JsonOption = False,
) -> None:
    """Show in a browser how a project stands, whether a runner is at work or not; until stopped.

    It reads the warehouse, and changes nothing. 'headwater run --serve' tells more.
    """
    from headwater.project.project import Project

    Project.open(project, only=())  # says so if there is none
    stop = threading.Event()
    with (
        stopped_by_signals(stop, b"headwater: stopping\n"),
        served("--listen", listen, project, as_json),
    ):
        stop.wait()


@contextmanager
def served(
    option: str, listen: str, folder: Path, as_json: bool, recent: Recent | None = None
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Serve meanwhile how a project stands; what is yielded is told by a runner how it does."""
    from headwater.project.setting_values import is_loopback

    host, port = address_of_option(option, listen)
    token = token_in(TOKEN_VARIABLE)
    if not is_loopback(host) and not token:
        raise InputError(
            f"{option} {listen}: others reach this address, and nothing says who may ask.",
            f"Give a token in {TOKEN_VARIABLE}, or an address of this machine alone.",
        )
    try:
        from headwater.dashboard.board import Board
        from headwater.dashboard.server import Server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise InputError(
            f"{option} needs {error.name}, which is not installed.",
            "Install the extra: pip install 'headwater[serve]'.",
        ) from None
    board = Board(folder, recent is not None, recent or (lambda view: ()))
    server = Server(board, host, port, token)
    server.start()
    happened("server", state="serving", at=server.address)
    try:
        _tell(server.address, bool(token), is_loopback(host), as_json)
        yield board.tell
    finally:
        server.stop()


def _tell(address: str, has_token: bool, is_near: bool, as_json: bool) -> None:
    if as_json:
        print_json({"event": "serving", "address": address})
        return
    console().print(f"● how it stands is shown at {address}")
    if not has_token:
        console().print("  without a token: everybody on this machine may look, and see rows")
    elif not is_near:
        console().print("  without TLS: who is between sees the token; let a proxy do TLS")
