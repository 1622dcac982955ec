"""The triggers that log the changes of one table, with the rows that REPLACE removes.

Each insertion, update and deletion fires a trigger after it. If nothing else has happened since
it began, OLD and NEW are the whole truth, and are logged.

Otherwise they are not. REPLACE removes rows without a trigger, unless the writer has set
`recursive_triggers`; and while a change is under way, others happen inside it, by the
application's triggers and by the actions of foreign keys. They change the very row, so that OLD
is out of date, or bring new rows into the way. So a row is put **aside**, as the log has it, before
anything can happen to it that its own trigger does not tell: what is in the way of a change,
what was written inside another change, and both places of a row if foreign keys act on its change
before it can be logged. After each change the rows aside that it may have touched are compared
with the table; what differs is logged, and is aside from then on. To compare one more row is never
wrong, only slow. When the outermost change ends, all of them are, and nothing stays aside.

`open` counts the changes under way, too many rather than too few (an ignored one has no end),
until the next statement, which is known by its time: SQLite's clock stands still while a
statement runs. What is still aside then must be as the table has it.

What cannot be known is logged as a gap (`_note`).

Of several triggers after one change ours should be the first, or there will be gaps. SQLite fires
the youngest first, so the setup makes ours anew when it is run, and `standing` looks for younger
ones. A writer's TEMP triggers always come before.

No statement here can meet a conflict, because the conflict clause of the writer's statement
would decide what happens then. Only the triggers of the table itself name it: others would
outlive it, and SQLite then refuses to rename another table to its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.sources.sqlite.described import TableShape
from headwater.sources.sqlite.names import Names
from headwater.sources.sqlite.uniques import Comparison, Reference, Unique, literal, quoted

INSERTED, DELETED, UPDATED, GAP = 1, 2, 3, 4
_LATE = "a trigger that fires before Headwater's changed a row which was just written"
_MIXED = "a trigger changed a row before its own update in a column that is part of a unique key"
_CUT_SHORT = "a row was removed or moved by what its own UPDATE OR REPLACE replaced"
_FILLED = "a NULL was to become a default that a unique generated column may depend on"
LEFT = "a statement ended in the middle of a change"
_NOW = "julianday('now')"


@dataclass(frozen=True)
class Logging:
    """How one relation is logged: from what shape, under which number, which columns where."""

    names: Names
    shape: TableShape
    number: int
    slots: tuple[tuple[str, int], ...]

    @property
    def kept(self) -> tuple[str, ...]:
        return self.shape.kept([column for column, _ in self.slots])

    def renamed(self, names: Mapping[str, str]) -> Logging:
        """The same, as SQLite writes it after columns were renamed."""
        shape = replace(
            self.shape,
            columns=tuple(names.get(column, column) for column in self.shape.columns),
            primary=tuple(names.get(column, column) for column in self.shape.primary),
            uniques=tuple(unique.renamed(names) for unique in self.shape.uniques),
            defaults=tuple((names.get(c, c), default) for c, default in self.shape.defaults),
            keys=tuple(names.get(column, column) for column in self.shape.keys),
            followed=tuple(names.get(column, column) for column in self.shape.followed),
        )
        slots = tuple((names.get(column, column), slot) for column, slot in self.slots)
        return replace(self, shape=shape, slots=slots)

    def triggers(self) -> dict[str, str]:
        """The name of each trigger, and the statement that makes it, the first to fire last."""
        return _Statements(self).triggers()

    def unlogged(self) -> str:
        """Finds rows aside that are not what the table has: none, when no change is under way."""
        return _Statements(self).unlogged()

    def aside_statements(self) -> list[str]:
        """The table for rows that may be replaced, with an index for each way to find them."""
        aside = self.names.aside(self.number)
        kept = self.kept
        by = [f"b{at}" for at in range(len(self.shape.identity))]
        values = (f"{letter}{at}" for letter in "cd" for at in range(len(kept)))
        rowid = "place INTEGER PRIMARY KEY"  # a rowid with a name, which VACUUM keeps
        columns = ", ".join([rowid, "seen", "there", *by, *values])
        statements = [f"CREATE TABLE {aside} ({columns})"]
        for at, unique in enumerate(self.shape.uniques):
            if all(term.is_column and term.text in kept for term in unique.terms):
                terms = ", ".join(
                    f"c{kept.index(term.text)} COLLATE {quoted(term.collation)}"
                    for term in unique.terms
                )
                statements.append(f"CREATE INDEX {aside}_{at} ON {aside} ({terms})")
        return statements


class _Statements:
    def __init__(self, logging: Logging) -> None:
        shape, names = logging.shape, logging.names
        self._shape = shape
        self._names = names
        self._number = logging.number
        self._slots = logging.slots
        self._kept = logging.kept
        self._head, self._log = names.head, names.log
        self._aside = names.aside(logging.number)
        self._on = quoted(shape.name)
        self._compare = Comparison(shape.name, shape.columns)
        self._identity = _identity(shape)

    def triggers(self) -> dict[str, str]:
        on = self._on
        some = f"EXISTS (SELECT 1 FROM {self._aside})"
        is_open = f"(SELECT open FROM {self._head}) > 1"
        made = {
            "insert_aside": self._put_aside(is_update=False),
            "update_aside": self._put_aside(is_update=True),
            **self._filled(),
            "before_insert": (f"BEFORE INSERT ON {on}", [self._begin()]),
            "update_own": self._put_own_of_update(),
            "delete_own": self._put_own_of_deletion(),
            "before_update": (f"BEFORE UPDATE ON {on}", [self._begin()]),
            "before_delete": (f"BEFORE DELETE ON {on}", [self._begin()]),
            **{
                f"before_{event.lower()}_left": (
                    f"BEFORE {event} ON {on} WHEN {some} "
                    f"AND (SELECT at FROM {self._head}) <> {_NOW}",
                    [
                        self._note((LEFT, f"EXISTS ({self.unlogged()})")),
                        f"DELETE FROM {self._aside}",
                    ],
                )
                for event in ("INSERT", "UPDATE", "DELETE")
            },
            **{
                f"{event.lower()}_settle": (f"AFTER {event} ON {on} WHEN {some} OR {is_open}", body)
                for event, body in (
                    ("INSERT", self._settle_insertion()),
                    ("UPDATE", self._settle_update()),
                    ("DELETE", self._settle_deletion()),
                )
            },
            **{
                event.lower(): (
                    f"AFTER {event} ON {on} WHEN NOT {some} AND NOT {is_open}",
                    self._logged(action),
                )
                for event, action in (
                    ("INSERT", INSERTED),
                    ("UPDATE", UPDATED),
                    ("DELETE", DELETED),
                )
            },
            "seen": self._seen(),
            "noted": self._noted(),
        }
        return {
            (name := self._names.trigger(self._number, action)): (
                f"CREATE TRIGGER {name} {when} BEGIN {' '.join(f'{s};' for s in body)} END"
            )
            for action, (when, body) in made.items()
        }

    # Rows, and how their columns are written

    def _of_table(self, column: str) -> str:
        return f"{self._on}.{quoted(column)}"

    def _of_aside(self, column: str) -> str:
        return f"{self._aside}.{self._place(column)}"

    def _place(self, column: str) -> str:
        """Where a row aside has a column."""
        return "rowid" if column == self._shape.rowid else f"c{self._kept.index(column)}"

    def _of_by(self, column: str) -> str:
        at = [term.text for term in self._identity.terms].index(column)
        return f"{self._aside}.b{at}"

    def _old(self, column: str) -> str:
        return f"OLD.{quoted(column)}"

    def _new(self, column: str) -> str:
        return f"NEW.{quoted(column)}"

    def _new_or_default(self, column: str) -> str:
        """What REPLACE makes of a NULL that may not be one."""
        default = dict(self._shape.defaults).get(column)
        new = self._new(column)
        return new if default is None else f"coalesce({new}, ({default}))"

    # Conditions

    def _alike(self, one: Reference, other: Reference) -> str:
        """Whether two rows have the same place."""
        return self._compare.alike(self._identity, one, other)

    def _is_there(self, row: Reference, *conditions: str) -> str:
        """Whether the table has a row in the place of a given one."""
        found = " AND ".join([self._alike(self._of_table, row), *conditions])
        return f"EXISTS (SELECT 1 FROM {self._on} WHERE {found})"

    def _is_aside(self, row: Reference) -> str:
        return f"EXISTS (SELECT 1 FROM {self._aside} WHERE {self._alike(self._of_aside, row)})"

    def _differ(self, one: Reference, other: Reference, columns: Iterable[str]) -> str:
        return " OR ".join(f"{one(column)} IS NOT {other(column)}" for column in columns) or "0"

    def _is_followed(self) -> str:
        """Whether actions of foreign keys follow an update."""
        return f"({self._differ(self._new, self._old, self._shape.followed)})"

    def unlogged(self) -> str:
        """The rows aside that are not what the table has."""
        return (
            f"SELECT 1 FROM {self._aside} LEFT JOIN {self._on} "
            f"ON {self._alike(self._of_table, self._of_aside)} "
            f"WHERE {self._unlike(self._of_aside, f'{self._aside}.there')}"
        )

    def _unlike(self, row: Reference, there: str) -> str:
        """Whether a row aside differs from the row of the table that is joined to it."""
        present = f"{self._of_table(self._identity.terms[0].text)} IS NOT NULL"
        differ = self._differ(row, self._of_table, self._kept)
        return f"({there} <> ({present}) OR {there} AND ({differ}))"

    def _in_the_way(self) -> list[str]:
        """Which rows aside could not be in the table together with NEW."""
        return [
            self._compare.alike(unique, self._of_aside, self._new) for unique in self._shape.uniques
        ]

    def _is_cut_short(self, but: str = "") -> str:
        """Whether OLD left its place when its own update had replaced a part of what to replace."""
        some = f"SELECT 1 FROM {self._aside} WHERE {self._alike(self._of_by, self._old)}{but}"
        there = self._is_there(self._of_aside)
        return (
            f"NOT {self._is_there(self._old)} "
            f"AND EXISTS ({some} AND NOT {there}) AND EXISTS ({some} AND {there})"
        )

    def _is_mixed(self) -> str:
        """Whether a row got one part of a unique key inside its update, and another part by it."""
        found = []
        for unique in self._shape.uniques:
            columns = unique.columns(self._shape.columns)
            if len(columns) > 1 or unique.where:
                found.append(
                    f"({self._differ(self._of_aside, self._old, columns)}) "
                    f"AND ({self._differ(self._of_aside, self._new, columns)})"
                )
        some = f"SELECT 1 FROM {self._aside} WHERE {self._alike(self._of_aside, self._old)}"
        return f"EXISTS ({some} AND {self._aside}.there AND ({' OR '.join(found) or '0'}))"

    # Before a change

    def _begin(self) -> str:
        return (
            f"UPDATE {self._head} SET open = CASE at WHEN {_NOW} THEN open + 1 ELSE 1 END, "
            f"at = {_NOW}"
        )

    def _is_outdated(self) -> str:
        """Whether a row is no more what the statement has read of it."""
        return self._is_there(self._old, f"({self._differ(self._of_table, self._old, self._kept)})")

    def _put_own_of_update(self) -> tuple[str, list[str]]:
        """Put aside what OLD is by now; and both its places, if foreign keys act on its update."""
        followed = self._is_followed()
        absent = f"{followed} AND NOT {self._is_there(self._new_or_default)}"
        return (
            f"BEFORE UPDATE ON {self._on} WHEN {followed} OR {self._is_outdated()}",
            [
                self._put(self._alike(self._of_table, self._old)),
                self._put_absent(self._new_or_default, absent),
            ],
        )

    def _put_own_of_deletion(self) -> tuple[str, list[str]]:
        when = "" if self._shape.is_acted_on else f" WHEN {self._is_outdated()}"
        return (
            f"BEFORE DELETE ON {self._on}{when}",
            [self._put(self._alike(self._of_table, self._old))],
        )

    def _filled(self) -> dict[str, tuple[str, list[str]]]:
        """A gap where REPLACE fills a NULL after we saw what was computed of it."""
        nulls = " OR ".join(f"{self._new(column)} IS NULL" for column, _ in self._shape.defaults)
        if not nulls or not self._shape.is_computed:
            return {}
        return {
            f"{event.lower()}_filled": (
                f"BEFORE {event} ON {self._on} WHEN {nulls}",
                [self._note((_FILLED, "1"))],
            )
            for event in ("INSERT", "UPDATE")
        }

    def _of_keys(self) -> str:
        """Only an update that sets one of these columns can be in the way of another row."""
        return f"OF {', '.join(map(quoted, self._shape.keys))}" if self._shape.keys else ""

    def _put_aside(self, is_update: bool) -> tuple[str, list[str]]:
        """Put aside what is in the way of a change."""
        found, body = [], []
        for unique in self._shape.uniques:
            rows = self._compare.in_the_way(unique, self._of_table, self._new_or_default)
            if not is_update:
                found.append(f"EXISTS (SELECT 1 FROM {self._on} WHERE {rows})")
                body.append(self._put(rows))
                continue
            rows += f" AND NOT ({self._alike(self._of_table, self._old)})"
            changed = self._differ(self._new, self._old, unique.columns(self._shape.columns))
            found.append(f"({changed}) AND EXISTS (SELECT 1 FROM {self._on} WHERE {rows})")
            body += [self._put(rows), self._mark(rows)]
        event = f"BEFORE {f'UPDATE {self._of_keys()}' if is_update else 'INSERT'} ON {self._on}"
        return f"{event} WHEN {' OR '.join(found)}", body

    def _put(self, condition: str) -> str:
        """Put rows of the table aside, unless their places are there already."""
        columns = ["there", *(f"c{at}" for at in range(len(self._kept)))]
        values = ["1", *(self._of_table(column) for column in self._kept)]
        if self._shape.rowid is not None:
            columns, values = [*columns, "rowid"], [*values, self._of_table(self._shape.rowid)]
        return (
            f"INSERT INTO {self._aside} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM {self._on} WHERE {condition} AND NOT {self._is_aside(self._of_table)}"
        )

    def _put_absent(self, row: Reference, condition: str = "1") -> str:
        """Put aside that nothing was in a place."""
        terms = [term.text for term in self._identity.terms]
        return (
            f"INSERT INTO {self._aside} (there, {', '.join(map(self._place, terms))}) "
            f"SELECT 0, {', '.join(map(row, terms))} "
            f"WHERE {condition} AND NOT {self._is_aside(row)}"
        )

    def _put_old(self) -> str:
        """Put OLD aside: nothing has happened to its place, or it would be there already."""
        columns = ["there", *(f"c{at}" for at in range(len(self._kept)))]
        values = ["1", *map(self._old, self._kept)]
        if self._shape.rowid is not None:
            columns, values = [*columns, "rowid"], [*values, self._old(self._shape.rowid)]
        return (
            f"INSERT INTO {self._aside} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"WHERE NOT {self._is_aside(self._old)}"
        )

    def _mark(self, rows: str) -> str:
        """Note whose update the rows aside are in the way of."""
        terms = [term.text for term in self._identity.terms]
        by = ", ".join(f"b{at} = {self._old(term)}" for at, term in enumerate(terms))
        places = ", ".join(map(self._of_aside, terms))
        places = f"({places})" if len(terms) > 1 else places
        found = f"SELECT {', '.join(map(self._of_table, terms))} FROM {self._on} WHERE {rows}"
        return f"UPDATE {self._aside} SET {by} WHERE {places} IN ({found})"

    # After a change

    def _logged(self, action: int) -> list[str]:
        values = []
        if action != INSERTED:
            values += [(f"o{slot}", self._old(column)) for column, slot in self._slots]
        if action != DELETED:
            values += [(f"n{slot}", self._new(column)) for column, slot in self._slots]
        return [
            f"UPDATE {self._head} SET seq = seq + 1, nonce = random(), open = open - 1",
            self._log_row(str(action), values),
        ]

    def _settle_insertion(self) -> list[str]:
        changed = self._differ(self._of_table, self._new, self._kept)
        return [
            self._note((_LATE, f"NOT {self._is_there(self._new, f'NOT ({changed})')}")),
            self._put_absent(self._new),
            *self._settle(*self._in_the_way()),
        ]

    def _settle_update(self) -> list[str]:
        changed = self._differ(self._of_table, self._new, self._kept)
        late = f"NOT {self._is_there(self._new, f'NOT ({changed})')} AND NOT {self._is_followed()}"
        by = self._alike(self._of_by, self._old)
        elsewhere = f" AND NOT ({self._alike(self._of_aside, self._new)})"
        return [
            self._note(
                (_LATE, late),
                (_MIXED, self._is_mixed()),
                (_CUT_SHORT, self._is_cut_short(elsewhere)),
            ),
            self._put_old(),
            self._put_absent(self._new),
            *self._settle(self._alike(self._of_aside, self._old), by, *self._in_the_way()),
        ]

    def _settle_deletion(self) -> list[str]:
        late = "0" if self._shape.is_acted_on else self._is_there(self._old)
        by = self._alike(self._of_by, self._old)
        return [
            self._note((_LATE, late), (_CUT_SHORT, self._is_cut_short())),
            self._put_old(),
            *self._settle(self._alike(self._of_aside, self._old), by),
        ]

    def _settle(self, *conditions: str) -> list[str]:
        """Log what has become of the rows aside: of these, or of all after the outermost change.

        The table is looked at here, so that the trigger `seen`, which is not one of the table and
        outlives it, need not name it.
        """
        columns = ", ".join(["seen", *(f"d{at}" for at in range(len(self._kept)))])
        now = ", ".join(["1", *map(self._of_table, self._kept)])
        look = (
            f"UPDATE {self._aside} SET ({columns}) = (SELECT {now} FROM {self._on} "
            f"WHERE {self._alike(self._of_table, self._of_aside)})"
        )
        ended = (
            f"rowid IN (SELECT {self._aside}.rowid FROM {self._head} CROSS JOIN {self._aside} "
            f"WHERE {self._head}.open <= 0)"
        )
        return [
            f"UPDATE {self._head} SET open = open - 1",
            f"{look} WHERE {ended}",
            f"DELETE FROM {self._aside} WHERE {ended}",
            f"{look} WHERE {' OR '.join(conditions)}",
        ]

    def _seen(self) -> tuple[str, list[str]]:
        """Log how a row of the table differs from what is aside; from then on that is aside."""
        places = range(len(self._kept))
        differ = " OR ".join(f"OLD.c{at} IS NOT NEW.d{at}" for at in places) or "0"
        values = [(f"o{slot}", f"OLD.c{self._kept.index(c)}") for c, slot in self._slots]
        values += [(f"n{slot}", f"NEW.d{self._kept.index(c)}") for c, slot in self._slots]
        action = (
            f"CASE WHEN NOT OLD.there THEN {INSERTED} WHEN NEW.seen THEN {UPDATED} "
            f"ELSE {DELETED} END"
        )
        now = ", ".join(["there = 1", *(f"c{at} = NEW.d{at}" for at in places)])
        return (
            f"AFTER UPDATE OF seen ON {self._aside} "
            f"WHEN OLD.there IS NOT (NEW.seen IS NOT NULL) OR OLD.there AND ({differ})",
            [
                f"UPDATE {self._head} SET seq = seq + 1, nonce = random()",
                self._log_row(action, values),
                f"UPDATE {self._aside} SET there = 0 WHERE rowid = NEW.rowid AND NEW.seen IS NULL",
                f"UPDATE {self._aside} SET {now} WHERE rowid = NEW.rowid AND NEW.seen",
            ],
        )

    def _note(self, *reasons: tuple[str, str]) -> str:
        """Log a gap where one of these conditions holds; the trigger `noted` does it."""
        any_held = " OR ".join(f"({held})" for _, held in reasons)
        cases = " ".join(
            f"WHEN {condition} THEN {literal(reason)}" for reason, condition in reasons
        )
        return f"INSERT INTO {self._aside} (seen) SELECT CASE {cases} END WHERE {any_held}"

    def _noted(self) -> tuple[str, list[str]]:
        """What the transaction has done to the table is not known, so nothing stays aside."""
        table = literal(f"table {self._shape.name}: ")
        return (
            f"AFTER INSERT ON {self._aside} WHEN NEW.seen IS NOT NULL",
            [
                f"UPDATE {self._head} SET seq = seq + 1, nonce = random()",
                self._log_row(str(GAP), []),
                f"INSERT INTO {self._names.gap} (seq, reason) SELECT seq, {table} || NEW.seen "
                f"|| ', so what it did is not known exactly.' FROM {self._head}",
                f"DELETE FROM {self._aside}",
            ],
        )

    def _log_row(self, action: str, values: Sequence[tuple[str, str]]) -> str:
        columns = ["seq", "nonce", "relation", "action", *(column for column, _ in values)]
        taken = ["seq", "nonce", str(self._number), action, *(value for _, value in values)]
        return (
            f"INSERT INTO {self._log} ({', '.join(columns)}) "
            f"SELECT {', '.join(taken)} FROM {self._head}"
        )


def _identity(shape: TableShape) -> Unique:
    """The uniqueness that tells a row from all others, and is never NULL."""
    return next(
        unique
        for unique in shape.uniques
        if not unique.where
        and all(term.is_column for term in unique.terms)
        and {term.text for term in unique.terms} == set(shape.identity)
    )


def renamed_columns(
    logging: Logging, present: Mapping[str, str], columns: Iterable[str]
) -> dict[str, str] | None:
    """Which columns SQLite has renamed in our triggers: the old name and the new one.

    None if that does not explain how the triggers differ from what was made.
    """
    made = logging.triggers()
    if made == present:
        return {}
    before = logging.names.trigger(logging.number, "insert_aside")
    prefix = quoted(logging.shape.name) + "."
    names: dict[str, str] = {}
    for kept, found in zip(
        logging.kept, _selected(present.get(before, ""), prefix, logging), strict=False
    ):
        if found != quoted(kept):
            names[kept] = next((c for c in columns if quoted(c) == found), "")
    return names if names and logging.renamed(names).triggers() == present else None


def _selected(statement: str, prefix: str, logging: Logging) -> Sequence[str]:
    """The columns that the first row put aside is made of, as they are written."""
    _, _, rest = statement.partition(f"INSERT INTO {logging.names.aside(logging.number)} (")
    _, _, rest = rest.partition(") SELECT ")
    selected = rest.partition(f" FROM {quoted(logging.shape.name)} WHERE ")[0]
    return selected.split(f", {prefix}")[1:]
