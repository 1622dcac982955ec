"""CSV: a file's content as an Arrow table in canonical form, and where in it something is wrong.

Arrow reads all fields as texts, which are then values of their columns' types. Where that fails the
file is read again record by record, to find the line. A content is judged whole before it counts:
as many quotes as end again, every record as long as the header, each name once.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.csv

from headwater.algebra.schema import Schema
from headwater.frames.arrow import arrow_schema
from headwater.sources.files.misfits import MisfitError, lacking, no_value
from headwater.sources.files.texts import PLAIN, NoValueError, Wording, column_of

csv.field_size_limit(1 << 30)
_MANY_BYTES = 4 << 20


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    encoding: str = "utf-8"
    nulls: tuple[str, ...] = ("",)
    """What stands for NULL where it is not in quotes."""
    final_newline: bool = True
    """Whether a file that does not end with a line's end is taken for one that is cut off."""
    wording: Wording = PLAIN


def texts_of(content: bytes, dialect: Dialect, names: Sequence[str] = ()) -> pyarrow.Table:
    """All fields as texts; `names` are the columns where there is no header."""
    _check_whole(content, dialect)
    headed = _header(content, dialect) if dialect.header else list(names)
    if dialect.header and not content.strip():
        raise MisfitError("it is empty, and should have a header at least")
    if not content.strip(b"\r\n"):
        return pyarrow.table({name: pyarrow.array([], pyarrow.string()) for name in headed})
    try:
        return pyarrow.csv.read_csv(
            io.BytesIO(content),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=len(content) > _MANY_BYTES,
                encoding=dialect.encoding,
                column_names=None if dialect.header else headed,
                block_size=max(1 << 20, min(len(content) + 1, 64 << 20)),
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote,
                newlines_in_values=True,
                ignore_empty_lines=len(headed) > 1,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(headed, pyarrow.string()),
                null_values=list(dialect.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pyarrow.ArrowException, UnicodeDecodeError, LookupError) as error:
        raise _explained(content, dialect, len(headed), error) from None


def table_of(content: bytes, schema: Schema, dialect: Dialect) -> pyarrow.Table:
    """The columns of a schema; others are passed over."""
    texts = texts_of(content, dialect, schema.names)
    if missing := [name for name in schema.names if name not in texts.column_names]:
        raise lacking(missing, texts.column_names)
    columns = []
    for column in schema.columns:
        try:
            columns.append(column_of(texts.column(column.name), column.type, dialect.wording))
        except NoValueError as error:
            line = line_of(content, dialect, error.row, len(texts.column_names))
            raise no_value(error.text, column.type, line, column.name) from None
    return pyarrow.Table.from_arrays(columns, schema=arrow_schema(schema))


def _check_whole(content: bytes, dialect: Dialect) -> None:
    if dialect.encoding.lower().replace("_", "-").startswith("utf-16"):
        text = _decoded(content, dialect)
        quotes, ends = text.count(dialect.quote), text.endswith(("\n", "\r"))
    else:
        quotes = content.count(dialect.quote.encode(dialect.encoding, "replace"))
        ends = content.endswith((b"\n", b"\r"))
    if quotes % 2:
        raise MisfitError(
            f"a quote ({dialect.quote}) in it is not closed: it may be cut off",
            "Write the file whole; or name its quote in the source's settings.",
        )
    if content and dialect.final_newline and not ends:
        raise MisfitError(
            "it does not end with a line's end: it may be cut off",
            "Write the file whole; or set final_newline = false in the source's settings.",
        )


def _header(content: bytes, dialect: Dialect) -> list[str]:
    names = next(_records(content, dialect), None)
    if not names:
        raise MisfitError("it is empty, and should have a header at least")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise MisfitError(f"its header has {twice[0]!r} twice", line=1)
    if "" in names:
        raise MisfitError(f"its header names no column {names.index('') + 1}", line=1)
    return names


def _decoded(content: bytes, dialect: Dialect) -> str:
    encoding = "utf-8-sig" if dialect.encoding.lower() in ("utf-8", "utf8") else dialect.encoding
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MisfitError(
            f"the byte {content[error.start]:#04x} is none of {dialect.encoding}",
            "Name the file's encoding in the source's settings.",
            line=line,
        ) from None


def _reader(content: bytes, dialect: Dialect) -> Any:
    return csv.reader(
        io.StringIO(_decoded(content, dialect), newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
    )


def _records(content: bytes, dialect: Dialect) -> Iterator[list[str]]:
    yield from _reader(content, dialect)


def line_of(content: bytes, dialect: Dialect, row: int, width: int) -> int:
    """The line at which a row ends; 0 if it cannot be told."""
    reader = _reader(content, dialect)
    at = -1 if dialect.header else 0
    for record in reader:
        if not record and width > 1:
            continue
        if at == row:
            return int(reader.line_num)
        at += 1
    return 0


def _explained(content: bytes, dialect: Dialect, width: int, error: Exception) -> MisfitError:
    """What is wrong, by the first record that is too short or too long."""
    reader = _reader(content, dialect)
    for record in reader:
        if record and len(record) != width:
            return MisfitError(
                f"it has {len(record)} fields, and there are {width} columns",
                line=int(reader.line_num),
            )
    return MisfitError(f"it is no CSV: {error}")
