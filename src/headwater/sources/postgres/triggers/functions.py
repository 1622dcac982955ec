"""The functions that triggers run: they write changed rows into the log table.

They run inside the application's transactions, whoever writes, with the rights of the role
that ran setup; the log could otherwise be forged by everybody who may write. So nothing in them
depends on the writer: types, functions and operators are those of `pg_catalog`, temporary
objects come last, and values become text by their types' output functions, never by casts, which
a table's owner could define. And nothing is read but the row that was changed: to read a table
is to plan, which evaluates what its owner has put into indexes, statistics and generated columns.
So TRUNCATE, which shows no rows, is a gap.

They never fail because a column was dropped or altered: each value that is left is logged, a
lost one as NULL, and behind the values the names of those that were lost: a column may be back
under its name before anybody looks at the catalog. The watch over it says which columns still mean
something. Rows whose logged columns stay as they are leave no trace, unless one was lost.
A composite value with a NULL in it is neither NULL nor NOT NULL, but distinct from NULL.

Bodies are literals and names identifiers, both quoted by the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from headwater.sources.postgres.types import Table

VERSION = 3
_SETTINGS = """
SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO' SET TimeZone = 'UTC'
SET IntervalStyle = 'postgres' SET lc_monetary = 'C' SET bytea_output = 'hex'
SET extra_float_digits = 3 SET row_security = off
SET constraint_exclusion = off
"""
_CREATE = """
CREATE OR REPLACE FUNCTION {function}() RETURNS pg_catalog.trigger LANGUAGE plpgsql
SECURITY DEFINER {settings} AS {body}
"""
_ROWS = """-- {version}
DECLARE
  before pg_catalog.text[] COLLATE pg_catalog."C";
  after pg_catalog.text[] COLLATE pg_catalog."C";
BEGIN
  BEGIN
    IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' THEN before := {old}; END IF;
    IF TG_OP OPERATOR(pg_catalog.<>) 'DELETE' THEN after := {new}; END IF;
  EXCEPTION WHEN OTHERS THEN
    IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' THEN before := {left}(OLD, {names}); END IF;
    IF TG_OP OPERATOR(pg_catalog.<>) 'DELETE' THEN after := {left}(NEW, {names}); END IF;
  END;
  IF before IS DISTINCT FROM after
    OR pg_catalog.cardinality(coalesce(after, before)) OPERATOR(pg_catalog.>) {number}
  THEN
    INSERT INTO {log} (relation, shape, old, new) VALUES (TG_RELID, {shape}, before, after);
  END IF;
  RETURN NULL;
END
"""
# A name alone is a column or an error. Behind a dot, `($1).name`, one that is gone would be called
# as a function of the row, and some of the catalog's call casts.
_LEFT = """-- {version}
DECLARE
  found pg_catalog.text[];
  lost pg_catalog.text[];
  value pg_catalog.text;
  name pg_catalog.text;
BEGIN
  FOREACH name IN ARRAY names LOOP
    BEGIN
      EXECUTE pg_catalog.format(
        'SELECT CASE WHEN %1$I IS DISTINCT FROM NULL THEN pg_catalog.format(''%%s'', %1$I) END'
        ' FROM (SELECT ($1).*) AS %2$I',
        name, CASE name WHEN 't' THEN 'u' ELSE 't' END) INTO value USING whole;
    EXCEPTION WHEN undefined_column THEN
      value := NULL;
      lost := pg_catalog.array_append(lost, name);
    END;
    found := pg_catalog.array_append(found, value);
  END LOOP;
  RETURN pg_catalog.array_cat(found, lost);
END
"""
_TRUNCATED = """-- {version}
BEGIN
  INSERT INTO {log} (relation, note) VALUES (TG_RELID, 'the log does not hold the rows');
  RETURN NULL;
