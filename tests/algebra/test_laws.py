"""The law suite, part one: relations are a ring, and the operations on them are linear."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT, Row
from tests.algebra.engines import Engine, Frame
from tests.strategies import row, signed

PLAIN = Schema.of([("k", INT), ("a", INT), ("t", TEXT)])
LEFT, RIGHT, THIRD = (PLAIN.qualified(alias) for alias in ("l", "r", "x"))
FACTORS = st.integers(-3, 3)
ONE, OTHER, MORE = signed(PLAIN), signed(PLAIN), signed(PLAIN)
L, R, X = signed(LEFT), signed(RIGHT), signed(THIRD)


def column(name: str) -> Expression:
    return ColumnRef(name, TEXT if name.endswith("t") else INT)


ON_KEY = [(column("l.k"), column("r.k"))]
ON_TWO = [(column("l.k"), column("r.k")), (column("l.t"), column("r.t"))]
CONDITIONS = st.sampled_from(
    [
        call("=", column("k"), column("a")),
        call("<", column("a"), Literal(2, INT)),
        call("is null", column("t")),
        call("<=>", column("t"), Literal(None, TEXT)),
        call("or", call("=", column("t"), Literal("x", TEXT)), call(">", column("k"), column("a"))),
        call("not", call("=", column("k"), Literal(1, INT))),
        call(">", call("+", column("k"), column("a")), Literal(1, INT)),
    ]
)
OUTPUTS = st.sampled_from(
    [
        [column("k")],
        [column("a"), column("k")],
        [call("+", column("k"), column("a"))],
        [call("coalesce", column("a"), column("k")), column("t")],
        [Literal(1, INT)],
    ]
)


def same(engine: Engine, left: Frame, right: Frame) -> None:
    assert engine.to_rows(left) == engine.to_rows(right)


def outputs_schema(outputs: list[Expression]) -> Schema:
    return Schema.of((f"c{at}", output.type) for at, output in enumerate(outputs))


def in_order(frame: Frame, schema: Schema) -> Frame:
    """The same rows with their columns in the order of `schema`."""
    return frame.project(schema, [ColumnRef(c.name, c.type) for c in schema.columns])


# Addition


@given(r=ONE, s=OTHER)
def test_addition_commutes(engine: Engine, r: Rows, s: Rows) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    same(engine, a + b, b + a)


@given(r=ONE, s=OTHER, t=MORE)
def test_addition_associates(engine: Engine, r: Rows, s: Rows, t: Rows) -> None:
    a, b, c = engine.from_rows(r), engine.from_rows(s), engine.from_rows(t)
    same(engine, (a + b) + c, a + (b + c))


@given(r=ONE)
def test_the_empty_relation_adds_nothing(engine: Engine, r: Rows) -> None:
    a, zero = engine.from_rows(r), engine.from_rows(Rows.empty(PLAIN))
    same(engine, a + zero, a)
    same(engine, zero + a, a)


@given(r=ONE)
def test_a_relation_and_its_negative_cancel(engine: Engine, r: Rows) -> None:
    a = engine.from_rows(r)
    assert not engine.to_rows(a + -a)


@given(r=ONE, s=OTHER)
def test_subtraction_undoes_addition(engine: Engine, r: Rows, s: Rows) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    same(engine, (a + b) - b, a)


@given(r=ONE, s=OTHER)
def test_addition_sums_the_counts_of_each_row(engine: Engine, r: Rows, s: Rows) -> None:
    total = engine.to_rows(engine.from_rows(r) + engine.from_rows(s))
    for found in {*r, *s}:
        assert total.count(found) == r.count(found) + s.count(found)


@given(r=ONE)
def test_reading_a_relation_back_changes_nothing(engine: Engine, r: Rows) -> None:
    assert engine.to_rows(engine.from_rows(r)) == r


# Scaling


@given(r=ONE, s=OTHER, n=FACTORS)
def test_scaling_distributes_over_addition(engine: Engine, r: Rows, s: Rows, n: int) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    same(engine, (a + b).scaled(n), a.scaled(n) + b.scaled(n))


@given(r=ONE, m=FACTORS, n=FACTORS)
def test_scaling_twice_is_scaling_by_the_product(engine: Engine, r: Rows, m: int, n: int) -> None:
    a = engine.from_rows(r)
    same(engine, a.scaled(m).scaled(n), a.scaled(m * n))


@given(r=ONE, m=FACTORS, n=FACTORS)
def test_scaling_by_a_sum_is_the_sum_of_scalings(engine: Engine, r: Rows, m: int, n: int) -> None:
    a = engine.from_rows(r)
    same(engine, a.scaled(m + n), a.scaled(m) + a.scaled(n))


# Joins


@given(r=L, s=R, on=st.sampled_from([[], ON_KEY, ON_TWO]))
def test_join_commutes_up_to_the_order_of_columns(
    engine: Engine, r: Rows, s: Rows, on: list[tuple[Expression, Expression]]
) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    turned = b.join(a, [(right, left) for left, right in on])
    same(engine, a.join(b, on), in_order(turned, LEFT + RIGHT))


@given(r=L, s=R, t=X)
def test_join_associates(engine: Engine, r: Rows, s: Rows, t: Rows) -> None:
    a, b, c = engine.from_rows(r), engine.from_rows(s), engine.from_rows(t)
    on_third = [(column("r.a"), column("x.a"))]
    same(engine, a.join(b, ON_KEY).join(c, on_third), a.join(b.join(c, on_third), ON_KEY))


@given(r=L, s=R, t=R, on=st.sampled_from([[], ON_KEY, ON_TWO]))
def test_join_distributes_over_addition_on_the_right(
    engine: Engine, r: Rows, s: Rows, t: Rows, on: list[tuple[Expression, Expression]]
) -> None:
    a, b, c = engine.from_rows(r), engine.from_rows(s), engine.from_rows(t)
    same(engine, a.join(b + c, on), a.join(b, on) + a.join(c, on))


@given(r=L, s=L, t=R)
def test_join_distributes_over_addition_on_the_left(
    engine: Engine, r: Rows, s: Rows, t: Rows
) -> None:
    a, b, c = engine.from_rows(r), engine.from_rows(s), engine.from_rows(t)
    same(engine, (a + b).join(c, ON_KEY), a.join(c, ON_KEY) + b.join(c, ON_KEY))


@given(r=L)
def test_join_with_nothing_is_nothing(engine: Engine, r: Rows) -> None:
    a, zero = engine.from_rows(r), engine.from_rows(Rows.empty(RIGHT))
    assert not engine.to_rows(a.join(zero, ON_KEY))
    assert not engine.to_rows(a.join(zero))


@given(r=L, s=R, n=FACTORS)
def test_a_factor_moves_out_of_a_join(engine: Engine, r: Rows, s: Rows, n: int) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    same(engine, a.scaled(n).join(b, ON_KEY), a.join(b, ON_KEY).scaled(n))
    same(engine, a.join(b.scaled(n), ON_KEY), a.join(b, ON_KEY).scaled(n))


@given(r=L, s=R)
def test_a_join_on_equal_columns_is_a_selection_of_the_product(
    engine: Engine, r: Rows, s: Rows
) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    equal = call("=", column("l.k"), column("r.k"))
    same(engine, a.join(b, ON_KEY), a.join(b).select(equal))


@given(r=L, s=R)
def test_the_product_multiplies_counts(engine: Engine, r: Rows, s: Rows) -> None:
    product = engine.to_rows(engine.from_rows(r).join(engine.from_rows(s)))
    assert len(product) == len(r) * len(s)
    for left, count in r.items():
        for right, other in s.items():
            assert product.count(left + right) == count * other


# Selection and projection


@given(r=ONE, s=OTHER, condition=CONDITIONS)
def test_selection_is_linear(engine: Engine, r: Rows, s: Rows, condition: Expression) -> None:
    a, b = engine.from_rows(r), engine.from_rows(s)
    same(engine, (a + b).select(condition), a.select(condition) + b.select(condition))


@given(r=ONE, n=FACTORS, condition=CONDITIONS)
def test_a_factor_moves_out_of_a_selection(
    engine: Engine, r: Rows, n: int, condition: Expression
) -> None:
    a = engine.from_rows(r)
    same(engine, a.scaled(n).select(condition), a.select(condition).scaled(n))


@given(r=ONE, first=CONDITIONS, second=CONDITIONS)
def test_selecting_twice_is_selecting_by_both(
    engine: Engine, r: Rows, first: Expression, second: Expression
) -> None:
    a = engine.from_rows(r)
    same(engine, a.select(first).select(second), a.select(call("and", first, second)))


@given(r=ONE, condition=CONDITIONS)
def test_a_condition_its_negation_and_its_unknown_divide_a_relation(
    engine: Engine, r: Rows, condition: Expression
) -> None:
    a = engine.from_rows(r)
    unknown = a.select(call("is null", condition))
    same(engine, a.select(condition) + a.select(call("not", condition)) + unknown, a)


@given(r=ONE, s=OTHER, outputs=OUTPUTS)
def test_projection_is_linear(engine: Engine, r: Rows, s: Rows, outputs: list[Expression]) -> None:
    a, b, schema = engine.from_rows(r), engine.from_rows(s), outputs_schema(outputs)
    same(
        engine,
        (a + b).project(schema, outputs),
        a.project(schema, outputs) + b.project(schema, outputs),
    )


@given(r=ONE, n=FACTORS, outputs=OUTPUTS)
def test_a_factor_moves_out_of_a_projection(
    engine: Engine, r: Rows, n: int, outputs: list[Expression]
) -> None:
    a, schema = engine.from_rows(r), outputs_schema(outputs)
    same(engine, a.scaled(n).project(schema, outputs), a.project(schema, outputs).scaled(n))


@given(r=ONE, outputs=OUTPUTS)
def test_projection_keeps_the_sum_of_counts(
    engine: Engine, r: Rows, outputs: list[Expression]
) -> None:
    projected = engine.to_rows(engine.from_rows(r).project(outputs_schema(outputs), outputs))
    assert sum(n for _, n in projected.items()) == sum(n for _, n in r.items())


# Deleting by key


KEYS = st.lists(row(Schema.of([("k", INT), ("t", TEXT)])), max_size=3)


@st.composite
def rows_and_some_of_their_keys(draw: st.DrawFn) -> tuple[Rows, list[Row]]:
    rows = draw(ONE)
    keys: list[Row] = [(r[0], r[2]) for r in rows]
    return rows, draw(st.lists(st.sampled_from(keys), max_size=3) if keys else KEYS)


@given(rows_and_keys=rows_and_some_of_their_keys())
def test_key_delete_removes_exactly_the_rows_with_these_keys(
    engine: Engine, rows_and_keys: tuple[Rows, list[Row]]
) -> None:
    r, keys = rows_and_keys
    left = engine.to_rows(engine.from_rows(r).key_delete(("k", "t"), keys))
    for found, count in r.items():
        assert left.count(found) == (0 if (found[0], found[2]) in keys else count)


@given(r=ONE, s=OTHER, keys=KEYS)
def test_key_delete_is_linear(engine: Engine, r: Rows, s: Rows, keys: list[Row]) -> None:
    a, b, columns = engine.from_rows(r), engine.from_rows(s), ("k", "t")
    same(
        engine,
        (a + b).key_delete(columns, keys),
        a.key_delete(columns, keys) + b.key_delete(columns, keys),
    )


@given(r=ONE, keys=KEYS, more=KEYS)
def test_key_deletes_in_any_order_are_one_key_delete(
    engine: Engine, r: Rows, keys: list[Row], more: list[Row]
) -> None:
    a, columns = engine.from_rows(r), ("k", "t")
    both = a.key_delete(columns, [*keys, *more])
    same(engine, a.key_delete(columns, keys).key_delete(columns, more), both)
    same(engine, a.key_delete(columns, more).key_delete(columns, keys), both)


# Rows that another relation has too


@given(r=ONE, s=OTHER)
def test_among_keeps_exactly_the_rows_that_the_other_has(engine: Engine, r: Rows, s: Rows) -> None:
    kept = engine.to_rows(engine.from_rows(r).among(engine.from_rows(s)))
    assert kept == Rows(PLAIN, {found: count for found, count in r.items() if s.count(found)})


@given(r=ONE, s=OTHER, t=MORE)
def test_among_is_linear_and_sees_what_cancels(engine: Engine, r: Rows, s: Rows, t: Rows) -> None:
    a, b, c = engine.from_rows(r), engine.from_rows(s), engine.from_rows(t)
    same(engine, (a + b).among(c), a.among(c) + b.among(c))
    same(engine, a.among((c + b) - b), a.among(c))


# What a reader sees


@given(r=ONE)
def test_a_relation_is_its_positive_part_less_that_of_its_negative(engine: Engine, r: Rows) -> None:
    a = engine.from_rows(r)
    same(engine, a.positive() - (-a).positive(), a)


@given(r=ONE)
def test_renaming_keeps_the_rows(engine: Engine, r: Rows) -> None:
    renamed = engine.to_rows(engine.from_rows(r).renamed(LEFT))
    assert renamed.schema == LEFT
    assert dict(renamed.items()) == dict(r.items())
