"""Which arguments a function takes and what it gives, written as `text, int, [int] -> text`.

A parameter names a kind of value: the types that fit it, and the type to which each of them is
brought. `[...]` may be left out, `...` may come again and again, and `!` must be a constant.
Separate from the typing of expressions, which casts the arguments to what is said here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VOID,
    Type,
    Value,
    array_type,
    decimal_type,
)

Result = Callable[[Sequence[Type], Sequence[Value]], Type]
"""The type of a result by the types of the arguments, and the values of those that are constant."""

_MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_TZ)
_KINDS: Mapping[str, Mapping[Type, Type]] = {
    "bool": {BOOL: BOOL},
    "int": {INT: INT},
    "index": {INT: INT},
    "narrow": {INT: INT},
    "text": {TEXT: TEXT},
    "bytes": {BYTES: BYTES},
    "date": {DATE: DATE},
    "timestamp": {TIMESTAMP: TIMESTAMP},
    "timestamp_tz": {TIMESTAMP_TZ: TIMESTAMP_TZ},
    "day": dict.fromkeys(_MOMENTS, DATE),
    "time": {DATE: TIMESTAMP, TIMESTAMP: TIMESTAMP, TIMESTAMP_TZ: TIMESTAMP_TZ},
    "instant": dict.fromkeys(_MOMENTS, TIMESTAMP_TZ),
    "texts": {array_type(TEXT): array_type(TEXT)},
}
"""What fits a kind, and the type to which it is brought. An `index` is a whole number that Spark
has with 32 bits, and of which one beyond `HIGHEST` means no more than that one does; beyond
a `narrow` one it fails. A `day`, a `time` and an `instant` are any date or timestamp, in UTC."""
_NUMBERS = {"number": None, "float": FLOAT, "seconds": decimal_type(16, 6)}
_ANY = "any"
_NESTED = ("array", "struct")
_WORD = re.compile(r"(\[?)([a-z_]+)(!?)(\.\.\.)?\]?")
_RESULTS: Mapping[str, Type] = {
    kind.name: kind for kind in (BOOL, INT, FLOAT, TEXT, BYTES, DATE, TIMESTAMP, TIMESTAMP_TZ)
}


@dataclass(frozen=True)
class Parameter:
    kind: str
    is_optional: bool
    is_constant: bool
    is_repeated: bool

    def target(self, kind: Type) -> Type | None:
        """The type to which an argument of this type is brought; None if it does not fit."""
        if self.kind == _ANY:
            return kind
        if self.kind in _NESTED:
            return kind if kind.name == self.kind else None
        if self.kind in _NUMBERS:
            wanted = _NUMBERS[self.kind]
            if kind == VOID:
                return wanted or INT
            return (wanted or kind) if kind.is_numeric else None
        known = _KINDS[self.kind]
        return next(iter(known.values())) if kind == VOID else known.get(kind)


@dataclass(frozen=True)
class Signature:
    """Parameters, and the name of the result's type: `first` is the type of the first argument."""

    text: str

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        words = self.text.partition("->")[0]
        found = [_WORD.fullmatch(word.strip()) for word in words.split(",") if word.strip()]
        return tuple(Parameter(m[2], bool(m[1]), bool(m[3]), bool(m[4])) for m in found if m)

    @property
    def result_name(self) -> str:
        return self.text.partition("->")[2].strip()

    def result(self, kinds: Sequence[Type]) -> Type:
        return kinds[0] if self.result_name == "first" else _RESULTS[self.result_name]

    def parameter(self, at: int) -> Parameter:
        return self.parameters[min(at, len(self.parameters) - 1)]

    def targets(self, kinds: Sequence[Type], constant: Sequence[bool]) -> tuple[Type, ...] | None:
        """The types to which these arguments are brought; None if they do not fit."""
        needed = sum(not p.is_optional for p in self.parameters)
        repeated = bool(self.parameters) and self.parameters[-1].is_repeated
        if len(kinds) < needed or (len(kinds) > len(self.parameters) and not repeated):
            return None
        found = []
        for at, kind in enumerate(kinds):
            parameter = self.parameter(at)
            target = parameter.target(kind)
            if target is None or (parameter.is_constant and not constant[at]):
                return None
            found.append(target)
        return tuple(found)

    @property
    def shown(self) -> str:
        """The parameters in words."""
        return f"({', '.join(map(_shown, self.parameters))})"


def _shown(parameter: Parameter) -> str:
    kind = _WORDS.get(parameter.kind, parameter.kind)
    text = f"{kind}{' constant' if parameter.is_constant else ''}"
    text = f"[{text}]" if parameter.is_optional else text
    return f"{text} ..." if parameter.is_repeated else text


_WORDS = {
    "index": "int",
    "narrow": "int",
    "seconds": "number",
    "day": "date or timestamp",
    "time": "date or timestamp",
    "instant": "date or timestamp",
    "any": "any type",
    "texts": "array of texts",
}
