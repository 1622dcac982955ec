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

import numpy
import pyarrow
import pyarrow.csv

from headwater.algebra.schema import Schema
from headwater.frames.arrow import arrow_schema
from headwater.sources.files.misfits import MisfitError, lacking, no_value
from headwater.sources.files.texts import PLAIN, NoValueError, Wording, column_of

csv.field_size_limit(1 << 30)
_MANY_BYTES = 4 << 20
_MARK = b"\xef\xbb\xbf"


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
    content = _as_utf8(content, dialect)
    return _texts_of(content, dialect, names)


def _texts_of(content: bytes, dialect: Dialect, names: Sequence[str]) -> pyarrow.Table:
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
    content = _as_utf8(content, dialect)
    texts = _texts_of(content, dialect, schema.names)
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


def _as_utf8(content: bytes, dialect: Dialect) -> bytes:
    """A content in UTF-8 without a mark at its beginning; MisfitError if it is none."""
    is_plain = dialect.encoding.lower() in ("utf-8", "utf8", "utf-8-sig")
    if is_plain and content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise MisfitError(
            "it begins as UTF-16 does", "Set encoding = 'utf-16' in the source's settings."
        )
    try:
        text = content.decode("utf-8" if is_plain else dialect.encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MisfitError(
            f"the byte {content[error.start]:#04x} is none of {dialect.encoding}",
            "Name the file's encoding in the source's settings.",
            line=line,
        ) from None
    if is_plain:
        return content.removeprefix(_MARK)
    return text.removeprefix("\ufeff").encode()


def _check_whole(content: bytes, dialect: Dialect) -> None:
    if content.count(dialect.quote.encode()) % 2:
        raise MisfitError(
            f"a quote ({dialect.quote}) in it is not closed: it may be cut off",
            "Write the file whole; or name its quote in the source's settings.",
        )
    if content and dialect.final_newline and not content.endswith((b"\n", b"\r")):
        raise MisfitError(
            "it does not end with a line's end: it may be cut off",
            "Write the file whole; or set final_newline = false in the source's settings.",
        )
    if not quotes_stand_around(content, dialect.quote.encode(), dialect.delimiter.encode()):
        _check_quotes(content, dialect)


def quotes_stand_around(content: bytes, quote: bytes, delimiter: bytes) -> bool:
    """Whether each quote is before or behind a whole field, or doubled: the usual case, quickly."""
    if len(quote) > 1 or len(delimiter) > 1 or quote not in content:
        return quote not in content
    found = numpy.frombuffer(b"\n" + content + b"\n", numpy.uint8)
    places = numpy.flatnonzero(found == quote[0])
    opening, closing = places[0::2], places[1::2]
    ends = numpy.frombuffer(b"\r\n" + delimiter, numpy.uint8)
    opens = numpy.isin(found[opening - 1], ends)
    closes = numpy.isin(found[closing + 1], ends)
    doubled = opening[1:] == closing[:-1] + 1
    opens[1:] |= doubled
    closes[:-1] |= doubled
    return bool(opens.all() and closes.all())


def _check_quotes(content: bytes, dialect: Dialect) -> None:
    """MisfitError if something follows the quote at a field's end."""
    reader = _reader(content, dialect, strict=True)
    try:
        for _ in reader:
            pass
    except csv.Error:
        raise MisfitError(
            f"something follows the quote ({dialect.quote}) at the end of a field: one within a "
            "field has to be doubled",
            "Have quotes within fields doubled (Spark: escape = '\"'); others are not read.",
            line=int(reader.line_num),
        ) from None


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


def _reader(content: bytes, dialect: Dialect, *, strict: bool = False) -> Any:
    return csv.reader(
        io.TextIOWrapper(io.BytesIO(content), "utf-8", newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        strict=strict,
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