END
"""


@dataclass(frozen=True)
class Logging:
    """How one table is logged: its columns, and the functions in the log's schema."""

    schema: str
    table: Table

    @property
    def columns(self) -> tuple[str, ...]:
        """What views use, and the key."""
        wanted = {column.name for column in self.table.wanted} | set(self.table.key)
        return tuple(column.name for column in self.table.columns if column.name in wanted)

    @property
    def shape(self) -> int:
        """The number by which logged rows say which columns they have."""
        text = "\0".join(self.columns).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:7])

    @property
    def rows(self) -> str:
        """The name of the function for changed rows."""
        return f"rows_{self.table.oid}"

    @property
    def truncated(self) -> str:
        return f"truncated_{self.table.oid}"

    @property
    def bodies(self) -> dict[str, str]:
        """The source of each function, by its name."""
        parts = {
            "version": sql.SQL(self._version),
            "log": sql.Identifier(self.schema, "log"),
            "names": array(map(sql.Literal, self.columns)),
            "shape": sql.Literal(self.shape),
            "number": sql.Literal(len(self.columns)),
            "old": _values("OLD", self.columns),
            "new": _values("NEW", self.columns),
            "left": sql.Identifier(self.schema, LEFT),
        }
        texts = {self.rows: _ROWS, self.truncated: _TRUNCATED}
        return {name: sql.SQL(text).format(**parts).as_string(None) for name, text in texts.items()}

    @property
    def _version(self) -> str:
        """With the columns' types: sessions plan their function anew when one was altered."""
        kept = set(self.columns)
        kinds = [f"{c.oid}.{c.modifier}" for c in self.table.columns if c.name in kept]
        return f"{VERSION} {' '.join(kinds)}"


TAG = "tag"
"""The function by which applications tag a transaction as a part of a global one."""
TAGGED = "tag "
"""With what the note of such a row of the log begins."""
_TAG = """-- {version}
BEGIN
  INSERT INTO {log} (note)
  VALUES (pg_catalog.concat({tagged}, pg_catalog.jsonb_build_object('id', id, 'parts', parts)));
END
"""
LEFT = "values_left"
"""The function that takes what is left of a row whose table was altered."""
VALUES_LEFT = sql.SQL(_LEFT).format(version=sql.SQL(str(VERSION))).as_string(None)
"""Its source."""


def create_function(schema: str, name: str, body: str) -> list[sql.Composed]:
    function = sql.Identifier(schema, name)
    return [
        sql.SQL(_CREATE).format(
            function=function, settings=sql.SQL(_SETTINGS), body=sql.Literal(body)
        ),
        sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(function),
    ]


def create_values_left(schema: str) -> list[sql.Composed]:
    """The helper has no rights of its own: only functions with the definer's rights call it."""
    function = sql.SQL("{}(whole anyelement, names pg_catalog.text[])").format(
        sql.Identifier(schema, LEFT)
    )
    return [
        sql.SQL(
            "CREATE OR REPLACE FUNCTION {} RETURNS pg_catalog.text[] LANGUAGE plpgsql {} AS {}"
        ).format(function, sql.SQL(_SETTINGS), sql.Literal(VALUES_LEFT)),
        sql.SQL("REVOKE ALL ON FUNCTION {}(anyelement, pg_catalog.text[]) FROM PUBLIC").format(
            sql.Identifier(schema, LEFT)
        ),
    ]


def tag_body(schema: str) -> str:
    """The source of the function that tags."""
    parts = {
        "version": sql.SQL(str(VERSION)),
        "log": sql.Identifier(schema, "log"),
        "tagged": sql.Literal(TAGGED),
    }
    return sql.SQL(_TAG).format(**parts).as_string(None)


def create_tag(schema: str) -> list[sql.Composed]:
    """It writes into the log with the rights of whoever ran setup, for those who may call it."""
    function = sql.SQL("{}(id pg_catalog.text, parts pg_catalog.int4)").format(
        sql.Identifier(schema, TAG)
    )
    return [
        sql.SQL(
            "CREATE OR REPLACE FUNCTION {} RETURNS pg_catalog.void LANGUAGE plpgsql "
            "SECURITY DEFINER {} AS {}"
        ).format(function, sql.SQL(_SETTINGS), sql.Literal(tag_body(schema))),
        sql.SQL("REVOKE ALL ON FUNCTION {}(pg_catalog.text, pg_catalog.int4) FROM PUBLIC").format(
            sql.Identifier(schema, TAG)
        ),
    ]


def _values(row: str, columns: tuple[str, ...]) -> sql.Composed:
    value = (
        "CASE WHEN {row}.{name} IS DISTINCT FROM NULL "
        "THEN pg_catalog.format('%s', {row}.{name}) END"
    )
    return array(
        sql.SQL(value).format(row=sql.SQL(row), name=sql.Identifier(name)) for name in columns
    )


def array(values: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL("ARRAY[{}]::pg_catalog.text[]").format(sql.SQL(", ").join(values))
