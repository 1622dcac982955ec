"""How the command ends when something goes wrong: a sentence, never a traceback.

What was raised on purpose is said as it is. Anything else is a fault of Headwater's own: the
details go to a file that only the user may read, since they may hold values, and the sentence
names it. HEADWATER_DEBUG=1 prints them instead.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer.core

from headwater.errors import HeadwaterError
from headwater.storage.bucket import StoreError
from headwater.terminal.output import print_error, visible
from headwater.warehouse.own_files import store_trouble

FAULT = 70
"""Exit code of a fault of Headwater's own, as sysexits.h has it."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
DEBUG = "HEADWATER_DEBUG"


class Commands(typer.core.TyperGroup):
    """Commands of which a wrong use is told without characters that would steer a terminal."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _harmless():
            return super().make_context(*arguments, **more)

    def invoke(self, *arguments: Any) -> Any:
        with _harmless():
            return super().invoke(*arguments)


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if tell := getattr(error, "format_message", None):
            said = "\n".join(visible(line.expandtabs(4)) for line in tell().split("\n"))
            error.format_message = lambda: said  # type: ignore[attr-defined]  # of Click's errors
        raise


@contextmanager
def told() -> Iterator[None]:
    """Whatever is raised inside ends the process with a sentence and an exit code."""
    threading.excepthook = _told_of_a_thread
    if not _debugging():  # libraries log tracebacks too: of a lost connection to Spark, say
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        yield
    except HeadwaterError as error:
        for problem in getattr(error, "problems", (error,)):
            print_error(problem)
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if ended.code == INTERRUPTED and _by_keyboard(ended):
            print_error("interrupted.")
        raise
    except KeyboardInterrupt:  # before a command has begun; later typer turns it into an exit
        print_error("interrupted.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except StoreError as error:
        print_error(store_trouble(error))
        sys.exit(HeadwaterError.exit_code)
    except Exception as error:
        tell_fault(error)
        sys.exit(FAULT)


def _debugging() -> bool:
    return os.environ.get(DEBUG) == "1"


def _by_keyboard(ended: SystemExit) -> bool:
    """Whether Ctrl-C has ended the command: typer keeps it as the cause."""
    return isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt)


def tell_fault(error: BaseException, where: str = "") -> None:
    """One sentence about a fault of Headwater's own, and where its details are."""
    details = "".join(traceback.format_exception(error))
    if _debugging():
        sys.stderr.write(details)
    kind = type(error).__name__
    print_error(
        f"this is a fault of Headwater{where}: {kind}. {_kept(details)} "
        "Please report it, after a look whether the details hold anything secret."
    )


def _kept(details: str) -> str:
    """Where the details are, for the user alone."""
    try:
        number, path = tempfile.mkstemp(prefix="headwater-fault-", suffix=".txt")  # mode 0600
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(details)
    except OSError:
        return f"{DEBUG}=1 shows the details."
    return f"The details are in {path}."


def _told_of_a_thread(about: threading.ExceptHookArgs) -> None:
    if about.exc_value is not None and about.exc_type is not SystemExit:
        name = about.thread.name if about.thread else "unknown"
        tell_fault(about.exc_value, f", in its thread {name}")
