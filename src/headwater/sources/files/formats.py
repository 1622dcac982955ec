"""The formats of files, by the settings or by the ending of a file's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow

from headwater.algebra.schema import Schema
from headwater.sources.files import csv_files, json_files, parquet_files
from headwater.sources.files.csv_files import Dialect
from headwater.sources.files.inference import schema_of_objects, schema_of_texts
from headwater.sources.files.misfits import MisfitError

ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}


@dataclass(frozen=True)
class Format:
    """How files are read; an empty name goes by the ending."""

    name: str = ""
    dialect: Dialect = field(default_factory=Dialect)
    may_be_empty: bool = False
    """Whether a file without a byte is one without a row."""

    def of(self, file: str) -> str:
        ending = "." + file.rpartition(".")[2].lower()
        found = self.name or ENDINGS.get(ending, "")
        if not found:
            raise MisfitError(
                "nothing says how it is written",
                "Name its format in the source's settings; or move it away if it is none of its "
                "files.",
                file=file,
            )
        return found

    def _check(self, file: str, content: bytes) -> None:
        """MisfitError with what can be told of a content before it is read."""
        packed = next((name for begin, name in _PACKED.items() if content.startswith(begin)), "")
        if packed:
            raise MisfitError(
                f"it is compressed ({packed}), which is not read", "Unpack it there.", file=file
            )
        if not content and not (self.may_be_empty and self.of(file) != "parquet"):
            raise MisfitError(
                "it is empty: it may be that somebody begins to write it",
                "Write it whole; where files may be empty, set complete to 'marked' or 'renamed'.",
                file=file,
            )

    def read(self, file: str, content: bytes, schema: Schema) -> pyarrow.Table:
        """A file's rows in canonical form; MisfitError with the place."""
        self._check(file, content)
        try:
            match self.of(file):
                case "csv":
                    return csv_files.table_of(content, schema, self.dialect)
                case "jsonl":
                    return json_files.table_of(content, schema)
            return parquet_files.table_of(content, schema)
        except MisfitError as error:
            error.file = file
            raise

    def infer(self, file: str, content: bytes) -> tuple[Schema, dict[str, str]]:
        """The columns that a file has, and why some cannot be used."""
        self._check(file, content)
        try:
            match self.of(file):
                case "csv":
                    if not self.dialect.header:
                        raise MisfitError(
                            "it has no header, so nobody knows its columns",
                            "Declare them in columns of the source's settings.",
                        )
                    texts = csv_files.texts_of(content, self.dialect)
                    return schema_of_texts(texts, self.dialect.wording)
                case "jsonl":
                    return schema_of_objects(found for _, found in json_files.objects_of(content))
            return parquet_files.schema_of(content)
        except MisfitError as error:
            error.file = file
            raise


def empty(schema: Schema) -> pyarrow.Table:
    from headwater.frames.arrow import arrow_schema

    return arrow_schema(schema).empty_table()


def together(tables: Sequence[pyarrow.Table], schema: Schema) -> pyarrow.Table:
    return pyarrow.concat_tables(tables) if tables else empty(schema)
