"""OVER: window functions of a SELECT, read into columns that a window adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from math import inf
from typing import Any

from sqlglot import exp

from headwater.algebra.aggregates import FUNCTIONS, Aggregate
from headwater.algebra.expressions import ColumnRef, Expression, Literal, columns_of
from headwater.algebra.order import Order
from headwater.algebra.schema import Schema
from headwater.algebra.sql.aggregates import is_aggregate, read_aggregate, without_filter
from headwater.algebra.sql.expressions import Translator, check_values
from headwater.algebra.sql.intervals import combined, is_interval, moved, size_of
from headwater.algebra.sql.plans import Plan, extended, only, top_of
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.tops import Windowed
from headwater.algebra.typing_rules import cast, common_type
from headwater.algebra.values import FLOAT, INT, VOID
from headwater.algebra.windows import WHOLE, WINDOW_FUNCTIONS, WindowFrame, WindowFunction

_RANKS: dict[type, tuple[str, Any]] = {
    exp.RowNumber: ("row_number", INT),
    exp.Rank: ("rank", INT),
    exp.DenseRank: ("dense_rank", INT),
    exp.PercentRank: ("percent_rank", FLOAT),
    exp.CumeDist: ("cume_dist", FLOAT),
    exp.Ntile: ("ntile", INT),
}
_NEIGHBOURS: dict[type, str] = {exp.Lag: "lag", exp.Lead: "lead"}
_VALUES: dict[type, str] = {
    exp.FirstValue: "first_value",
    exp.First: "first_value",
    exp.LastValue: "last_value",
    exp.Last: "last_value",
    exp.NthValue: "nth_value",
}


_ALL = (
    "There are ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, "
    "FIRST_VALUE, LAST_VALUE, NTH_VALUE and aggregates."
)


class Windows:
    """The window functions of one SELECT, each under the name of the column that it becomes."""

    def __init__(self, named: Mapping[str, exp.Expr]) -> None:
        self.named = named
        self.functions: dict[WindowFunction, ColumnRef] = {}
        self.inputs: dict[Expression, str] = {}
        self.keys: tuple[str, ...] = ()

    @property
    def looked_at(self) -> frozenset[str]:
        """The columns that the functions look at."""
        return frozenset().union(
            *(f.columns for f in self.functions), *map(columns_of, self.inputs)
        )

    def within(self, keys: Iterable[Expression]) -> None:
        """Each window only over rows with equal keys: those that one row outside has."""
        if self.functions:
            self.keys = tuple(self._input(key) for key in keys)

    def column(self, node: exp.Window, t: Translator) -> ColumnRef:
        """The column that a window function becomes; `t` says what its inputs mean."""
        function = self._function(node, t)
        ref = ColumnRef(f"#window {len(self.functions) + 1}", function.type)
        return self.functions.setdefault(function, ref)

    def plan(self, rows: Plan, used: frozenset[str]) -> Plan:
        """The rows, with the columns that are used, and the window functions behind them."""
        if not self.functions:
            return rows
        rows = extended(rows, {name: e for e, name in self.inputs.items()})
        functions = tuple(
            replace(f, partition=tuple(dict.fromkeys((*f.partition, *self.keys))))
            for f in self.functions
        )
        looked_at = used.union(*(f.columns for f in functions))
        rows = only(rows, [name for name in rows.schema.names if name in looked_at])
        added = Schema.of((ref.name, ref.type) for ref in self.functions.values())
        return Windowed(top_of(rows), functions, rows.schema + added)

    def _input(self, expression: Expression) -> str:
        if isinstance(expression, ColumnRef):
            return expression.name
        return self.inputs.setdefault(expression, f"#over {len(self.inputs) + 1}")

    def _function(self, node: exp.Window, t: Translator) -> WindowFunction:
        parts = self._parts(node)
        partition = tuple(
            dict.fromkeys(self._input(t.expression(p)) for p in parts.get("partition_by") or ())
        )
        sorted_by = parts["order"].expressions if parts.get("order") else ()
        check_values(t, "ORDER BY", *(part.this for part in sorted_by))
        order = tuple(
            Order(
                self._input(t.expression(part.this)),
                bool(part.args.get("desc")),
                not part.args.get("nulls_first"),
            )
            for part in sorted_by
        )
        frame = _frame(parts.get("spec"), ordered=bool(order))
        if frame.by_range:
            frame = self._up_to_values(frame, parts, order, t)
        _check_forward(parts.get("spec"))
        name, arguments, kind, offset, ignore = self._called(node.this, t)
        if name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"):
            frame = WHOLE
            if not order:
                raise RefusalError(f"{name.upper()} needs an order.", "Write OVER (ORDER BY ...).")
        if name in ("lag", "lead"):
            frame = WHOLE
            if not order:
                raise RefusalError(f"{name.upper()} needs an order.", "Write OVER (ORDER BY ...).")
        return WindowFunction(name, arguments, kind, partition, order, frame, offset, ignore)

    def _up_to_values(
        self, frame: WindowFrame, parts: dict[str, Any], order: Sequence[Order], t: Translator
    ) -> WindowFrame:
        """RANGE with offsets: from the row's value in the order less one up to it plus another."""
        spec = parts.get("spec")
        nodes = (
            [(spec.args.get(s), spec.args.get(f"{s}_side")) for s in ("start", "end")]
            if spec
            else []
        )
        if all(node is None or isinstance(node, str) for node, _ in nodes):
            return frame
        if len(order) != 1:
            raise RefusalError(
                "RANGE with an offset needs one expression in ORDER BY.", "Write one."
            )
        written = t.expression(parts["order"].expressions[0].this)
        own = ColumnRef(order[0].column, written.type)
        low, high = (
            None
            if node is None or isinstance(node, str)
            else _value_away(
                own, node, (str(side).upper() == "PRECEDING") != order[0].descending, t
            )
            for node, side in nodes
        )
        return replace(frame, low=low, high=high)

    def _parts(self, node: exp.Window) -> dict[str, Any]:
        """The parts of OVER, also those of a window that WINDOW names."""
        parts = {name: value for name, value in node.args.items() if value and name != "this"}
        alias = node.args.get("alias")
        if alias is not None:
            known = self.named.get(alias.name.lower())
            if known is None:
                raise RefusalError(
                    f"there is no window {alias.name}.", "Name it with WINDOW ... AS (...)."
                )
            parts = {**{n: v for n, v in known.args.items() if v and n != "this"}, **parts}
        return parts

    def _called(
        self, node: Any, t: Translator
    ) -> tuple[str, tuple[Expression, ...], Any, int, bool]:
        ignore = isinstance(node, exp.IgnoreNulls)
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            node = node.this
        if ignore and type(node) not in (_NEIGHBOURS.keys() | _VALUES.keys()):
            raise RefusalError(
                f"{t.text.written(node).upper()} has no IGNORE NULLS.",
                "LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE have it.",
            )
        own = _RANKS.keys() | _NEIGHBOURS.keys() | _VALUES.keys()
        if is_aggregate(node) and type(node) not in own:
            return self._aggregate(read_aggregate(node, t))
        if type(node) in _RANKS:
            name, kind = _RANKS[type(node)]
            t.text.check_arguments(node, int(name == "ntile"))
            number = _number(node.this) if name == "ntile" else 0
            if name == "ntile" and number < 1:
                raise RefusalError(f"NTILE({number}) has no buckets.", "Write NTILE(4).")
            return name, (), kind, number, False
        if type(node) in _NEIGHBOURS:
            value = t.expression(node.this)
            offset = _number(node.args.get("offset"), 1)
            default = node.args.get("default")
            other = t.expression(default) if default else Literal(None, VOID)
            kind = common_type([value.type, other.type])
            arguments = (cast(value, kind), cast(other, kind))
            return _NEIGHBOURS[type(node)], arguments, kind, offset, ignore
        if type(node) in _VALUES:
            value = t.expression(node.this)
            name = _VALUES[type(node)]
            t.text.check_arguments(node, 2)
            offset = _number(node.args.get("offset")) if name == "nth_value" else 0
            return name, (value,), value.type, offset, ignore
        name = t.text.written(node).upper()
        near = get_close_matches(name, map(str.upper, WINDOW_FUNCTIONS - {"single"}), 2)
        raise RefusalError(
            f"{name} is not a window function that a view may use.",
            f"Did you mean {' or '.join(near)}?" if near else _ALL,
        )

    def _aggregate(self, found: Aggregate) -> tuple[str, tuple[Expression, ...], Any, int, bool]:
        is_plain = "percentile" in found.function and not any(o.descending for o in found.order)
        if found.distinct or (found.order and not is_plain):
            raise RefusalError(
                "DISTINCT and an order of its own in a window function are not supported.",
                "Aggregate in a subquery, and join it by what the window is partitioned by.",
            )
        found = without_filter(found)
        assert found.function in FUNCTIONS
        return found.function, found.arguments, found.type, 0, False


