"""Options of the commands that run for long: what they log, how it looks, and where it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headwater.errors import InputError


class LogFormat(Enum):
    text = "text"
    json = "json"


class LogLevel(Enum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Log every change of state, a line each."),
]
LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="Which lines; with debug each transaction and question too."),
]
LogFileOption = Annotated[
    Path | None,
    typer.Option("--log-file", help="Where to, in place of standard error; it is rotated."),
]
LogSizeOption = Annotated[
    str, typer.Option("--log-size", help="How large the file becomes; five earlier ones are kept.")
]
LOG_SIZE = "10 MB"


@dataclass(frozen=True)
class Logs:
    """What the options say; nothing is logged if none of them is given."""

    format: LogFormat | None = None
    level: LogLevel | None = None
    file: Path | None = None
    size: str = LOG_SIZE

    @property
    def are_wanted(self) -> bool:
        return any(each is not None for each in (self.format, self.level, self.file))

    @property
    def are_shown(self) -> bool:
        """Whether they go where other things are shown."""
        return self.are_wanted and self.file is None


@contextmanager
def logged(logs: Logs) -> Iterator[None]:
    """What happens meanwhile is logged, if that is wanted."""
    with _written(logs) if logs.are_wanted else nullcontext():
        yield


@contextmanager
def _written(logs: Logs) -> Iterator[None]:
    from headwater.sources.settings import parse_size
    from headwater.terminal.log_lines import Log, written

    try:
        size = parse_size(logs.size)
    except ValueError as error:
        raise InputError(f"--log-size {logs.size}: it {error}.") from None
    form, level = logs.format or LogFormat.text, logs.level or LogLevel.info
    with written(Log(form.value, level.value, logs.file, size)):
        yield
