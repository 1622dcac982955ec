"""`headwater run`: a project maintained until somebody stops it, and how that is shown."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.later import BARE
from headwater.cli.logs import (
    LOG_SIZE,
    LogFileOption,
    LogFormatOption,
    LogLevelOption,
    Logs,
    LogSizeOption,
    logged,
)
from headwater.cli.sources import ProjectOption
from headwater.errors import HeadwaterError
from headwater.journal import happened
from headwater.terminal.output import JsonOption, console, print_json

if TYPE_CHECKING:
    from headwater.pipeline.runner import Runner

Look = Callable[[Mapping[str, Any]], None]
"""Is told how everything stands, several times a second."""
_RESTS = 20
"""How many times as long as it took nobody looks again at how a run goes."""
_STOPPING = b"headwater: stopping; what is ready is committed first\n"


def run(
    project: ProjectOption = Path(),
    once: Annotated[
        bool, typer.Option("--once", help="Stop where the sources are when it starts.")
    ] = False,
    serve: Annotated[
        str | None,
        typer.Option(
            "--serve",
            metavar="[HOST:PORT]",
            help=f"Serve a dashboard, health and metrics; at {BARE['--serve']} if none is given.",
        ),
    ] = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    log_file: LogFileOption = None,
    log_size: LogSizeOption = LOG_SIZE,
    as_json: JsonOption = False,
) -> None:
    """Load what is not loaded, then maintain every view until stopped.

    A view whose file has a mistake stands still, and the others go on. With --once it exits with 1
    if a view stands still, or if an error in its rows keeps readers from seeing its newest state.
    """
    from headwater.pipeline.runner import Runner
    from headwater.pipeline.sessions import session_of
    from headwater.project.project import Project

    logs = Logs(log_format, log_level, log_file, log_size)
    with logged(logs):
        opened = Project.open(project, only=())
        runner = Runner(opened, session_of(opened))
        with _served(serve, runner, as_json) as looks:
            keep_running(runner, once, as_json, as_json or not logs.are_shown, looks)


@contextmanager
def _served(serve: str | None, runner: Runner, as_json: bool) -> Iterator[Sequence[Look]]:
    if serve is None:
        yield ()
        return
    from headwater.cli.dashboard import served

    with served("--serve", serve, runner.project.folder, as_json, runner.recent) as tell:
        yield (tell,)


def keep_running(
    runner: Runner,
    once: bool,
    as_json: bool = False,
    is_shown: bool = True,
    looks: Sequence[Look] = (),
) -> None:
    """Run until told to stop, or until everything is reflected; shows how it goes."""
    from headwater.errors import StoppedError
    from headwater.pipeline import api
    from headwater.terminal.live import show

    stop = threading.Event()
    try:
        with stopped_by_signals(stop), show(as_json) if is_shown else nullcontext() as look:
            all_looks = [*looks, look] if look is not None else looks
            undone = api.keep_running(runner, once, stop, _unimpressed(runner, all_looks))
    except HeadwaterError as error:
        happened("runner", logging.ERROR, state="ended", because=str(error))
        raise
    finally:
        if as_json:
            print_json({"event": "stopped", **runner.describe()})
        elif runner.lease.epoch:  # else it was refused before anything was done
            _print_stopped(runner)
    if undone:
        raise StoppedError(f"Stopped before {undone}.", "The next run goes on from there.")


def _unimpressed(runner: Runner, looks: Sequence[Look]) -> Callable[[], None]:
    """Views go on when what is shown cannot be written, to a full disk for example; and looking at
    hundreds of them takes a few per cent of the time at most."""
    due = 0.0

    def looked() -> None:
        nonlocal due
        began = time.monotonic()
        if looks and began >= due:
            found = runner.describe()
            for look in looks:
                with suppress(OSError):
                    look(found)
            due = time.monotonic() + _RESTS * (time.monotonic() - began)

    return looked


def _print_stopped(runner: Runner) -> None:
    from headwater.pipeline.status import unpublished

    out, found = console(), runner.describe()
    for told in unpublished(found):
        out.print(f"✗ {told}")
    for name, view in found["views"].items():
        match view["state"]:
            case "running":
                commits, rows = view.get("commits", 0), view.get("rows", 0)
                mark = "✗" if name in runner.held_back else "✓"
                behind = "; readers see an earlier state" if name in runner.held_back else ""
                out.print(f"{mark} {name}: {commits:,} commits, {rows:,} changed rows{behind}")
            case "waiting" | "stopped" if view["message"]:
                out.print(f"✗ {name}: stopped")
            case _:
                out.print(f"○ {name}: not loaded; the next run loads it")
        if view["note"]:
            out.print(f"○ {name}: {view['note']}")


@contextmanager
def stopped_by_signals(stop: threading.Event, said: bytes = _STOPPING) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask to stop; a second Ctrl-C stops at once."""

    def ask(number: int, frame: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()
        with suppress(OSError):
            os.write(2, said)

    before = {s: signal.signal(s, ask) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
