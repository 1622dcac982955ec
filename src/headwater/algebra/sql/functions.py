"""SQL functions of one's own: CREATE FUNCTION ... RETURN, unfolded where a query calls them.

Their syntax and meaning are Spark's. Arguments are cast to the types of the parameters, and the
result to the type that the function RETURNS; a call is then what its body is, so that engines,
levels and checks know nothing of functions. Names in a body mean the function's parameters, or
columns of the tables that it reads itself, and never what stands around a call.

Calls are marked in the syntax tree once it is parsed (`Functions.marked`).

Choices: a function of one value has no subquery, and one of rows takes constants as arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlglot import exp

from headwater.algebra.expressions import ColumnRef, Expression, substituted
from headwater.algebra.sql.names import Scope, Table, Visible
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.typing_rules import cast
from headwater.algebra.values import Type
from headwater.errors import InputError, SqlError

_CALL = "own function"
GIVEN = "given"
"""What a `Given` says of a parameter: its value, and which of its fields."""


@dataclass(frozen=True)
class Parameter:
    """An argument that a function takes."""

    name: str
    type: Type
    default: exp.Expr | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Function:
    """A function of one's own: of one value, or of rows if it has `columns`."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: Type | None
    """None if its body says so: of what type a value is, or which columns rows have."""
    columns: tuple[tuple[str, Type], ...] | None
    """Of rows: what they are to be; empty if the body says so. None if it gives one value."""
    text: SqlText = field(repr=False)
    """The statement where it stands, all else blank."""
    file: str = ""
    """Where its mistakes are told of; they are the query's own if it is empty."""

    @property
    def gives_rows(self) -> bool:
        return self.columns is not None

    def check_gives_rows(self) -> None:
        """RefusalError if it does not, and is called where rows are wanted."""
        if not self.gives_rows:
            message = f"{self.name} gives one value, and no rows."
            raise RefusalError(message, f"Write SELECT {self.name}(...).")

    def body(self) -> exp.Expr:
        """What it returns; a tree of one's own each time."""
        found: exp.Expr = self.text.parse().expression.this
        return found

    @cached_property
    def tree(self) -> exp.Expr:
        """The same, to be looked at only."""
        return self.body()

    def telling(self) -> AbstractContextManager[None]:
        """Mistakes inside are the function's, at their place in its file."""
        return telling_of(self.file)

    def values(self, call: exp.Expr, t: Any) -> dict[str, Expression]:
        """The arguments of a call by the names of their parameters, of their types."""
        given = self._given(call.expressions)
        found: dict[str, Expression] = {}
        for one in self.parameters:
            node = given.get(one.name.lower())
            if node is not None:
                found[one.name] = self._cast(t.expression(node), one)
            elif one.default is not None:
                with self.telling():
                    value = _translator(self.text, Scope()).expression(one.default)
                    found[one.name] = self._cast(value, one)
            else:
                raise RefusalError(f"{self.name} is not given {one.name}.", self._usage)
        return found

    def _cast(self, value: Expression, to: Parameter) -> Expression:
        try:
            return cast(value, to.type)
        except ValueError as error:
            raise ValueError(f"{to.name} of {self.name}: {error}") from None

    def _given(self, nodes: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
        known = [one.name.lower() for one in self.parameters]
        found: dict[str, exp.Expr] = {}
        for at, node in enumerate(nodes):
            is_named = isinstance(node, exp.Kwarg)
            name = node.this.name.lower() if is_named else known[at] if at < len(known) else ""
            if name not in known or name in found:
                what = f"is given {name} twice" if name in found else "takes no such argument"
                raise RefusalError(f"{self.name} {what}.", self._usage)
            found[name] = node.expression if is_named else node
        return found

    @property
    def _usage(self) -> str:
        listed = ", ".join(f"{one.name} {str(one.type).upper()}" for one in self.parameters)
        return f"It is {self.name}({listed})."


class FunctionError(InputError):
    """A mistake in a function of one's own, which has a place in a file of its own."""


@contextmanager
def telling_of(file: str) -> Iterator[None]:
    """Mistakes inside are told with their place in a file, if there is one."""
    try:
        yield
    except SqlError as error:
        if not file:
            raise
        first = error.problems[0]
        said = first.message.removeprefix(f"line {first.line}, column {first.column}: ")
        place = f"{file}:{first.line}:{first.column}"
        raise FunctionError(f"{place}: {said}", first.hint) from None


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions that a query may call, by their names in capitals."""

    by_name: Mapping[str, Function] = field(default_factory=dict)

    def marked(self, tree: exp.Expr) -> exp.Expr:
        """The tree, in which every call of one of these says so."""
        for call in self.calls_in(tree):
            call.meta[_CALL] = (self.by_name[call.name.upper()], self)
        return tree

    def calls_in(self, tree: exp.Expr) -> Iterator[exp.Anonymous]:
        for call in tree.find_all(exp.Anonymous):
            if call.name.upper() in self.by_name:
                yield call

    def used_by(self, tree: exp.Expr) -> dict[str, Function]:
        """Those that a query calls, and those that they call, each behind what it calls."""
        found: dict[str, Function] = {}
        for call in self.calls_in(tree):
            function = self.by_name[call.name.upper()]
            found |= self.used_by(function.tree)
            found.setdefault(call.name.upper(), function)
        return found

    def __or__(self, others: Mapping[str, Function]) -> Functions:
        return Functions({**self.by_name, **others}) if others else self

    def checked(self) -> tuple[Functions, list[InputError]]:
        """Those that lead into no circle, and what is wrong whoever calls them: circles, and
        bodies that give no value."""
        circles = {name: self._circle(each, ()) for name, each in self.by_name.items()}
        mistakes = {str(error): error for error in circles.values() if error}
        sound = Functions({n: each for n, each in self.by_name.items() if circles[n] is None})
        for function in sound.by_name.values():
            try:
                with function.telling():
                    _ = function.gives_rows or sound.value(function)
            except InputError as error:
                mistakes[str(error)] = error
        return sound, list(mistakes.values())

    def _circle(self, function: Function, path: tuple[Function, ...]) -> InputError | None:
        if function in path:
            circle = path[path.index(function) :]
            first = circle.index(min(circle, key=lambda each: each.name))
            turned = (*circle[first:], *circle[: first + 1])
            return self._told(turned)
        for call in self.calls_in(function.tree):
            found = self._circle(self.by_name[call.name.upper()], (*path, function))
            if found is not None:
                return found
        return None

    def _told(self, circle: Sequence[Function]) -> InputError:
        """A circle, told where its last function calls the first."""
        last, listed = circle[-2], " calls ".join(function.name for function in circle)
        calls = self.calls_in(last.tree)
        call = next(c for c in calls if c.name.upper() == circle[-1].name.upper())
        try:
            with last.telling():
                raise last.text.error(
                    call,
                    f"functions call each other in a circle: {listed}.",
                    "Write one of them out.",
                )
        except InputError as error:
            return error

    def value(self, function: Function) -> Expression:
        """What a function of one value gives, over its parameters as columns."""
        columns = tuple(
            Visible(one.name, _column(function, one), function.name) for one in function.parameters
        )
        scope = Scope.of(Table(function.name, columns))
        body = self.marked(function.body())
        for query in body.find_all(exp.Query):
            raise function.text.error(
                query,
                f"{function.name} gives one value, and has a subquery.",
                "Write the subquery in the view, or a function that RETURNS TABLE.",
            )
        _tell_variables_apart(body, function)
        found = _translator(function.text, scope).expression(body)
        try:
            return cast(found, function.returns) if function.returns else found
        except ValueError as error:
            raise function.text.error(body, f"{error}.", "Change what it RETURNS.") from None


NONE = Functions()


def _translator(text: SqlText, scope: Scope) -> Any:
    from headwater.algebra.sql.expressions import Translator  # which reads calls by this module

    return Translator(text, scope)


class Given(exp.Paren):
    """The name of a parameter in a query, which a column of the query's own tables may have too."""


def own_call(node: Any) -> tuple[Function, Functions] | None:
    """The function of one's own that a node calls, and those beside it."""
    found: tuple[Function, Functions] | None = node.meta.get(_CALL)
    return found


def value_of(call: exp.Expr, t: Any) -> Expression:
    """What a call of a function of one value means; `t` says what its arguments mean."""
    known = own_call(call)
    assert known is not None
    function, functions = known
    if function.gives_rows:
        raise RefusalError(f"{function.name} gives rows.", f"Write FROM {function.name}(...).")
    values = function.values(call, t)
    with function.telling():
        body = functions.value(function)
    meanings = {_column(function, one).name: values[one.name] for one in function.parameters}
    return substituted(body, meanings)


def _column(function: Function, parameter: Parameter) -> ColumnRef:
    return ColumnRef(f"{function.name}({parameter.name})", parameter.type)


def _tell_variables_apart(body: exp.Expr, function: Function) -> None:
    """Variables of lambdas under names that no lambda around a call has."""
    for function_of in list(body.find_all(exp.Lambda)):
        names = {part.name.lower() for part in function_of.expressions}
        for part in list(function_of.find_all(exp.Identifier)):
            if part.name.lower() in names and not isinstance(part.parent, exp.Column):
                part.set("this", f"{part.name} of {function.name}")
