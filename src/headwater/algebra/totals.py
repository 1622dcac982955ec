"""Linear views made total: a row on which an expression fails becomes an error row.

The terms of a delta meet rows that never existed together. Where an expression failed on such a
pair, maintenance could not go on, though the pair cancels out in the end. So a join whose
expressions may fail gets a column more, `_error`, which is NULL where all is well: a condition
that fails lets the row through, an expression that fails is NULL, and the column says which it was
and for which values. That is a function of the row alone, so error rows are signed and counted like
all others, and the algorithms need to know nothing of them.

What is shown is the rows without an error; while one is left, that fails (`sound`), as any top may.

Choices: parts of a top do not need this, since what may fail in them is left to the top
(`sql.plans`). The conditions that may fail are decided in their order, as if one by one: behind one
that is false, or fails, the others are not looked at. The text tells what each engine says alike:
of a float its whole part, of a long text its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from headwater.algebra.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    call_can_fail,
    can_fail,
    columns_of,
    compile_expression,
    show_expression,
    walk,
)
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Schema
from headwater.algebra.tops import Part, Project, Select
from headwater.algebra.typing_rules import call, cast, try_cast
from headwater.algebra.values import BOOL, FLOAT, INT, MAX_DECIMAL_DIGITS, TEXT
from headwater.algebra.views import Join, View, unused_name

_MOST_CHARACTERS = 60
_NOTHING = Literal(None, TEXT)


def totalised(view: View) -> View:
    """The view, of joins alone, with its errors as rows; as it is if nothing in it can fail."""
    assert view.top is None
    if not any(_may_fail(e) for join in view.joins for e in (*join.condition, *join.outputs)):
        return view
    name = unused_name("_error", view.schema)
    schema = Schema((*view.schema.columns, Column(name, TEXT)))
    joins = tuple(_total(join, schema) for join in view.joins)
    stored = Part(schema.names, schema)
    shown = tuple(ColumnRef(column.name, column.type) for column in view.schema.columns)
    top = Project(Select(stored, _sound(name)), shown, view.schema)
    return replace(view, joins=joins, schema=schema, top=top)


def without_errors(rows: Rows, name: str) -> Rows:
    """Rows of such a view without the column of this name; ExpressionError if it tells of an error.

    Counts may be of either sign.
    """
    sound = rows.select(_sound(name))
    return sound.only(Schema(tuple(c for c in rows.schema.columns if c.name != name)))


def _sound(name: str) -> Expression:
    return Call("sound", (ColumnRef(name, TEXT),), BOOL)


def _may_fail(expression: Expression) -> bool:
    """As `can_fail`, but looked at more closely: not if no value makes it fail."""
    if not can_fail(expression) or not isinstance(expression, Call):
        return False
    if not columns_of(expression):
        return compile_expression(_fails(expression), Schema(()))(()) is True
    own = call_can_fail(expression) and not _is_exact(expression)
    return own or any(map(_may_fail, expression.arguments))


def _is_exact(found: Call) -> bool:
    """Whether it has a result for all values, in a type with room for that."""
    match found:
        case Call("/" | "%" | "pmod" | "div", (_, Literal(value=int() | float() as divisor))):
            return divisor > 0 and found.type in (INT, FLOAT)
    if found.type == FLOAT:
        return found.operator in ("+", "-", "*", "negate", "abs")
    if found.type.name != "decimal":
        return False
    if found.operator in ("negate", "abs"):
        return True
    return found.operator in ("+", "-", "*") and found.type.precision < MAX_DECIMAL_DIGITS


def _total(join: Join, schema: Schema) -> Join:
    late = [conjunct for conjunct in join.condition if _may_fail(conjunct)]
    safe = tuple(conjunct for conjunct in join.condition if not _may_fail(conjunct))
    return Join(
        join.occurrences,
        (*safe, _passes(late)) if late else safe,
        (*map(_tried, join.outputs), _error([*late, *filter(_may_fail, join.outputs)])),
        schema,
    )


def _tried(expression: Expression) -> Expression:
    return Call("tried", (expression,), expression.type) if _may_fail(expression) else expression


def _fails(expression: Expression) -> Call:
    return Call("fails", (expression,), BOOL)


def _passes(conjuncts: Sequence[Expression]) -> Expression:
    """Whether all are true, or those before one that fails."""
    first, *rest = conjuncts
    holds = _tried(first)
    return call("or", _fails(first), call("and", holds, _passes(rest)) if rest else holds)


def _error(expressions: Sequence[Expression]) -> Expression:
    """What is to be said of the first of these that fails; NULL if none does."""
    cases = [part for e in dict.fromkeys(expressions) for part in (_fails(e), _told(e))]
    return call("case", *cases, _NOTHING) if cases else _NOTHING


def _told(expression: Expression) -> Expression:
    """That it fails, and for which values."""
    columns = {node.name: node for node in walk(expression) if isinstance(node, ColumnRef)}
    parts: list[Expression] = [_text(f"{show_expression(expression)} fails for ")]
    if not columns_of(expression):
        return _text(f"{show_expression(expression)} fails for every row")
    for at, name in enumerate(sorted(columns)):
        parts += [_text(f"{', ' if at else ''}{name} = "), _shown(columns[name])]
    return _joined(parts)


def _shown(column: ColumnRef) -> Expression:
    """The value as a text that every engine has the same."""
    return call("coalesce", _words(column), _text("NULL"))


def _words(column: ColumnRef) -> Expression:
    match column.type.name:
        case "text":
            return _joined([_text("'"), _beginning(column), _text("'")])
        case "bytes":
            return _joined([_text("x'"), _beginning(call("hex", column)), _text("'")])
        case "float":
            whole = cast(try_cast(column, INT), TEXT)
            about = _joined([_text("about "), whole])
            beyond = call("case", call("is null", column), _NOTHING, _text("no whole number"))
            return call("coalesce", about, beyond)
        case "array" | "struct":
            return call("case", call("is null", column), _NOTHING, _text("[...]"))
        case _:
            return cast(column, TEXT)


def _beginning(text: Expression) -> Expression:
    return call("left", text, Literal(_MOST_CHARACTERS, INT))


def _text(words: str) -> Literal:
    return Literal(words, TEXT)


def _joined(parts: Iterable[Expression]) -> Expression:
    return reduce(lambda left, right: call("||", left, right), parts)
