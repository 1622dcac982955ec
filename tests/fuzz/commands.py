"""Running a command here, very often: the command line is built once."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

import typer.main

from headwater.cli.main import app


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def run(*arguments: str) -> int:
    """The exit code; what is refused is raised. What is written harms no terminal."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = _command().main(list(arguments), prog_name="headwater", standalone_mode=False)
    written = (out.getvalue() + err.getvalue()).encode("utf-8")
    assert code in (None, 0, 1, 2, 3), code
    assert not set(written) & set(b"\x00\x1b"), written
    return int(code or 0)
