"""`headwater node`: the process beside one source, for views that are maintained by rings."""

from __future__ import annotations

import logging
import threading
from functools import partial
from pathlib import Path

from headwater import __version__
from headwater.cli.logs import (
    LOG_SIZE,
    LogFileOption,
    LogFormatOption,
    LogLevelOption,
    Logs,
    LogSizeOption,
    logged,
)
from headwater.cli.running import stopped_by_signals
from headwater.cli.sources import ProjectOption, SourceArgument
from headwater.errors import InputError
from headwater.journal import happened
from headwater.terminal.output import JsonOption, console, print_json

_MARKS = {"connected": "●", "waiting": "○", "view": " "}


def node(
    source: SourceArgument,
    project: ProjectOption = Path(),
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    log_file: LogFileOption = None,
    log_size: LogSizeOption = LOG_SIZE,
    as_json: JsonOption = False,
) -> None:
    """Stand beside a source for views that USE rings or rings-star, until stopped.

    It connects to the runner, which [nodes] names, and again whenever the connection is lost. It
    keeps nothing: it may be ended and started at any time, and no update is lost. Needs the
    settings of the source, with node = "by itself"; no views, if the relations are listed there.
    """
    from headwater.nodes.beside import NodeProcess
    from headwater.nodes.settings import of_node
    from headwater.project.project import open_source
    from headwater.project.settings import (
        FILE,
        nodes_settings,
        read_document,
        source_settings,
        warehouse_in,
    )

    path = project / FILE
    document = read_document(path)
    if source_settings(path, document, source).node != "by itself":
        raise InputError(
            f"{path}: sources.{source}: its node is in the runner.",
            'Write node = "by itself" there for a node in a process of its own.',
        )
    warehouse = warehouse_in(path, document)
    meeting = partial(of_node, nodes_settings(path, document), project, warehouse, __version__)
    told: list[str] = []

    def tell(what: str, sentence: str) -> None:
        if [what, sentence] == told:
            return  # it was said already
        told[:] = [what, sentence]
        level = logging.WARNING if what == "waiting" else logging.INFO
        happened("node", level, source=source, state=what, because=sentence)
        if logs.are_shown and not as_json:
            return
        if as_json:
            print_json({"event": what, "source": source, "message": sentence})
        else:
            console().print(f"{_MARKS[what]} {sentence}")

    stop = threading.Event()
    logs = Logs(log_format, log_level, log_file, log_size)
    with logged(logs), stopped_by_signals(stop, b"headwater: stopping\n"):
        NodeProcess(source, meeting, partial(open_source, project, source), tell).run(stop)
    if as_json:
        print_json({"event": "stopped", "source": source})
