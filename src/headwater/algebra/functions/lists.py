"""Functions of arrays and structs, on canonical values: tuples.

Separate from those of plain values, since their types are made of others. What Spark does in ANSI
mode: an element that is not there fails, and NULL is an element like any other where elements are
compared for being the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwater.algebra.values import Row, Type, Value, array_type, sort_key

Values = tuple[Value, ...]
LONGEST = 1_000_000
"""So many elements has the longest array that a function makes of nothing but numbers."""
NOT_ELEMENTS = "the array has no such element"
FROM_ONE = "elements count from 1, or from -1 at the end"
TOO_LONG = f"the array would have more than {LONGEST} elements"
NO_SEQUENCE = "there are no such steps from the start to the end"


def same(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    return kinds[0]


def element(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    return kinds[0].element


def of_such(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    return array_type(kinds[0])


# One element


def field(kinds: Sequence[Type], result: Type) -> Callable[..., Any]:
    """The field of a struct; its name is the second argument."""
    places = {name: at for at, (name, _) in enumerate(kinds[0].parts)}
    return lambda struct, name: struct[places[name]]


def item(values: Values, at: int) -> Value:
    """`values[at]`, counted from 0."""
    if not 0 <= at < len(values):
        raise ValueError(f"{NOT_ELEMENTS}: [{at}] of {len(values)}")
    return values[at]


def item_or_null(values: Values, at: int) -> Value:
    return values[at] if 0 <= at < len(values) else None


def element_at(values: Values, at: int) -> Value:
    """Counted from 1, or from -1 at the end."""
    if at and abs(at) > len(values):
        raise ValueError(f"{NOT_ELEMENTS}: number {at} of {len(values)}")
    return element_or_null(values, at)


def element_or_null(values: Values, at: int) -> Value:
    if not at:
        raise ValueError(FROM_ONE)
    if abs(at) > len(values):
        return None
    return values[at - 1 if at > 0 else at]


def extreme(choose: Callable[..., Row]) -> Callable[[Values], Value]:
    """The least or greatest element that is not NULL."""

    def compute(values: Values) -> Value:
        known = [(value,) for value in values if value is not None]
        return choose(known, key=sort_key)[0] if known else None

    return compute


# Elements that are looked for


def contains(values: Values, wanted: Value) -> bool | None:
    if wanted in values:
        return True
    return None if None in values else False


def position(values: Values, wanted: Value) -> int:
    return values.index(wanted) + 1 if wanted in values else 0


def overlap(left: Values, right: Values) -> bool | None:
    if any(value is not None and value in right for value in left):
        return True
    return None if left and right and None in left + right else False


# Other arrays


def distinct(values: Values) -> Values:
    return tuple(dict.fromkeys(values))


def union(left: Values, right: Values) -> Values:
    return distinct(left + right)


def difference(left: Values, right: Values) -> Values:
    return tuple(value for value in distinct(left) if value not in right)


def intersection(left: Values, right: Values) -> Values:
    return tuple(value for value in distinct(left) if value in right)


def without(values: Values, unwanted: Value) -> Values:
    return tuple(value for value in values if value != unwanted or value is None)


def appended(values: Values | None, value: Value) -> Values | None:
    return None if values is None else (*values, value)


def prepended(values: Values | None, value: Value) -> Values | None:
    return None if values is None else (value, *values)


def compact(values: Values) -> Values:
    return tuple(value for value in values if value is not None)


def part(values: Values, start: int, length: int) -> Values:
    """So many elements from a start on, which counts from 1, or from -1 at the end."""
    if not start or length < 0:
        raise ValueError(FROM_ONE if not start else f"{length} is no number of elements")
    first = start - 1 if start > 0 else start + len(values)
    return values[first : first + length] if first >= 0 else ()


def flattened(values: tuple[Values | None, ...]) -> Values | None:
    if None in values:
        return None
    return tuple(each for inner in values for each in inner or ())


def in_order(values: Values, ascending: bool = True) -> Values:
    """NULL comes first, and last where the order descends."""
    return _sorted(values, reverse=not ascending)


def in_order_nulls_last(values: Values) -> Values:
    nulls = tuple(value for value in values if value is None)
    return _sorted(compact(values)) + nulls


def _sorted(values: Values, reverse: bool = False) -> Values:
    return tuple(sorted(values, key=lambda value: sort_key((value,)), reverse=reverse))


def repeated(value: Value, times: int | None) -> Values | None:
    if times is not None and times > LONGEST:
        raise ValueError(TOO_LONG)
    return None if times is None else (value,) * times


def joined(texts: tuple[str | None, ...], separator: str, missing: str | None = None) -> str:
    """The texts with a separator between them; NULLs are left out or replaced."""
    known = (missing if text is None else text for text in texts)
    return separator.join(text for text in known if text is not None)


def sequence(start: int, stop: int, step: int | None = None) -> Values:
    """From a start to an end, which is included if the steps reach it."""
    step = (1 if start <= stop else -1) if step is None else step
    if start == stop:
        return (start,)
    if not step or (step > 0) != (stop > start):
        raise ValueError(NO_SEQUENCE)
    if abs(stop - start) // abs(step) >= LONGEST:
        raise ValueError(TOO_LONG)
    return tuple(range(start, stop + (1 if step > 0 else -1), step))
