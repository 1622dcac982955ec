"""Random tops over stored rows of two parts, small enough that keys meet."""

from collections.abc import Callable
from random import Random

from headwater.algebra.aggregates import FUNCTIONS, Aggregate, aggregate
from headwater.algebra.expressions import ColumnRef, Literal
from headwater.algebra.order import Order
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.tops import (
    PART,
    Distinct,
    First,
    Grouped,
    Less,
    Part,
    Product,
    Project,
    Restrict,
    Select,
    Top,
    UnionAll,
    Windowed,
)
from headwater.algebra.typing_rules import call
from headwater.algebra.values import FLOAT, INT, NAN, TEXT, Type, Value
from headwater.algebra.windows import WindowFrame, WindowFunction

STORED = Schema.of([(PART, INT), ("a", INT), ("b", INT), ("x", FLOAT), ("t", TEXT)])
_DOMAINS: dict[Type, tuple[Value, ...]] = {
    INT: (1, 1, 2, None),
    FLOAT: (0.1, 0.2, 1e20, -1e20, NAN, float("inf"), None),
    TEXT: ("x", "y", None),
}
_SAME = ("count(*)", "count", "sum", "avg", "min", "max", "any_value", "var_pop", "mode")


def random_stored(random: Random, size: int = 12) -> Rows:
    """Rows of both parts, with counts above zero."""
    counts = {
        (random.randint(0, 1), *(random.choice(_DOMAINS[kind]) for kind in STORED.types[1:])):
        random.choice((1, 1, 2, 3))
        for _ in range(size)
    }  # fmt: skip
    return Rows(STORED, counts)


def random_top(random: Random, depth: int) -> Top:
    """A tree of up to so many nodes above its parts."""
    if depth == 0:
        return _part(random)
    return random.choice(_NODES)(random, depth)


def _part(random: Random) -> Top:
    """All columns of a part but its number, under names of its own."""
    prefix = random.choice("pq")
    names = STORED.names[1:]
    schema = Schema.of((f"{prefix}.{n}", k) for n, k in zip(names, STORED.types[1:], strict=True))
    return Part(names, schema, random.randint(0, 1))


def _columns(top: Top, kind: Type) -> list[str]:
    return [column.name for column in top.schema.columns if column.type == kind]


def _select(random: Random, depth: int) -> Top:
    below = random_top(random, depth - 1)
    column = random.choice(below.schema.columns)
    value = Literal(random.choice([v for v in _values(column.type) if v is not None]), column.type)
    return Select(below, call("<=", ColumnRef(column.name, column.type), value))


def _values(kind: Type) -> tuple[Value, ...]:
    return _DOMAINS[kind]


def _project(random: Random, depth: int) -> Top:
    below = random_top(random, depth - 1)
    kept = random.sample(below.schema.columns, random.randint(1, len(below.schema)))
    outputs = tuple(ColumnRef(column.name, column.type) for column in kept)
    return Project(below, outputs, Schema.of((f"c{at}", c.type) for at, c in enumerate(kept)))


def _two_alike(random: Random, depth: int) -> tuple[Top, Top]:
    """Two with the same types."""
    first = random_top(random, depth - 1)
    for _ in range(10):
        second = random_top(random, random.randint(0, depth - 1))
        if second.schema.types == first.schema.types:
            return first, second
    return first, first


def _union(random: Random, depth: int) -> Top:
    return UnionAll(_two_alike(random, depth))


def _less(random: Random, depth: int) -> Top:
    return Less(*_two_alike(random, depth))


def _keys(random: Random, left: Top, right: Top) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pairs = [
        (a.name, b.name)
        for a in left.schema.columns
        for b in right.schema.columns
        if a.type == b.type
    ]
    chosen = random.sample(pairs, min(len(pairs), random.randint(1, 2)))
    return tuple(a for a, _ in chosen), tuple(b for _, b in chosen)