def _number(node: Any, default: int | None = None) -> int:
    if node is None and default is not None:
        return default
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if not (isinstance(node, exp.Literal) and node.name.isdecimal()):
        raise RefusalError("a whole number is needed here.", "Write for example LAG(x, 1).")
    return sign * int(node.name)


def _frame(spec: Any, *, ordered: bool) -> WindowFrame:
    if spec is None:
        return WindowFrame() if ordered else WHOLE
    by_range = (spec.args.get("kind") or "RANGE").upper() == "RANGE"
    start = _bound(spec.args.get("start"), spec.args.get("start_side"), by_range)
    end = _bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), by_range)
    if (spec.args.get("kind") or "").upper() == "GROUPS" or spec.args.get("exclude"):
        raise RefusalError("GROUPS and EXCLUDE in a frame are not supported.", "Write ROWS.")
    if not ordered and by_range:
        return WHOLE
    return WindowFrame(start, end, by_range)


def _check_forward(spec: Any) -> None:
    """RefusalError if a frame ends before it starts, so that no row is in it."""
    if spec is None:
        return
    start = _distance(spec.args.get("start"), spec.args.get("start_side"))
    end = _distance(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
    if start is None or end is None:
        return
    comparable = start[1] == end[1] or 0 in (start[0], end[0]) or _ENDLESS in (start[1], end[1])
    if (comparable and start[0] > end[0]) or (start == end and start[1] == _ENDLESS):
        raise RefusalError(
            "the frame ends before it starts, so no row is in it.",
            "Name the bound that comes first in the order first.",
        )


_ENDLESS = "endless"


def _distance(value: Any, side: Any) -> tuple[float | Decimal, str] | None:
    """How far a bound is behind the row, and in which unit; None if that is told elsewhere."""
    sign = -1 if str(side).upper() == "PRECEDING" else 1
    if isinstance(value, str):
        return (sign * inf, _ENDLESS) if value.upper() == "UNBOUNDED" else (0, "")
    if value is None:
        return None
    if is_interval(value):
        size, unit = size_of(value)
        return sign * size, unit
    if isinstance(value, exp.Neg):
        sign, value = -sign, value.this
    if isinstance(value, exp.Literal) and not value.is_string:
        return sign * Decimal(value.name), ""
    return None


def _value_away(own: ColumnRef, node: exp.Expr, before: bool, t: Translator) -> Expression:
    """A value so far before another one, or behind it."""
    if is_interval(node):
        found = moved(own, node, -1 if before else 1)
    else:
        offset = t.expression(node)
        if not isinstance(offset, Literal) or offset.value is None:
            raise RefusalError("RANGE needs an offset that is a constant.", "Write a number.")
        if offset.type.is_numeric and offset.value < 0:  # type: ignore[operator]
            raise RefusalError("RANGE needs an offset that is not negative.", "Turn it round.")
        found = combined("-" if before else "+", own, offset)
    if found.type != own.type and not (found.type.is_numeric and own.type.is_numeric):
        raise RefusalError(
            f"an offset of this kind makes {found.type} of {own.type}.", "Order by that type."
        )
    return found


def _bound(value: Any, side: Any, by_range: bool) -> int | None:
    if isinstance(value, str):
        return None if value.upper() == "UNBOUNDED" else 0
    if by_range:
        return 0
    number = _number(value)
    return -number if str(side).upper() == "PRECEDING" else number
