"""The settings of files as a source, as `headwater.toml` has them."""

from __future__ import annotations

import codecs
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from headwater.algebra.schema import Schema
from headwater.algebra.values import parse_type
from headwater.sources.contract import Source
from headwater.sources.settings import KeptSettings, LocalPath, Seconds

_MERGES = (
    "of files that take each other's place only those are seen that are there when it is looked"
)


def _columns(value: object) -> object:
    """Types that there are, by relation and column."""
    if isinstance(value, dict):
        for columns in value.values():
            for kind in columns.values() if isinstance(columns, dict) else ():
                if isinstance(kind, str):
                    parse_type(kind)
    return value


def _one(value: str) -> str:
    if len(value) != 1:
        raise ValueError("is not one character")
    return value


def _encoding(value: str) -> str:
    try:
        return codecs.lookup(value).name
    except LookupError:
        raise ValueError("is no encoding that is known: write one such as 'utf-8'") from None


def _inside(value: dict[str, str]) -> dict[str, str]:
    for path in value.values():
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or not path:
            raise ValueError("has a path that does not lead into the source's folder")
    return value


Columns = Annotated[dict[str, dict[str, str]], BeforeValidator(_columns)]


class FilesSettings(KeptSettings):
    """CSV, Parquet or JSON lines in a folder: snapshots, or reports of changes."""

    kind: Annotated[Literal["files"], Field(description="The kind of database.")]
    path: Annotated[
        LocalPath,
        Field(description="The folder that the files are in, relative to the project."),
    ]
    layout: Annotated[
        Literal["current", "series", "changes"],
        Field(
            description="What is in the folder: files that take each other's place, a folder for "
            "each snapshot, or reports of changes."
        ),
    ] = "current"
    complete: Annotated[
        Literal["still", "marked", "renamed"],
        Field(
            description="When a file counts: when it has not changed for a while, when there is a "
            "marker, or at once, because it is written elsewhere and then renamed."
        ),
    ] = "still"
    still_s: Annotated[
        Seconds, Field(description="For how many seconds a file may not have changed.")
    ] = 1.0
    marker: Annotated[str, Field(min_length=1, description="The marker's name.")] = "_SUCCESS"
    format: Annotated[
        Literal["csv", "parquet", "jsonl"] | None,
        Field(description="How files are written; left out, their names' endings say it."),
    ] = None
    files: Annotated[
        dict[str, str],
        AfterValidator(_inside),
        Field(description="Files or folders of relations that are named otherwise."),
    ] = {}  # noqa: RUF012 (pydantic gives each object its own)
    columns: Annotated[
        Columns,
        Field(
            description="The columns of relations, with their types; left out, the first file's."
        ),
    ] = {}  # noqa: RUF012 (pydantic gives each object its own)
    operation: Annotated[
        str, Field(min_length=1, description="The column of reports that has the operation.")
    ] = "op"
    numbered: Annotated[
        bool,
        Field(description="Whether names have numbers that follow each other without a gap."),
    ] = False
    delimiter: Annotated[
        str, AfterValidator(_one), Field(description="What is between two fields of a CSV file.")
    ] = ","
    quote: Annotated[
        str, AfterValidator(_one), Field(description="What is around fields of a CSV file.")
    ] = '"'
    header: Annotated[
        bool, Field(description="Whether a CSV file begins with its columns' names.")
    ] = True
    encoding: Annotated[
        str, AfterValidator(_encoding), Field(description="The encoding of CSV files.")
    ] = "utf-8"
    nulls: Annotated[
        list[str], Field(description="What is NULL in a CSV file where it has no quotes.")
    ] = [""]  # noqa: RUF012 (pydantic gives each object its own)
    final_newline: Annotated[
        bool,
        Field(description="Whether a CSV file that ends within a line is taken for cut off."),
    ] = True
    decimal_mark: Annotated[
        Literal[".", ","], Field(description="What is before the decimals of numbers in CSV files.")
    ] = "."
    date_format: Annotated[
        str | None,
        Field(description="How dates are written in CSV files, such as '%d.%m.%Y'; else as ISO."),
    ] = None
    timestamp_format: Annotated[
        str | None, Field(description="How timestamps are written in CSV files; else as ISO.")
    ] = None
    look_every_s: Annotated[
        Seconds, Field(description="How often, in seconds, it is looked for new files.")
    ] = 0.5

    @property
    def merges(self) -> str:
        return _MERGES if self.layout == "current" else ""

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        from headwater.sources.files.source import FilesSource

        return FilesSource(
            name,
            project / self.path,
            self.listed,
            self.keys,
            self._as_options(),
            place=self.place_of(name),
            look_every_s=self.look_every_s,
        )

    def _as_options(self) -> Any:
        from headwater.sources.files.csv_files import Dialect
        from headwater.sources.files.formats import Format
        from headwater.sources.files.options import FilesOptions
        from headwater.sources.files.texts import Wording

        wording = Wording(self.decimal_mark, self.date_format or "", self.timestamp_format or "")
        dialect = Dialect(
            self.delimiter,
            self.quote,
            self.header,
            self.encoding,
            tuple(self.nulls),
            self.final_newline,
            wording,
        )
        schemas = {
            relation: Schema.of((name, parse_type(kind)) for name, kind in columns.items())
            for relation, columns in self.columns.items()
        }
        return FilesOptions(
            layout=self.layout,
            complete=self.complete,
            marker=self.marker,
            still_s=self.still_s,
            format=Format(self.format or "", dialect, self.complete != "still"),
            columns=schemas,
            named=self.files,
            operation=self.operation,
            numbered=self.numbered,
        )
