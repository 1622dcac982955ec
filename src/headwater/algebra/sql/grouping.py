"""GROUP BY and aggregates: what groups there are, and what expressions mean on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from sqlglot import exp

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import ColumnRef, Expression, Literal, columns_of, substituted
from headwater.algebra.schema import Schema
from headwater.algebra.sql.aggregates import (
    aggregates_in,
    is_aggregate,
    own_parts,
    read_aggregate,
)
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.plans import Plan, grouped, project, refs, union_all
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT
from headwater.errors import SqlError


def _needs_groups(node: Any) -> bool:
    """Whether a node means something only on groups, or is a query of its own."""
    return is_aggregate(node) or isinstance(
        node, exp.Window | exp.Query | exp.Grouping | exp.GroupingId
    )


@dataclass
class Groups:
    """The groups of a SELECT: keys by their meaning, sets of keys, aggregates by their meaning."""

    text: SqlText
    translator: Translator
    """What expressions mean on the rows before they are grouped."""
    keys: dict[Expression, ColumnRef]
    sets: tuple[frozenset[int], ...] | None
    """For GROUPING SETS, ROLLUP and CUBE: the numbers of the keys of each set."""
    aggregates: dict[Aggregate, ColumnRef]
    read: list[tuple[exp.Expr, ColumnRef]] = field(default_factory=list)
    """Keys and aggregates with subqueries: read once, before the rows are grouped."""

    @property
    def looked_at(self) -> frozenset[str]:
        """The columns of rows that keys and aggregates look at."""
        inputs = [e for a in self.aggregates for e in _expressions(a)]
        return frozenset().union(*map(columns_of, (*self.keys, *inputs)))

    def special(self, node: Any) -> Expression | None:
        """What a node means on a group."""
        for known, ref in self.read:
            if node.unnest() == known:
                return ref
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping(node)
        if isinstance(node, exp.Window | exp.Query):
            return None
        if is_aggregate(node):
            return self.aggregates[read_aggregate(node, self.translator)]
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        if any(own_parts(node, _needs_groups)):
            return None
        try:
            meaning = self.translator.expression(node)
        except SqlError:
            if isinstance(node, exp.Column):
                raise
            return None  # told of its parts, of which one may be a name of the select list
        if meaning in self.keys:
            return self.keys[meaning]
        if isinstance(node, exp.Column):
            fields = substituted(meaning, {e.name: r for e, r in self._columns()})
            if fields != meaning:
                return fields
            raise RefusalError(
                f"{node.sql('spark')} is neither grouped nor aggregated.",
                "Add it to GROUP BY, or put an aggregate such as MAX or ANY_VALUE around it.",
            )
        return None

    def _columns(self) -> Iterator[tuple[ColumnRef, ColumnRef]]:
        """The keys that are columns, whose fields can be told, too."""
        yield from ((key, ref) for key, ref in self.keys.items() if isinstance(key, ColumnRef))

    def _grouping(self, node: Any) -> Expression:
        nodes = node.expressions or ([node.this] if node.this else [])
        meanings = [self.translator.expression(part) for part in nodes] or list(self.keys)
        if self.sets is None or any(meaning not in self.keys for meaning in meanings):
            raise RefusalError(
                "GROUPING needs columns of ROLLUP, CUBE or GROUPING SETS.", "Leave it out."
            )
        total: Expression = Literal(0, INT)
        for meaning in meanings:
            flag = ColumnRef(f"absent {self.keys[meaning].name}", INT)
            total = call("+", call("*", total, Literal(2, INT)), flag)
        return ColumnRef(flag.name, INT) if len(meanings) == 1 else total

    def plan(self, rows: Plan, hidden: Sequence[Expression] = ()) -> tuple[Plan, list[str]]:
        """The groups with their aggregates, kept apart by hidden keys too, and these' names."""
        columns: dict[Expression, str] = {key: ref.name for key, ref in self.keys.items()}
        for part in (*hidden, *(e for a in self.aggregates for e in _expressions(a))):
            if not isinstance(part, Literal):
                columns.setdefault(part, f"value {len(columns) + 1}")
        schema = Schema.of((name, e.type) for e, name in columns.items())
        rows = project(rows, schema, tuple(columns))
        aggregates = {
            ref.name: _over(aggregate, columns) for aggregate, ref in self.aggregates.items()
        }
        kept = [columns[key] for key in hidden]
        names = list(dict.fromkeys((*(ref.name for ref in self.keys.values()), *kept)))
        if self.sets is None:
            return grouped(rows, names, aggregates, always=not names), kept
        return self._of_sets(rows, names, aggregates), kept

    def _of_sets(self, rows: Plan, names: Sequence[str], aggregates: dict[str, Aggregate]) -> Plan:
        assert self.sets is not None
        plans = []
        for chosen in self.sets:
            keys = [name for at, name in enumerate(names) if at in chosen]
            plan = grouped(rows, keys, aggregates)
            absent = {f"absent {name}": int(name not in keys) for name in names}
            outputs: list[Expression] = [
                ColumnRef(name, rows.schema.columns[rows.schema.positions[name]].type)
                if name in keys
                else Literal(None, rows.schema.columns[rows.schema.positions[name]].type)
                for name in names
            ]
            outputs += refs(plan.schema, aggregates)
            outputs += [Literal(flag, INT) for flag in absent.values()]
            schema = Schema.of(
                zip((*names, *aggregates, *absent), (o.type for o in outputs), strict=True)
            )
            plans.append(project(plan, schema, outputs))
        return union_all(plans)


