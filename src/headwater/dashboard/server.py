"""The HTTP server of a board: a thread of its own that answers from what was told last.

Only this module knows Starlette and uvicorn, the extra `headwater[serve]`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from headwater.dashboard import details, health, metrics
from headwater.dashboard.board import Board
from headwater.dashboard.guard import Guard
from headwater.errors import HeadwaterError, InputError

_LOOK_S = 0.1
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_CONNECTIONS = 64
_END_S = 5.0


class Server:
    """`start`, then `stop`; port 0 is one that is free."""

    def __init__(self, board: Board, host: str, port: int, token: str = "") -> None:
        self._board, self._host, self._port = board, host, port
        app = Guard(application(board), token)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                http="h11",
                loop="asyncio",
                server_header=False,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._listener: socket.socket | None = None

    @property
    def address(self) -> str:
        """Where it is asked, once it has started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def start(self) -> None:
        """Listen; HeadwaterError if that cannot be."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._listener = socket.create_server((self._host, self._port), family=family)
        except OSError as error:
            raise HeadwaterError(
                f"Nothing can be served at {self._host}:{self._port}: {error.strerror}.",
                "Give another address, or end what listens there.",
            ) from None
        self._port = self._listener.getsockname()[1]
        self._board.start()
        self._thread.start()

    def stop(self) -> None:
        self._board.stop()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_S)
        if self._listener is not None:
            self._listener.close()

    def _run(self) -> None:
        assert self._listener is not None
        self._server.run(sockets=[self._listener])


def application(board: Board) -> Starlette:
    """What is answered, of a board."""

    async def live(request: Request) -> Response:
        lives = not board.runs or health.lives(board.told_at, time.monotonic())
        return PlainTextResponse("ok\n" if lives else "silent\n", 200 if lives else 503)

    def ready(request: Request) -> Response:
        found = board.found()
        lacking = health.unready(found)
        if board.runs and board.told_at is None:
            lacking = ["The runner is starting."]
        if not found["runner"]:
            lacking = ["No runner is at work."]
        told = "\n".join(lacking) if request.scope["headwater.told"] else "not ready"
        return PlainTextResponse(
            f"{told or 'ok'}\n" if lacking else "ok\n", 503 if lacking else 200
        )

    def measured(request: Request) -> Response:
        found = board.found()
        text = metrics.text_of(found, len(found["troubles"]), found["now"])
        return Response(text, media_type=metrics.KIND)

    def state(request: Request) -> Response:
        return JSONResponse(board.found())

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(board), media_type="text/event-stream")

    routes = [
        Route("/healthz", live),
        Route("/readyz", ready),
        Route("/metrics", measured),
        Route("/api/state", state),
        Route("/events", events),
        *_pages(),
        *_details(board),
    ]
    return Starlette(routes=routes)


async def _events(board: Board) -> AsyncIterator[str]:
    """How everything stood lately, then how it stands, again and again."""
    yield f"event: history\ndata: {json.dumps(board.history.samples)}\n\n"
    sent = 0
    while not board.is_stopping:
        frame = board.frame
        if frame.number != sent:
            sent = frame.number
            yield f"event: state\ndata: {frame.text}\n\n"
        await asyncio.sleep(_LOOK_S)


def _pages() -> list[Route]:
    """The files of the page, which are read once."""
    found = []
    for file in files("headwater.dashboard").joinpath("page").iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found.append(Route(path, _page(file.read_bytes(), kind)))
    return found


def _page(content: bytes, kind: str) -> Callable[[Request], Any]:
    async def page(request: Request) -> Response:
        return Response(content, headers={"content-type": kind})

    return page


def _details(board: Board) -> list[Route]:
    """What is asked of one view; each is read in a thread of the server's."""

    def about(read: Callable[..., Any]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                return JSONResponse(read(**request.path_params))
            except HeadwaterError as error:
                status = 404 if isinstance(error, InputError) else 500
                return JSONResponse({"error": str(error)}, status)

        return answer

    def of(read: Callable[..., Any]) -> Callable[..., Any]:
        return lambda name, **more: read(board.folder, name, **more)

    return [
        Route("/api/views/{name}/definition", about(of(details.definition))),
        Route("/api/views/{name}/rows", about(of(details.rows))),
        Route("/api/views/{name}/versions", about(of(details.versions))),
        Route("/api/views/{name}/changes/{number:int}", about(of(details.changes))),
        Route("/api/views/{name}/recent", about(lambda name: list(board.recent(name)))),
    ]
