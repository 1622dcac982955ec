"""The log of a process: a line for each happening, on standard error or in files that rotate.

Who tells something never waits for a disk or a terminal: lines go through a queue to a thread of
their own. Where that cannot keep up, lines are left out, and the next one says how many.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.journal import LOGGER, Happening
from headwater.terminal.output import escaped_json, visible

LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
FORMATS = ("text", "json")
_MOST_WAITING = 10_000
_LAST_LINES_S = 5.0


@dataclass(frozen=True)
class Log:
    """Where lines go, how they look, and which there are."""

    format: str = "text"
    level: str = "info"
    file: Path | None = None
    """Standard error, if there is none."""
    size: int = 10 << 20
    """How large the file becomes before the next one is begun."""
    keep: int = 5
    """How many earlier files are kept beside it."""


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.000Z info view view=amounts state=running was=loading`"""

    def format(self, record: logging.LogRecord) -> str:
        return visible(f"{_time(record)} {record.levelname.lower()} {record.getMessage()}")


class JsonLines(logging.Formatter):
    """The same as one object a line; a field keeps its type."""

    def format(self, record: logging.LogRecord) -> str:
        said = record.msg
        if not isinstance(said, Happening):
            said = Happening("message", {"message": record.getMessage()})
        head = {"time": _time(record), "level": record.levelname.lower(), "about": said.about}
        return escaped_json({**head, **said.fields})


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


@contextmanager
def written(log: Log) -> Iterator[None]:
    """What happens meanwhile is written; InputError if the file cannot be."""
    sink = _sink(log)
    sink.setFormatter(JsonLines() if log.format == "json" else TextLines())
    handler, before = _Behind(sink), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(LEVELS[log.level])
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
        handler.close()


def _sink(log: Log) -> logging.Handler:
    if log.file is None:
        return _Patient()
    try:
        return _Files(log.file, maxBytes=log.size, backupCount=log.keep, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"--log-file {log.file}: it cannot be written: {error.strerror}.",
            "Name a file in a folder that is there, and that you may write to.",
        ) from None


class _Patient(logging.StreamHandler[Any]):
    """A line that cannot be written is no reason to stop."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # logging's name
        pass


class _Files(RotatingFileHandler):
    """The same for files, which are for their user only."""

    def _open(self) -> TextIOWrapper:
        number = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return TextIOWrapper(os.fdopen(number, "ab"), self.encoding, "backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # logging's name
        pass


class _Behind(logging.Handler):
    """Hands records to another handler, in a thread of its own."""

    def __init__(self, sink: logging.Handler) -> None:
        super().__init__()
        self._sink = sink
        self._records: queue.Queue[logging.LogRecord | None] = queue.Queue(_MOST_WAITING)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:  # one at a time: logging holds our lock
        try:
            if self._left_out:
                self._records.put_nowait(_told(self._left_out))
                self._left_out = 0
            self._records.put_nowait(record)
        except queue.Full:
            self._left_out += 1

    def close(self) -> None:
        try:
            self._records.put(None, timeout=_LAST_LINES_S)
            self._thread.join(_LAST_LINES_S)
        except queue.Full:
            pass
        if not self._thread.is_alive():
            self._sink.close()
        super().close()

    def _write(self) -> None:
        while (record := self._records.get()) is not None:
            self._sink.handle(record)


def _told(count: int) -> logging.LogRecord:
    left_out = Happening("log", {"left_out": count})
    return logging.LogRecord(LOGGER.name, logging.WARNING, "", 0, left_out, None, None)