def _restrict(random: Random, depth: int) -> Top:
    left, right = random_top(random, depth - 1), random_top(random, 0)
    return Restrict(left, right, *_keys(random, left, right), anti=random.random() < 0.5)


def _product(random: Random, depth: int) -> Top:
    left, right = random_top(random, depth - 1), random_top(random, 0)
    if random.random() < 0.5:
        left, right = right, left
    named = Schema.of((f"r{depth}.{at}", k) for at, k in enumerate(right.schema.types))
    outputs = tuple(ColumnRef(column.name, column.type) for column in right.schema.columns)
    right = Project(right, outputs, named)
    return Product(left, right, *_keys(random, left, right))


def _grouped(random: Random, depth: int) -> Top:
    below = random_top(random, depth - 1)
    keys = random.sample(below.schema.names, random.randint(0, min(2, len(below.schema))))
    functions = [_aggregate(random, below) for _ in range(random.randint(1, 2))]
    kinds = [below.schema.columns[below.schema.positions[key]].type for key in keys]
    kinds += [function.type for function in functions]
    schema = Schema.of((f"g{at}", kind) for at, kind in enumerate(kinds))
    return Grouped(below, tuple(keys), tuple(functions), schema, always=random.random() < 0.5)


def _aggregate(random: Random, below: Top) -> Aggregate:
    while True:
        name, column = random.choice(_SAME), random.choice(below.schema.columns)
        arguments = [ColumnRef(column.name, column.type)][: FUNCTIONS[name].arguments]
        try:
            return aggregate(name, *arguments, distinct=random.random() < 0.2)
        except ValueError:
            continue


def _order(random: Random, below: Top) -> tuple[Order, ...]:
    names = random.sample(below.schema.names, random.randint(0, min(2, len(below.schema))))
    return tuple(Order(name, random.random() < 0.5, random.random() < 0.5) for name in names)


def _first(random: Random, depth: int) -> Top:
    below = random_top(random, depth - 1)
    limit = random.choice((None, 0, 2, 5))
    return First(below, _order(random, below), limit, random.randint(0, 2))


def _windowed(random: Random, depth: int) -> Top:
    below = random_top(random, depth - 1)
    partition = tuple(random.sample(below.schema.names, random.randint(0, 1)))
    order, function = _order(random, below), _aggregate(random, below)
    functions = [WindowFunction("row_number", (), INT, partition, order)]
    if not function.distinct:
        frame = random.choice((WindowFrame(), WindowFrame(-1, 0, by_range=False)))
        functions.append(
            WindowFunction(
                function.function, function.arguments, function.type, partition, order, frame
            )
        )
    kinds = [*below.schema.types, *(function.type for function in functions)]
    schema = Schema.of((f"w{at}", kind) for at, kind in enumerate(kinds))
    names = dict(zip(schema.names, below.schema.columns, strict=False))
    outputs = tuple(ColumnRef(column.name, column.type) for column in names.values())
    renamed = Project(below, outputs, Schema(schema.columns[: len(below.schema)]))
    return Windowed(renamed, tuple(_renamed(f, below, schema) for f in functions), schema)


def _renamed(function: WindowFunction, below: Top, schema: Schema) -> WindowFunction:
    """The function over columns that are named anew."""
    names = dict(zip(below.schema.names, schema.names, strict=False))
    arguments = tuple(
        ColumnRef(names[argument.name], argument.type)
        for argument in function.arguments
        if isinstance(argument, ColumnRef)
    )
    order = tuple(Order(names[o.column], o.descending, o.nulls_last) for o in function.order)
    partition = tuple(names[name] for name in function.partition)
    return WindowFunction(
        function.function, arguments, function.type, partition, order, function.frame
    )


_NODES: list[Callable[[Random, int], Top]] = [
    _select,
    _project,
    _union,
    _less,
    _restrict,
    _product,
    lambda random, depth: Distinct(random_top(random, depth - 1)),
    _grouped,
    _grouped,
    _first,
    _windowed,
]
