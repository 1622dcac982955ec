"""Schema files: `schema/*.sql`, the mediated schema of a project and what tells of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headwater.algebra.sql.functions import Functions
from headwater.algebra.sql.names import closest_first, find_relation
from headwater.algebra.sql.text import RefusalError, means
from headwater.errors import InputError
from headwater.mediation.schema import NO_SCHEMA, SOURCE, MediatedSchema
from headwater.mediation.statements import Statement, read_statement, read_statements
from headwater.project.meant import known_relations
from headwater.project.settings import FILE, Problems
from headwater.project.view_files import ViewFile, file_text
from headwater.sources.settings import SourceSettings

FOLDER = "schema"


def read_schema(folder: Path, functions: Functions, problems: Problems) -> MediatedSchema:
    """The schema that all files together describe; of what is wrong it is told."""
    found: list[Statement] = []
    for path in sorted(folder.glob("*.sql")):
        with problems.collecting():
            listed = list(read_statements(file_text(path), str(path)))
            if not listed:
                message = f"{path}: there is no statement in this file."
                raise InputError(message, "Write one, or remove the file.")
            for statement in listed:
                with problems.collecting():
                    found.append(read_statement(statement, str(path)))
    schema, mistakes = MediatedSchema.of(found, functions)
    problems.extend(mistakes)
    return schema


def with_schema(
    files: Mapping[str, ViewFile], folder: Path, functions: Functions, problems: Problems
) -> tuple[dict[str, ViewFile], MediatedSchema, frozenset[str]]:
    """The view files, those that read mediated relations with the schema of these, and the schema,
    if it has no mistakes.

    Beside them the names of those that read one with mistakes.
    """
    before = len(problems)
    schema = read_schema(folder, functions, problems)
    mistakes = problems[before:]
    found, refused = {}, set()
    for name, file in files.items():
        found[name] = file
        with suppress(InputError):
            if schema and (over := replace(file, mediation=schema)).mediated:
                found[name] = over
                if mistakes:
                    refused.add(name)
                    problems.of.setdefault(name, []).extend(mistakes)
    refused |= _check_names(found, schema, problems)
    return found, NO_SCHEMA if mistakes else schema, frozenset(refused)


def _check_names(
    files: Mapping[str, ViewFile], schema: MediatedSchema, problems: Problems
) -> set[str]:
    """The views with names in them that mean a view or a mediated relation, and those that read
    such views."""
    unclear: dict[str, InputError] = {}
    for name, file in files.items():
        with suppress(InputError):
            for table in file.named_views():
                if (relation := schema.meant(table)) is not None:
                    unclear[name] = InputError(
                        f"{file.path}:{table.line}:{table.column}: {table.name} may mean view "
                        f"{table.name} and {SOURCE}.{relation}.",
                        f"Write {SOURCE}.{relation}, or give the view another name.",
                    )
    problems.extend(unclear.values())
    for name, file in files.items():
        for each in (name, *file.others):
            if each in unclear:
                problems.of.setdefault(name, []).append(unclear[each])
    return {
        name for name, file in files.items() if not unclear.keys().isdisjoint((name, *file.others))
    }


def check_sources(
    schema: MediatedSchema,
    sources: Mapping[str, SourceSettings],
    left_open: Collection[str],
    problems: Problems,
) -> None:
    """What is wrong with the tables that descriptions name, as far as settings tell; those sources
    that are left open have what views need of them."""
    if schema and any(means(SOURCE, name) for name in sources):
        problems.append(
            InputError(
                f"{FILE}: a source is called {SOURCE}, as the mediated schema is.",
                "Give the source another name.",
            )
        )
    known = known_relations(sources)
    for place, table in schema.source_tables:
        if any(means(table.source, name) and name in left_open for name in sources):
            continue  # it is asked for what a view needs
        try:
            find_relation(table.name, table.source, known, table.within)
        except RefusalError as error:
            if table.source and not any(means(table.source, name) for name in sources):
                listed = closest_first(table.source, sources) or "none"
                message = f"there is no source {table.source}."
                hint = f"The sources in {FILE}: {listed}."
            else:
                message, hint = str(error), f"{error.hint} They are listed in {FILE}."
            problems.append(InputError(f"{place}: {message}", hint))
