"""More than one mistake of a SELECT at once: names that mean nothing, wherever they stand.

Reading stops at the first mistake. What other columns and functions of the same SELECT are not
known can be told beside it, because that depends on FROM alone. So names are looked at again once
something is wrong, and never before: this pass refuses nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlglot import exp

from headwater.algebra.sql.aggregates import is_aggregate
from headwater.algebra.sql.calls import is_unit
from headwater.algebra.sql.exploding import made_of
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.functions import Given, own_call
from headwater.algebra.sql.names import UnknownNameError
from headwater.algebra.sql.refusals import refused
from headwater.algebra.sql.text import CALLED
from headwater.errors import SeveralSqlError, SqlError

_CLAUSES = ("expressions", "where", "group", "having", "qualify", "order")


@contextmanager
def telling_all(node: exp.Select, translator: Callable[[], Translator]) -> Iterator[None]:
    """A mistake inside is told with the unknown names of the SELECT; `translator` knows FROM."""
    try:
        yield
    except SqlError as error:
        found = {(each.line, each.column): each for each in _unknown(node, translator())}
        found |= {(each.line, each.column): each for each in error.problems}
        if len(found) == 1:
            raise
        raise SeveralSqlError([found[place] for place in sorted(found)]) from None


def _unknown(node: exp.Select, t: Translator) -> Iterator[SqlError]:
    aliases = {i.alias.lower() for i in node.expressions if isinstance(i, exp.Alias)}
    for clause in _CLAUSES:
        value = node.args.get(clause) or []
        for part in value if isinstance(value, list) else [value]:
            for each in _names(part):
                is_alias = clause != "expressions" and each.name.lower() in aliases
                if not is_alias and (error := _mistake(each, t)) is not None:
                    yield error


def _names(node: exp.Expr) -> Iterator[exp.Column | exp.Anonymous]:
    """The columns and the functions by name, but for those of subqueries."""
    if isinstance(node, exp.Query | Given):
        return
    if isinstance(node, exp.Column | exp.Anonymous):
        yield node
    if not isinstance(node, exp.Column):
        for part in node.iter_expressions():
            if not is_unit(part):
                yield from _names(part)


def _mistake(node: exp.Column | exp.Anonymous, t: Translator) -> SqlError | None:
    if isinstance(node, exp.Anonymous):
        is_known = node.name.upper() in CALLED or is_aggregate(node) or made_of(node) is not None
        is_known = is_known or own_call(node) is not None
        is_window = isinstance(node.parent, exp.Window | exp.IgnoreNulls | exp.RespectNulls)
        return None if is_known or is_window else refused(t.text, node)
    if isinstance(node.this, exp.Star):
        return None
    try:
        t.visible(node)
    except UnknownNameError as error:
        return t.text.error(node, str(error), error.hint)
    except ValueError:
        return None  # it is told when it is reached
    return None