def _expressions(a: Aggregate) -> tuple[Expression, ...]:
    return (*a.inputs, *([a.condition] if a.condition is not None else []))


def _over(a: Aggregate, columns: dict[Expression, str]) -> Aggregate:
    """The aggregate over columns instead of expressions."""

    def column(e: Expression) -> Expression:
        return e if isinstance(e, Literal) else ColumnRef(columns[e], e.type)

    return replace(
        a,
        arguments=tuple(map(column, a.arguments)),
        condition=None if a.condition is None else column(a.condition),
        order=tuple(replace(one, expression=column(one.expression)) for one in a.order),
    )


def read_groups(
    select: exp.Select,
    translator: Translator,
    items: Sequence[exp.Expr],
    others: Sequence[exp.Expr],
    text: SqlText,
    given: Sequence[ColumnRef] = (),
) -> Groups:
    """The groups that GROUP BY makes, and the aggregates that `items` and `others` use.

    Rows that differ in a `given` column are in different groups, whatever the query says.
    """
    clause = select.args.get("group") or exp.Group()
    keys: dict[Expression, ColumnRef] = {ref: ref for ref in given}
    read: list[tuple[exp.Expr, ColumnRef]] = []

    def number(node: exp.Expr) -> int:
        node = _meant(node, translator, items, text)
        meaning = translator.expression(node)
        ref = keys.setdefault(meaning, ColumnRef(f"key {len(keys) + 1}", meaning.type))
        if node.find(exp.Query):
            read.append((node.unnest(), ref))
        return list(keys.values()).index(ref)

    sets = _sets(clause, number, items)
    if sets is not None:
        sets = tuple(chosen | set(range(len(given))) for chosen in sets)
    groups = Groups(text, translator, keys, sets, {}, read)
    for node in (*items, *others):
        for found in aggregates_in(node):
            _register(found, groups)
    return groups


def _register(node: exp.Expr, groups: Groups) -> None:
    if any(node == known for known, _ in groups.read):
        return
    try:
        found = read_aggregate(node, groups.translator)
    except RefusalError as error:
        raise groups.text.error(node, str(error), error.hint) from None
    except ValueError as error:
        raise groups.text.error(node, f"{error}.", "Change the expression.") from None
    ref = ColumnRef(f"aggregate {len(groups.aggregates) + 1}", found.type)
    ref = groups.aggregates.setdefault(found, ref)
    if node.find(exp.Query):
        groups.read.append((node, ref))


def _meant(
    node: exp.Expr, translator: Translator, items: Sequence[exp.Expr], text: SqlText
) -> exp.Expr:
    """What a key of GROUP BY stands for: itself, or what a number or an alias of SELECT names."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
        if not 1 <= int(node.name) <= len(items):
            raise text.error(
                node, f"there is no column {node.name} to group by.", f"There are {len(items)}."
            )
        node = items[int(node.name) - 1].unalias()
    elif isinstance(node, exp.Column) and not node.args.get("table"):
        aliases = {i.alias.lower(): i for i in items if isinstance(i, exp.Alias)}
        known = {c.name.lower() for c in translator.scope.visible}
        if node.name.lower() in aliases and node.name.lower() not in known:
            node = aliases[node.name.lower()].unalias()
    if any(own_parts(node, is_aggregate)):
        raise text.error(node, "GROUP BY has an aggregate.", "Group by columns.")
    return node


def _sets(
    clause: exp.Expr, number: Callable[[exp.Expr], int], items: Sequence[exp.Expr]
) -> tuple[frozenset[int], ...] | None:
    """The sets of keys that GROUP BY asks for, or None where there is only one."""
    if clause.args.get("all"):
        for item in items:
            if not any(own_parts(item, is_aggregate)):
                number(item.unalias())
        return None
    choices: list[list[frozenset[int]]] = []
    several = False
    parts = list(clause.expressions)
    for name in ("grouping_sets", "cube", "rollup"):
        parts += clause.args.get(name) or []
    for part in parts:
        found = _of_part(part, number)
        several = several or isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets)
        choices.append(found)
    result: list[frozenset[int]] = [frozenset()]
    for found in choices:
        result = [a | b for a in result for b in found]
    if not several or result == [frozenset()]:  # GROUPING SETS (()) is one group, always there
        return None
    return tuple(result)


def _of_part(part: exp.Expr, number: Callable[[exp.Expr], int]) -> list[frozenset[int]]:
    if isinstance(part, exp.Rollup):
        members = [_together(p, number) for p in part.expressions]
        return [frozenset().union(*members[:n]) for n in range(len(members), -1, -1)]
    if isinstance(part, exp.Cube):
        members = [_together(p, number) for p in part.expressions]
        sizes = range(len(members), -1, -1)
        return [frozenset().union(*c) for n in sizes for c in combinations(members, n)]
    if isinstance(part, exp.GroupingSets):
        return [chosen for p in part.expressions for chosen in _of_part(p, number)]
    return [_together(part, number)]


def _together(part: exp.Expr, number: Callable[[exp.Expr], int]) -> frozenset[int]:
    if isinstance(part, exp.Tuple):
        return frozenset(number(p) for p in part.expressions)
    return frozenset({number(part.unnest())})
