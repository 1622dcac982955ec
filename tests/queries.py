"""Random views as SQL text, in the part of SQL that Spark and SQLite read the same way.

The name of a column decides its type, so that columns of one name can be joined: `s` and `t`
are text, all others are integers. Expressions never divide by zero, and stay small.
"""

import re
from dataclasses import dataclass
from random import Random

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT, Type

INT_COLUMNS = ("a", "b", "k")
TEXT_COLUMNS = ("s", "t")
INTS = ("0", "1", "2", "-1", "CAST(NULL AS INT)")
TEXTS = ("'x'", "'y'", "''", "'it''s'", "CAST(NULL AS TEXT)")
PATTERNS = ("'x%'", "'%'", "'_'", "'%y%'")
COMPARISONS = ("=", "=", "<>", "!=", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM")


def type_of(column: str) -> Type:
    return TEXT if column in TEXT_COLUMNS else INT


def random_relations(random: Random, count: int = 3) -> tuple[Relation, ...]:
    """Relations with one to three columns each; `k` is in most of them, so that joins hit."""
    found = []
    for number in range(1, count + 1):
        names = random.sample(INT_COLUMNS + TEXT_COLUMNS, random.randint(0, 2))
        if "k" not in names and (not names or random.random() < 0.8):
            names = ["k", *names]
        schema = Schema.of((name, type_of(name)) for name in names)
        found.append(Relation(f"r{number}", f"source{number % 2}", schema))
    return tuple(found)


def random_query(
    random: Random, known: tuple[Relation, ...], *, self_joins: bool = False, most: int = 3
) -> str:
    """A SELECT over some of the relations; with `self_joins` one may occur several times."""
    count = random.randint(1, most if self_joins else min(most, len(known)))
    pick = random.choices if self_joins else random.sample
    chosen = pick(known, k=count)
    tables = [Table(f"q{at}", relation) for at, relation in enumerate(chosen, 1)]
    writer = _Writer(random, tables)
    clause, visible = writer.from_clause()
    sql = f"SELECT {writer.select_list(visible)} FROM {clause}"
    return sql if random.random() < 0.4 else f"{sql} WHERE {writer.condition(2)}"


@dataclass(frozen=True)
class Table:
    alias: str
    relation: Relation

    def columns(self, kind: Type) -> list[str]:
        schema = self.relation.schema
        return [f"{self.alias}.{c.name}" for c in schema.columns if c.type == kind]

    def __str__(self) -> str:
        return f"{self.relation.name} AS {self.alias}"


# Forms of expressions: n stands for a number, t for a text and p for a condition; in one form
# all e are numbers or all are texts.

NUMBER_FORMS = (
    "({n} + {n})",
    "({n} - {n})",
    "({n} * {n})",
    "({n} % 3)",
    "({n} % -2)",
    "(- {n})",
    "ABS({n})",
    "COALESCE({n}, {n}, 0)",
    "IFNULL({n}, {n})",
    "NULLIF({n}, {n})",
    "LENGTH({t})",
    "CASE WHEN {p} THEN {n} ELSE {n} END",
    "CASE {n} WHEN {n} THEN 1 WHEN 2 THEN {n} END",
)
TEXT_FORMS = (
    "({t} || {t})",
    "COALESCE({t}, {t})",
    "NULLIF({t}, {t})",
    "CAST({n} AS TEXT)",
    "CASE {n} WHEN 1 THEN {t} ELSE {t} END",
)
COMPARISON_FORMS = (
    *(f"{{e}} {comparison} {{e}}" for comparison in COMPARISONS),
    "{e} BETWEEN {e} AND {e}",
    "{e} NOT BETWEEN {e} AND {e}",
    "{e} IN ({e}, {e})",
    "{e} NOT IN ({e}, {e})",
    "{e} <> NULL",
    "{e} IS NULL",
    "{e} IS NOT NULL",
    "{e} IS DISTINCT FROM {e}",
    *(f"{{t}} LIKE {pattern}" for pattern in PATTERNS),
    *(f"{{t}} NOT LIKE {pattern}" for pattern in PATTERNS),
)
CONDITION_FORMS = (
    "({p} AND {p})",
    "({p} OR {p})",
    "(NOT ({p}))",
    "(({p}) IS TRUE)",
    "(({p}) IS NOT FALSE)",
    "(({p}) = ({p}))",
)


@dataclass(frozen=True)
class _Writer:
    random: Random
    tables: list[Table]

    # Expressions

    def number(self, depth: int) -> str:
        return self._expression(INT, INTS, NUMBER_FORMS, depth)

    def text(self, depth: int) -> str:
        return self._expression(TEXT, TEXTS, TEXT_FORMS, depth)

    def condition(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.6:
            return self._filled(COMPARISON_FORMS, max(depth - 1, 0))
        return self._filled(CONDITION_FORMS, depth - 1)

    def _expression(
        self, kind: Type, constants: tuple[str, ...], forms: tuple[str, ...], depth: int
    ) -> str:
        if depth > 0 and self.random.random() < 0.5:
            return self._filled(forms, depth - 1)
        columns = [column for table in self.tables for column in table.columns(kind)]
        if columns and self.random.random() < 0.75:
            return self.random.choice(columns)
        return self.random.choice(constants)

    def _filled(self, forms: tuple[str, ...], depth: int) -> str:
        fillers = {"n": self.number, "t": self.text, "p": self.condition}
        fillers["e"] = self.random.choice([self.number, self.text])
        form = self.random.choice(forms)
        return re.sub(r"\{(\w)\}", lambda match: fillers[match[1]](depth), form)

    # Clauses

    def from_clause(self) -> tuple[str, list[str]]:
        """FROM and the names that `*` stands for; commas and merged columns are not mixed."""
        first, *others = self.tables
        commas = self.random.random() < 0.4
        clause, visible, group = str(first), list(first.relation.schema.names), [first]
        for table in others:
            names = list(table.relation.schema.names)
            common = [name for name in visible if name in names]
            way = self.random.choice(_ways_to_join(common, commas))
            group = [table] if way == "," else [*group, table]
            clause += self._joined(way, group, common)
            merged = common if way in ("USING", "NATURAL JOIN") else []
            visible += [name for name in names if name not in merged]
        return clause, visible

    def _joined(self, way: str, group: list[Table], common: list[str]) -> str:
        if way == "ON":
            word = self.random.choice(["JOIN", "INNER JOIN", "CROSS JOIN"])
            return f" {word} {group[-1]} ON {self._join_condition(group)}"
        if way == "USING":
            return f" JOIN {group[-1]} USING ({', '.join(common)})"
        return f" {way} {group[-1]}"

    def _join_condition(self, group: list[Table]) -> str:
        """Mostly an equality of columns of the last table and an earlier one, if there is one."""
        pairs = [
            f"{left} = {right}"
            for kind in (INT, TEXT)
            for table in group[:-1]
            for left in table.columns(kind)
            for right in group[-1].columns(kind)
        ]
        if pairs and self.random.random() < 0.75:
            return self.random.choice(pairs)
        return _Writer(self.random, group).condition(1)

    def select_list(self, visible: list[str]) -> str:
        chance = self.random.random()
        if len(set(visible)) == len(visible) and chance < 0.5:
            return "*"
        if chance < 0.6:
            return f"{self.random.choice(self.tables).alias}.*"
        kinds = self.random.choices([self.number, self.text, self.condition], k=3)
        items = [write(1) for write in kinds[: self.random.randint(1, 3)]]
        return ", ".join(f"{item} AS c{at}" for at, item in enumerate(items))


def _ways_to_join(common: list[str], commas: bool) -> list[str]:
    ways = ["ON", "ON", "CROSS JOIN"]
    if commas:
        return [*ways, ",", ","]
    if len(set(common)) == len(common):
        ways += ["NATURAL JOIN", *(["USING"] * bool(common))]
    return ways
