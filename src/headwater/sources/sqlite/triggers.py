"""The triggers that log the changes of one table, with the rows that REPLACE removes.

Each insertion, update and deletion fires a trigger after it, which logs it. But REPLACE removes
rows without a trigger, unless the writer has set `recursive_triggers`. So before a change the
rows in its way are put **aside**, as the table has them, and after it those of them that are
gone are logged as deleted.

While a change is under way, others may happen inside it: by an application's triggers, and by
the actions of foreign keys, which REPLACE does fire. They may change or remove what was put
aside, bring new rows into the way, and change the very row, so that OLD is out of date. So what
is aside follows each change, and a row that is written inside another change is put aside too.
`open` counts the changes under way, too many rather than too few (an ignored one has no end),
until the next statement, which is known by its time: SQLite's clock stands still while a
statement runs.

Two things are not known then, and are logged as a gap. A row that is removed while its own
UPDATE OR REPLACE is under way has no end that could tell what else was replaced. And where the
actions of foreign keys follow a changed key, they may write to the row in its new place: if
another row was there, or if changes seem to be open that are not, the two cannot be told apart.

Assumes that of several triggers after one change ours are the first. SQLite fires the youngest
first, so the setup makes ours anew when it is run, and `standing` looks for younger ones.

No statement here can meet a conflict, because the conflict clause of the writer's statement
would decide what happens then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.sources.sqlite.catalog import Shape
from headwater.sources.sqlite.names import Names
from headwater.sources.sqlite.uniques import Comparison, Unique, literal, quoted

INSERTED, DELETED, UPDATED, GAP = 1, 2, 3, 4
ACTIONS = (
    *("before_insert", "before_update", "before_delete", "insert", "update", "delete"),
    *("insert_aside", "update_aside"),
    *("insert_replaced", "update_replaced", "delete_replaced", "gone"),
    *("before_update_lost", "update_lost", "delete_lost"),
)
_NOW = "julianday('now')"


@dataclass(frozen=True)
class Logging:
    """How one relation is logged: from what shape, under which number, which columns where."""

    names: Names
    shape: Shape
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

    def aside_statements(self) -> list[str]:
        """The table for rows that may be replaced, with an index for each way to find them."""
        aside = self.names.aside(self.number)
        kept = self.kept
        by = [f"b{at}" for at in range(len(self.shape.identity))]
        columns = ", ".join(["gone", *by, *(f"c{at}" for at in range(len(kept)))])
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
        on, some = self._on, f"WHEN EXISTS (SELECT 1 FROM {self._aside})"
        made = {
            "before_update_lost": (
                f"BEFORE UPDATE ON {on} WHEN {self._is_followed()} AND {self._has_others()}",
                self._lost("a key that foreign keys follow was changed to one that was taken")[:-1],
            ),
            "before_insert": (f"BEFORE INSERT ON {on}", [self._begin()]),
            "before_update": (f"BEFORE UPDATE ON {on}", [self._begin()]),
            "before_delete": (
                f"BEFORE DELETE ON {on}",
                [self._begin(), self._under_way()],
            ),
            "insert": (f"AFTER INSERT ON {on}", [*self._logged(INSERTED), self._inside("NEW")]),
            "update": (
                f"AFTER UPDATE ON {on}",
                [*self._logged(UPDATED), self._inside("OLD", "NEW")],
            ),
            "delete": (f"AFTER DELETE ON {on}", self._logged(DELETED)),
            "insert_aside": self._put_aside(is_update=False),
            "update_aside": self._put_aside(is_update=True),
            "insert_replaced": (
                f"AFTER INSERT ON {on} {some}",
                [self._replaced(self._taken("NEW"), *self._vanished())],
            ),
            "update_replaced": (
                f"AFTER UPDATE ON {on} {some}",
                [
                    self._replaced(f"{self._differs()} AND {self._moved()}"),
                    *self._outdated(f" AND ({self._changed_before()})"),
                    self._follow(),
                    f"DELETE FROM {self._aside} "
                    f"WHERE {self._taken('OLD')} AND NOT ({self._stays()})",
                    self._replaced(
                        f"{self._taken('NEW')} AND NOT ({self._stays()}) "
                        f"AND ({self._by('OLD')} OR {self._gone(whole=True)})",
                        *self._vanished(),
                    ),
                ],
            ),
            "delete_replaced": (
                f"AFTER DELETE ON {on} {some}",
                [
                    self._replaced(
                        f"{self._differs()} AND {self._moved()}",
                        f"{self._by('OLD')} AND {self._gone()}",  # went with what it replaced
                    ),
                    *self._outdated(),
                    f"DELETE FROM {self._aside} WHERE {self._taken('OLD')} AND {self._gone()}",
                ],
            ),
            "gone": (f"AFTER UPDATE OF gone ON {self._aside}", self._log_gone()),
            "update_lost": (
                f"AFTER UPDATE ON {on} WHEN {self._is_followed()} "
                f"AND ((SELECT open FROM {self._head}) > 1 OR {self._has_others()})",
                self._lost(
                    "a key that foreign keys follow was changed inside another change, or after "
                    "one that was ignored"
                ),
            ),
            "delete_lost": (
                f"AFTER DELETE ON {on} WHEN {self._is_cut_short()}",
                self._lost("a row was removed by what its own UPDATE OR REPLACE replaced"),
            ),
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
        if column == self._shape.rowid:
            return f"{self._aside}.rowid"
        return f"{self._aside}.c{self._kept.index(column)}"

    def _of_by(self, column: str) -> str:
        at = [term.text for term in self._identity.terms].index(column)
        return f"{self._aside}.b{at}"

    def _new(self, column: str) -> str:
        return f"NEW.{quoted(column)}"

    def _new_or_default(self, column: str) -> str:
        """What REPLACE makes of a NULL that may not be one."""
        default = dict(self._shape.defaults).get(column)
        new = self._new(column)
        return new if default is None else f"coalesce({new}, ({default}))"

    # Conditions

    def _same(self, row: str) -> str:
        """Whether a row of the table is OLD or NEW."""
        return self._compare.alike(
            self._identity, self._of_table, lambda column: f"{row}.{quoted(column)}"
        )

    def _taken(self, row: str) -> str:
        """Whether a row aside was where OLD or NEW is."""
        return self._compare.alike(
            self._identity, self._of_aside, lambda column: f"{row}.{quoted(column)}"
        )

    def _vanished(self) -> list[str]:
        """Which rows aside are gone and could not be in the table together with NEW."""
        return [
            f"{self._compare.alike(unique, self._of_aside, self._new)} AND {self._gone()}"
            for unique in self._shape.uniques
        ]

    def _differs(self) -> str:
        """Whether the row aside in the place of OLD has other values."""
        differences = [
            f"{self._of_aside(column)} IS NOT OLD.{quoted(column)}" for column in self._kept
        ]
        return f"{self._taken('OLD')} AND ({' OR '.join(differences) or '0'})"

    def _changed_before(self) -> str:
        """Whether the row aside in the place of OLD had come there before the update was made.

        After it the actions of foreign keys may change the row, which then is not NEW any more,
        or if they leave it as it is, it has got another key that they follow.
        """
        new = [f"{self._of_table(column)} IS {self._new(column)}" for column in self._kept]
        there = f"EXISTS (SELECT 1 FROM {self._on} WHERE {' AND '.join([self._same('NEW'), *new])})"
        other = [f"{self._of_aside(c)} IS NOT {self._new(c)}" for c in self._kept]
        unfollowed = f"NOT {self._is_followed()}"
        return f"NOT ({self._stays()}) OR {there} AND ({' OR '.join([*other, unfollowed])})"

    def _moved(self) -> str:
        """Whether an update that was to replace a row aside has left its own old place."""
        there = self._compare.alike(self._identity, self._of_table, self._of_by)
        return (
            f"({self._aside}.b0 IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {self._on} WHERE {there}))"
        )

    def _by(self, row: str) -> str:
        """Whether a row aside was put there because OLD was to be moved to its place."""
        return self._compare.alike(
            self._identity, self._of_by, lambda column: f"{row}.{quoted(column)}"
        )

    def _stays(self) -> str:
        """Whether an update leaves a row in its place."""
        return self._compare.alike(
            self._identity, lambda column: f"OLD.{quoted(column)}", self._new
        )

    def _gone(self, whole: bool = False) -> str:
        """Whether a row aside is in the table no more; `whole`: with the values that it had."""
        same = [self._compare.alike(self._identity, self._of_table, self._of_aside)]
        if whole:
            same += [f"{self._of_table(c)} IS {self._of_aside(c)}" for c in self._kept]
        return f"NOT EXISTS (SELECT 1 FROM {self._on} WHERE {' AND '.join(same)})"

    def _is_followed(self) -> str:
        """Whether actions of foreign keys follow an update."""
        changed = [f"NEW.{quoted(c)} IS NOT OLD.{quoted(c)}" for c in self._shape.followed]
        return f"({' OR '.join(changed) or '0'})"

    def _has_others(self) -> str:
        """Whether rows are aside that were in the way of an update, or in its own place."""
        rows = f"{self._by('OLD')} OR {self._taken('OLD')}"
        return f"EXISTS (SELECT 1 FROM {self._aside} WHERE {rows})"

    def _is_cut_short(self) -> str:
        """Whether OLD was being updated, and has replaced only a part of what is in its way."""
        some = f"SELECT 1 FROM {self._aside} WHERE {self._by('OLD')}"
        return f"EXISTS ({some} AND {self._gone()}) AND EXISTS ({some} AND NOT {self._gone()})"

    # Statements

    def _begin(self) -> str:
        return (
            f"UPDATE {self._head} SET open = CASE at WHEN {_NOW} THEN open + 1 ELSE 1 END, "
            f"at = {_NOW}"
        )

    def _of_keys(self) -> str:
        """Only an update that sets one of these columns can be in the way of another row."""
        return f"OF {', '.join(map(quoted, self._shape.keys))}" if self._shape.keys else ""

    def _put_aside(self, is_update: bool) -> tuple[str, list[str]]:
        """Put aside what is in the way of a change, without what an earlier statement has left."""
        found = [f"EXISTS (SELECT 1 FROM {self._aside})"]
        body = [
            f"DELETE FROM {self._aside} WHERE rowid IN (SELECT {self._aside}.rowid "
            f"FROM {self._head} CROSS JOIN {self._aside} WHERE {self._head}.at <> {_NOW})"
        ]
        if is_update:
            body.append(self._under_way())
        for unique in self._shape.uniques:
            rows = self._compare.in_the_way(unique, self._of_table, self._new_or_default)
            if not is_update:
                found.append(f"EXISTS (SELECT 1 FROM {self._on} WHERE {rows})")
                body.append(self._put(rows))
                continue
            rows += f" AND NOT ({self._same('OLD')})"
            changed = " OR ".join(
                f"NEW.{quoted(column)} IS NOT OLD.{quoted(column)}"
                for column in unique.columns(self._shape.columns)
            )
            found.append(f"({changed}) AND EXISTS (SELECT 1 FROM {self._on} WHERE {rows})")
            body += [self._forget(rows), self._put(rows, by="OLD")]
        event = f"BEFORE {f'UPDATE {self._of_keys()}' if is_update else 'INSERT'} ON {self._on}"
        return f"{event} WHEN {' OR '.join(found)}", body

    def _under_way(self) -> str:
        """A row whose own change will be logged is, until then, not what it was."""
        return f"DELETE FROM {self._aside} WHERE {self._taken('OLD')} AND NOT {self._moved()}"

    def _forget(self, rows: str) -> str:
        terms = [term.text for term in self._identity.terms]
        aside = ", ".join(self._of_aside(term) for term in terms)
        table = ", ".join(self._of_table(term) for term in terms)
        aside = f"({aside})" if len(terms) > 1 else aside
        found = f"SELECT {table} FROM {self._on} WHERE {rows}"
        return f"DELETE FROM {self._aside} WHERE {aside} IN ({found}) AND NOT {self._moved()}"

    def _inside(self, *rows: str) -> str:
        """Put a row aside that was written while another change is under way."""
        same = " OR ".join(self._same(row) for row in rows)
        return self._put(f"({same}) AND (SELECT open FROM {self._head}) > 0")

    def _outdated(self, but: str = "") -> list[str]:
        """Where a row was changed while its change was under way, OLD is what it was before."""
        condition = f"{self._differs()} AND NOT {self._moved()}{but}"
        values = [(f"o{slot}", self._of_aside(column)) for column, slot in self._slots]
        values += [(f"n{slot}", f"OLD.{quoted(column)}") for column, slot in self._slots]
        columns = ["seq", "nonce", "relation", "action", *(column for column, _ in values)]
        taken = [f"{self._head}.seq", f"{self._head}.nonce", str(self._number), str(UPDATED)]
        taken += [value for _, value in values]
        return [
            f"UPDATE {self._head} SET seq = seq + 1, nonce = random() "
            f"WHERE EXISTS (SELECT 1 FROM {self._aside} WHERE {condition})",
            f"INSERT INTO {self._log} ({', '.join(columns)}) "
            f"SELECT {', '.join(taken)} FROM {self._aside}, {self._head} WHERE {condition}",
        ]

    def _follow(self) -> str:
        """A row aside that is changed where it is stays aside as it is now."""
        there = f"FROM {self._on} WHERE {self._same('NEW')}"
        values = [
            f"c{at} = (SELECT {self._of_table(c)} {there})" for at, c in enumerate(self._kept)
        ]
        return (
            f"UPDATE {self._aside} SET {', '.join(values) or 'gone = gone'} "
            f"WHERE {self._taken('OLD')} AND {self._stays()} AND EXISTS (SELECT 1 {there})"
        )

    def _put(self, condition: str, by: str = "") -> str:
        columns = ["gone", *(f"c{at}" for at in range(len(self._kept)))]
        values = ["0", *(self._of_table(column) for column in self._kept)]
        if by:
            columns += [f"b{at}" for at in range(len(self._identity.terms))]
            values += [f"{by}.{quoted(term.text)}" for term in self._identity.terms]
        if self._shape.rowid is not None:
            columns, values = [*columns, "rowid"], [*values, self._of_table(self._shape.rowid)]
        same = self._compare.alike(self._identity, self._of_aside, self._of_table)
        return (
            f"INSERT INTO {self._aside} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM {self._on} WHERE {condition} "
            f"AND NOT EXISTS (SELECT 1 FROM {self._aside} WHERE {same})"
        )

    def _logged(self, action: int) -> list[str]:
        values = []
        if action != INSERTED:
            values += [(f"o{slot}", f"OLD.{quoted(column)}") for column, slot in self._slots]
        if action != DELETED:
            values += [(f"n{slot}", f"NEW.{quoted(column)}") for column, slot in self._slots]
        return [
            f"UPDATE {self._head} SET seq = seq + 1, nonce = random(), open = open - 1",
            self._log_row(action, values),
        ]

    def _replaced(self, *conditions: str) -> str:
        """Log the rows aside that a change has replaced: the trigger `gone` does it for each."""
        return f"UPDATE {self._aside} SET gone = 1 WHERE {' OR '.join(conditions)}"

    def _log_gone(self) -> list[str]:
        values = [(f"o{slot}", f"OLD.c{self._kept.index(column)}") for column, slot in self._slots]
        return [
            f"UPDATE {self._head} SET seq = seq + 1, nonce = random()",
            self._log_row(DELETED, values),
            f"DELETE FROM {self._aside} WHERE rowid = OLD.rowid",
        ]

    def _lost(self, reason: str) -> list[str]:
        """Log a gap: what comes after it in the transaction may be missing, too."""
        said = literal(f"table {self._shape.name}: {reason}, so what it did is not known exactly.")
        return [
            f"UPDATE {self._head} SET seq = seq + 1, nonce = random()",
            self._log_row(GAP, []),
            f"INSERT INTO {self._names.gap} (seq, reason) SELECT seq, {said} FROM {self._head}",
            f"DELETE FROM {self._aside}",
        ]

    def _log_row(self, action: int, values: Sequence[tuple[str, str]]) -> str:
        columns = ["seq", "nonce", "relation", "action", *(column for column, _ in values)]
        taken = ["seq", "nonce", str(self._number), str(action), *(value for _, value in values)]
        return (
            f"INSERT INTO {self._log} ({', '.join(columns)}) "
            f"SELECT {', '.join(taken)} FROM {self._head}"
        )


def _identity(shape: Shape) -> Unique:
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
