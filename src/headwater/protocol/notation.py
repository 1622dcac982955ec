"""Queries as the papers print them: `Π_W(r1 ⋈ [2, 3]) - Π_W([4, 2] ⋈ [2, 3])`.

Equalities between columns of one name are left to the join sign, as the papers do; any other
condition is shown as a selection. A projection that keeps every column is not shown.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.algebra.expressions import (
    Call,
    ColumnRef,
    Expression,
    columns_of,
    show_expression,
    tells_error,
)
from headwater.algebra.rows import show_rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Base, Factor, Query, Term
from headwater.algebra.views import Join, equated_columns


def show_query(query: Query) -> str:
    """A sum of signed terms."""
    if not query:
        return "∅"
    first, *rest = query
    shown = ("-" if first.coefficient < 0 else "") + show_term(first)
    for term in rest:
        shown += (" - " if term.coefficient < 0 else " + ") + show_term(term)
    return shown


def show_term(term: Term) -> str:
    """A term without its sign."""
    body = " ⋈ ".join(_show_factor(term, factor) for factor in term.factors)
    columns = frozenset(name for f in term.factors for name in _schema(term, f).names)
    conditions = [c for c in term.join.condition if _worth_showing(c, columns)]
    if conditions:
        shown = [show_expression(c, _short(term.join)) for c in conditions]
        if len(shown) > 1:
            shown = [f"({s})" if _is_or(c) else s for c, s in zip(conditions, shown, strict=True)]
        body = f"σ_{{{' ∧ '.join(shown)}}}({body})"
    if not _keeps_all(term, columns):
        names = [_output(term.join, o, n) for o, n in _outputs(term.join)]
        plain = len(names) == 1 and isinstance(term.join.outputs[0], ColumnRef)
        body = f"Π_{names[0]}({body})" if plain else f"Π_{{{','.join(names)}}}({body})"
    size = abs(term.coefficient)
    return body if size == 1 else f"{size}·{body}"


def _show_factor(term: Term, factor: Factor) -> str:
    if isinstance(factor, Base):
        return term.occurrence(factor.at).alias
    shown = show_rows(factor.rows)
    return f"({shown})" if shown.startswith("-") else shown


def _schema(term: Term, factor: Factor) -> Schema:
    if isinstance(factor, Base):
        return term.occurrence(factor.at).schema
    return factor.rows.schema


def _worth_showing(condition: Expression, columns: frozenset[str]) -> bool:
    """Not already applied to bound rows, and not what the join sign says."""
    if not columns_of(condition) <= columns:
        return False
    pair = equated_columns(condition)
    return pair is None or _plain(pair[0]) != _plain(pair[1])


def _is_or(condition: Expression) -> bool:
    return isinstance(condition, Call) and condition.operator == "or"


def _keeps_all(term: Term, columns: frozenset[str]) -> bool:
    outputs = [o for o, _ in _outputs(term.join)]
    kept = {o.name for o in outputs if isinstance(o, ColumnRef)}
    return len(kept) == len(outputs) and all(
        any(term.join.same_column(name, shown) for shown in kept) for name in columns
    )


def _outputs(join: Join) -> list[tuple[Expression, str]]:
    pairs = zip(join.outputs, join.schema.names, strict=True)
    return [(output, name) for output, name in pairs if not tells_error(output)]


def _output(join: Join, output: Expression, name: str) -> str:
    shown = show_expression(output, _short(join))
    return shown if isinstance(output, ColumnRef) else f"{shown} AS {name}"


def _plain(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _short(join: Join) -> Callable[[str], str]:
    """Names columns without the alias where that leaves no doubt."""

    def short(name: str) -> str:
        plain = _plain(name)
        twins = [other for other in join.owner if _plain(other) == plain]
        return plain if all(join.same_column(name, other) for other in twins) else name

    return short
