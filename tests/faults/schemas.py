"""Random tables as applications have them: odd names, keys or none, cascades, NULLs, every type.

Values are drawn from few, so that rows meet in joins, statements hit, and keys clash. What a
table looks like now is kept here and follows every change of it; that is how steps know what
they can do, and views what they may name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | datetime | None


@dataclass(frozen=True)
class Kind:
    """A type as each database declares it, and the values that rows have of it."""

    name: str
    sqlite: tuple[str, ...]
    postgres: tuple[str, ...]
    mariadb: tuple[str, ...]
    values: tuple[Value, ...]


FEW_KEYS, MANY_KEYS = 8, 60
LOOSE = ("TEXT COLLATE NOCASE", "varchar(20) COLLATE utf8mb4_general_ci")
"""Their database takes more texts for equal than Headwater does."""
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "int",
            ("INTEGER", "BIGINT"),
            ("bigint", "integer"),
            ("bigint", "int"),
            (0, 1, 2, 3, 4, 5),
        ),
        Kind(
            "text",
            ("TEXT", "VARCHAR(20)", LOOSE[0]),
            ("text", "varchar(20)", "char(6)"),
            ("varchar(20) COLLATE utf8mb4_nopad_bin", LOOSE[1]),
            ("", "a", "A", "b", "ä", "x'y", 'q"t'),
        ),
        Kind("bool", ("BOOLEAN",), ("boolean",), ("boolean",), (True, False)),
        Kind(
            "decimal",
            ("DECIMAL(10,2)",),
            ("numeric(10,2)",),
            ("decimal(10,2)",),
            (Decimal("0.10"), Decimal("-2.50"), Decimal("7.00")),
        ),
        Kind("float", ("REAL",), ("double precision", "real"), ("double",), (0.5, -2.25, 1024.0)),
        Kind("bytes", ("BLOB",), ("bytea",), ("varbinary(20)",), (b"", b"\x00\xff")),
        Kind("date", ("DATE",), ("date",), ("date",), (date(2024, 2, 29), date(1899, 12, 31))),
        Kind(
            "timestamp",
            ("TIMESTAMP",),
            ("timestamp",),
            ("datetime(6)",),
            (datetime(2024, 5, 1, 12, 30), datetime(1969, 12, 31, 23, 59, 59, 5)),
        ),
        Kind(
            "timestamp_tz",
            ("TIMESTAMPTZ",),
            ("timestamptz",),
            ("timestamp(6) NULL",),
            (datetime(2024, 5, 1, 12, 30, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
        ),
    )
}
COMMON = ("int", "int", "int", "text", "text", "bool", "decimal")
TABLE_NAMES = ("orders", "Order", "group", "a b", "a  b", "naïve", 'q"t', "it's", "x-y", "T$1")
COLUMN_NAMES = (
    *("id", "ID2", "select", "from", "a b", "a  b", "ümlaut", 'q"t', "it's", "100%"),
    *("x.y", "Upper", "$headwater$", "new", "old", "rowid_", "seq", "xid", "_under"),
)


@dataclass(frozen=True)
class Column:
    name: str
    kind: str
    declared: str
    nullable: bool = True

    @property
    def values(self) -> tuple[Value, ...]:
        return KINDS[self.kind].values


@dataclass(frozen=True)
class Reference:
    """A foreign key of one column to another table's key."""

    column: str
    table: str
    target: str
    action: str


