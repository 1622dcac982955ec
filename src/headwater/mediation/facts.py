"""Facts: whether conditions that hold imply another one, or cannot all hold.

Sound, and complete for comparisons of one term with constants, as long as one of the conditions
implies it alone: whoever asks treats "not implied" as "not known". A condition holds when it is
true; NULL is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from headwater.algebra.expressions import (
    Call,
    Expression,
    Literal,
    can_fail,
    compile_expression,
    walk,
)
from headwater.algebra.operators import LAZY, strict_function
from headwater.algebra.schema import Schema
from headwater.algebra.values import BOOL, FLOAT
from headwater.mediation.clauses import conjuncts_of, is_constant, present_term

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
_STRICT = frozenset({*_TURNED, "like"})
TRUE = Literal(True, BOOL)


def implied(wanted: Expression, known: Sequence[Expression]) -> bool:
    """Whether a condition holds wherever all of those hold that are known."""
    if wanted == TRUE or wanted in known:
        return True
    match wanted:
        case Call(operator="and", arguments=arguments):
            return all(implied(argument, known) for argument in arguments)
        case Call(operator="or", arguments=arguments):
            return any(implied(argument, known) for argument in arguments)
        case Call(operator="<=>", arguments=(a, b)):
            return a == b or any(is_equality(each, a, b) for each in known)
        case Call(operator="=", arguments=(a, b)):
            if a == b:
                return _is_present(a, known)
            return any(is_equality(each, a, b) for each in known)
    term = present_term(wanted)
    if term is not None:
        return _is_present(term, known)
    bound = _bound(wanted)
    if bound is None:
        return False
    return any(other is not None and _follows(bound, other) for other in map(_bound, known))


def is_equality(condition: Expression, a: Expression, b: Expression) -> bool:
    match condition:
        case Call(operator="=", arguments=(c, d)):
            return (a, b) in ((c, d), (d, c))
    return False


def _is_present(term: Expression, known: Iterable[Expression]) -> bool:
    if isinstance(term, Literal):
        return term.value is not None
    return any(_needs(condition, term) for condition in known)


def _needs(condition: Expression, term: Expression) -> bool:
    """Whether a condition is not true where a term is NULL."""
    match condition:
        case Call(operator="or", arguments=arguments):
            return all(_needs(argument, term) for argument in arguments)
        case Call(operator="and", arguments=arguments):
            return any(_needs(argument, term) for argument in arguments)
        case Call(operator="not", arguments=(Call(operator="is null", arguments=(inner,)),)):
            return _passes(inner, term)
        case Call(operator="not", arguments=(Call(operator=name) as inner,)) if name in _STRICT:
            return _needs(inner, term)
        case Call(operator=name, arguments=arguments) if name in _STRICT:
            return any(_passes(argument, term) for argument in arguments)
    return _passes(condition, term)


def _passes(expression: Expression, term: Expression) -> bool:
    """Whether an expression is NULL where a term in it is."""
    match expression:
        case _ if expression == term:
            return True
        case Call(operator=name, arguments=arguments, type=kind):
            kinds = [argument.type for argument in arguments]
            is_strict = name not in LAZY and strict_function(name, kinds, kind) is not None
            return is_strict and any(_passes(argument, term) for argument in arguments)
    return False


def contradictory(conditions: Sequence[Expression]) -> bool:
    """Whether they can be seen never to hold together."""
    for at, condition in enumerate(conditions):
        if is_constant(condition) and not holds(condition):
            return True
        match condition:
            case Call(operator="is null", arguments=(term,)) if _is_present(term, conditions):
                return True
            case Call(operator="<" | ">" | "<>", arguments=(a, b)) if a == b:
                return True
        bound = _bound(condition)
        if bound is not None and any(_excludes(bound, other) for other in conditions[:at]):
            return True
    return False


def holds(condition: Expression) -> bool:
    """Whether a condition without variables is true; one that fails is left to the rows."""
    if can_fail(condition):
        return True
    return compile_expression(condition, Schema(()))(()) is True


def without_implied(conditions: Iterable[Expression]) -> tuple[Expression, ...]:
    """The conditions without those that the others imply, or that always hold."""
    found = list(dict.fromkeys(part for each in conditions for part in conjuncts_of(each)))
    for condition in sorted(found, key=lambda each: present_term(each) is None):
        others = [each for each in found if each != condition]
        always = is_constant(condition) and not can_fail(condition) and holds(condition)
        if always or implied(condition, others):
            found = others
    return tuple(found)


# Comparisons with constants

_Bound = tuple[Expression, str, Any]


def _bound(condition: Expression) -> _Bound | None:
    """The term, the operator and the constant of a comparison of one with the other."""
    match condition:
        case Call(operator="not", arguments=(inner,)):
            found = _bound(inner)
            return found and (found[0], _OPPOSITE[found[1]], found[2])
        case Call(operator=name, arguments=(term, Literal(value=value))) if name in _TURNED:
            return None if _is_unordered(term, value) else (term, name, value)
        case Call(operator=name, arguments=(Literal(value=value), term)) if name in _TURNED:
            return None if _is_unordered(term, value) else (term, _TURNED[name], value)
    return None


def _is_unordered(term: Expression, value: Any) -> bool:
    """Floats have NaN, and are left alone; so is whatever Python does not order as SQL does."""
    kinds = {each.type for each in walk(term)}
    return FLOAT in kinds or isinstance(value, float | tuple | None)


def _follows(wanted: _Bound, known: _Bound) -> bool:
    (term, wants, limit), (other, operator, value) = wanted, known
    if term != other or _kind(limit) != _kind(value):
        return False
    match operator:
        case "=":
            return _compared(value, wants, limit)
        case "<>":
            return wants == "<>" and value == limit
        case "<" | ">":
            if wants in ("<>", operator, f"{operator}="):
                return bool(_compared(value, f"{operator}=", limit))
        case "<=" | ">=":
            if wants in ("<>", operator[0]):
                return bool(_compared(value, operator[0], limit))
            if wants == operator:
                return bool(_compared(value, operator, limit))
    return False


def _excludes(bound: _Bound, condition: Expression) -> bool:
    """Whether a comparison and another condition never hold together."""
    other = _bound(condition)
    term, operator, value = bound
    return other is not None and _follows((term, _OPPOSITE[operator], value), other)


def _kind(value: Any) -> type:
    return (
        Decimal if isinstance(value, int | Decimal) and not isinstance(value, bool) else type(value)
    )


def _compared(a: Any, operator: str, b: Any) -> bool:
    match operator:
        case "=":
            return bool(a == b)
        case "<>":
            return bool(a != b)
        case "<":
            return bool(a < b)
        case "<=":
            return bool(a <= b)
        case ">":
            return bool(a > b)
    return bool(a >= b)
