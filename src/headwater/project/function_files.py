"""Function files: `functions/*.sql`, the SQL functions that the views of a project may call."""

from __future__ import annotations

from pathlib import Path

from headwater.algebra.sql.function_statements import read_function, statements
from headwater.algebra.sql.functions import NONE, Function, Functions, telling_of
from headwater.algebra.sql.text import line_and_column
from headwater.errors import InputError
from headwater.project.settings import Problems
from headwater.project.view_files import file_text

FOLDER = "functions"


def read_functions(folder: Path, problems: Problems) -> Functions:
    """The functions of all files; one with a mistake may be left out, and is told of."""
    found: dict[str, Function] = {}
    for path in sorted(folder.glob("*.sql")):
        with problems.collecting():
            for statement in _statements(path):
                with problems.collecting():
                    _take_in(read_function(statement, str(path)), found)
    functions, mistakes = Functions(found).checked() if found else (NONE, [])
    problems.extend(mistakes)
    return functions


def _statements(path: Path) -> list[str]:
    with telling_of(str(path)):
        found = list(statements(file_text(path)))
    if not found:
        hint = "Write one, or remove the file."
        raise InputError(f"{path}: there is no function in this file.", hint)
    return found


def _take_in(function: Function, found: dict[str, Function]) -> None:
    first = found.setdefault(function.name.upper(), function)
    if first is not function:
        line, column = line_and_column(function.text.sql, function.text.tokens[0].start)
        raise InputError(
            f"{function.file}:{line}:{column}: function {function.name} is defined in {first.file} "
            "already.",
            "Names of functions differ, also without regard to case.",
        )