@dataclass(frozen=True)
class Table:
    """A table as it is now."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    options: str = ""
    """What stands behind the columns: WITHOUT ROWID."""

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def has(self, column: Column) -> bool:
        """Whether there is such a column of such a type."""
        return any(c.name == column.name and c.kind == column.kind for c in self.columns)

    def is_bound(self, name: str) -> bool:
        """Whether a constraint names the column, so that it cannot simply be dropped."""
        referring = {reference.column for reference in self.references}
        return name in {*self.key, *self.unique, *referring}

    def without(self, name: str) -> Table:
        return replace(self, columns=tuple(c for c in self.columns if c.name != name))

    def with_column(self, column: Column) -> Table:
        return replace(self, columns=(*self.columns, column))

    def renamed(self, old: str, new: str) -> Table:
        columns = tuple(replace(c, name=new) if c.name == old else c for c in self.columns)
        return replace(self, columns=columns)


@dataclass
class Schema:
    """The tables of one database, and the triggers of its applications."""

    tables: dict[str, Table] = field(default_factory=dict)
    triggers: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        return list(self.tables)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def random_column(random: Random, name: str, kinds: Sequence[str], dialect: str) -> Column:
    kind = KINDS[random.choice(kinds)]
    return Column(name, kind.name, random.choice(getattr(kind, dialect)))


def random_schema(random: Random, dialect: str) -> Schema:
    """One to three tables; later ones may refer to earlier ones."""
    schema = Schema()
    for name in random.sample(TABLE_NAMES, random.randint(1, 3)):
        schema.tables[name] = _random_table(random, name, schema, dialect)
    for table in list(schema.tables.values()):
        if random.random() < 0.3:
            schema.triggers += _random_trigger(random, table, schema, dialect)
    return schema


def _random_table(random: Random, name: str, schema: Schema, dialect: str) -> Table:
    names = random.sample(COLUMN_NAMES, random.randint(3, 6))
    kinds = COMMON if random.random() < 0.5 else tuple(KINDS)
    columns = [random_column(random, names[0], ("int",), dialect)]
    columns += [random_column(random, n, ("int", "text"), dialect) for n in names[1:2]]
    columns += [random_column(random, n, kinds, dialect) for n in names[2:]]
    key: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    style = random.choice(["one", "one", "two", "unique", "none"])
    if style in ("one", "two"):
        key = tuple(names[: 1 if style == "one" else 2])
        columns = [replace(c, nullable=c.name not in key) for c in columns]
    if style == "unique" or (key and random.random() < 0.4):
        unique = (random.choice(names[1:]),)
    options = " WITHOUT ROWID" if dialect == "sqlite" and key and random.random() < 0.2 else ""
    table = Table(name, tuple(columns), key, unique, (), options)
    return replace(table, references=_random_references(random, table, schema, dialect))


def _random_references(
    random: Random, table: Table, schema: Schema, dialect: str
) -> tuple[Reference, ...]:
    """To itself, or to a table that is there already."""
    targets = [t for t in (*schema.tables.values(), table) if len(t.key) == 1]
    free = [c for c in table.columns if c.name not in table.key and c.kind == "int" and c.nullable]
    if not targets or not free or random.random() < 0.6:
        return ()
    target = random.choice(targets)
    wanted = target.column(target.key[0]).declared
    free = [c for c in free if c.declared == wanted]
    if not free:
        return ()
    action = random.choice(["CASCADE", "CASCADE", "SET NULL", "NO ACTION"])
    if dialect == "mariadb":
        action = "NO ACTION"  # others change rows there without logging it, and are refused
    return (Reference(free[0].name, target.name, target.key[0], action),)


def _random_trigger(random: Random, table: Table, schema: Schema, dialect: str) -> list[str]:
    """An application's own trigger: after a row of one table came, another is changed."""
    other = random.choice(list(schema.tables.values()))
    numbers = [c for c in other.columns if c.kind == "int" and not other.is_bound(c.name)]
    if not numbers:
        return []
    target, first = quoted(other.name), f"{quoted(other.name)}.{quoted(other.columns[0].name)}"
    number = random.randint(0, 5)
    change = f"UPDATE {target} SET {quoted(numbers[0].name)} = {number} WHERE {first} = 2"
    if random.random() < 0.3:
        change = f"DELETE FROM {target} WHERE {first} = 3"
    when = random.choice(["AFTER INSERT", "BEFORE INSERT", "AFTER DELETE", "AFTER UPDATE"])
    name = quoted(f"own trigger {len(schema.triggers)}")
    if dialect == "mariadb":
        if other is table:
            return []  # which it does not allow
        return [f"CREATE TRIGGER {name} {when} ON {quoted(table.name)} FOR EACH ROW {change}"]
    if dialect == "sqlite":
        return [f"CREATE TRIGGER {name} {when} ON {quoted(table.name)} BEGIN {change}; END"]
    result = "OLD" if when.endswith("DELETE") else "NEW"
    function = quoted(f"own function {len(schema.triggers)}")
    return [
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
        f"IF pg_trigger_depth() < 3 THEN {change}; END IF; RETURN {result}; END $f$",
        f"CREATE TRIGGER {name} {when} ON {quoted(table.name)} FOR EACH ROW "
        f"EXECUTE FUNCTION {function}()",
    ]


def create_table(table: Table, name: str | None = None) -> str:
    """The statement that makes a table."""
    parts = [
        f"{quoted(c.name)} {c.declared}{'' if c.nullable else ' NOT NULL'}" for c in table.columns
    ]
    if table.key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
    if table.unique:
        parts.append(f"UNIQUE ({', '.join(map(quoted, table.unique))})")
    for reference in table.references:
        parts.append(
            f"FOREIGN KEY ({quoted(reference.column)}) REFERENCES {quoted(reference.table)} "
            f"({quoted(reference.target)}) ON DELETE {reference.action}"
        )
    return f"CREATE TABLE {quoted(name or table.name)} ({', '.join(parts)}){table.options}"


def random_value(random: Random, column: Column) -> Value:
    if column.nullable and random.random() < 0.12:
        return None
    if column.kind == "int" and not column.nullable:
        return random.randrange(random.choice([FEW_KEYS, MANY_KEYS]))
    return random.choice(column.values)
