"""Writing: clauses over sources as the SQL of an ordinary view.

What is written is read again and compared, clause by clause: an expression that would come back as
another one is refused by name, and never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, substituted
from headwater.algebra.operators import strict_function
from headwater.algebra.schema import Column, Relation
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.values import BOOL, TEXT, Type, Value
from headwater.mediation.clauses import Clause, column_of, present, refs_in, show_term
from headwater.mediation.facts import implied, without_implied

_COMPARES = ("=", "<>", "<", "<=", ">", ">=", "<=>", "like")
_INFIX = frozenset([*_COMPARES, "+", "-", "*", "/", "%", "||", "and", "or"])
_TYPES = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "text": "STRING",
    "bytes": "BINARY",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamp_tz": "TIMESTAMP",
}


def written(
    clauses: Sequence[Clause],
    names: Sequence[str],
    relations: Mapping[str, Relation],
    *,
    distinct: bool,
) -> str:
    """A query of these clauses, each row once if it is to be distinct."""
    parts = [_select(clause, names, relations) for clause in clauses]
    if not distinct:
        return "\nUNION ALL\n".join(parts)
    if len(parts) == 1:
        return parts[0].replace("SELECT", "SELECT DISTINCT", 1)
    union = "\nUNION ALL\n".join(parts)
    return f"SELECT DISTINCT * FROM (\n{union}\n) AS answers"


def _select(clause: Clause, names: Sequence[str], relations: Mapping[str, Relation]) -> str:
    places = places_of(clause, relations)
    first = {name: found[0] for name, found in places.items()}
    column = first.__getitem__
    pairs = zip(clause.outputs, names, strict=True)
    shown = ", ".join(f"{sql_of(output, column)} AS {quoted(name)}" for output, name in pairs)
    tables = []
    for at, atom in enumerate(clause.atoms, 1):
        relation = relations[atom.relation]
        tables.append(f"{quoted(relation.source)}.{quoted(relation.short_name)} AS t{at}")
    where = [sql_of(condition, column) for condition in conditions_of(clause, relations)]
    text = f"SELECT {shown}\nFROM {', '.join(tables)}" if tables else f"SELECT {shown}"
    return f"{text}\nWHERE {' AND '.join(where)}" if where else text


def places_of(clause: Clause, relations: Mapping[str, Relation]) -> dict[str, list[str]]:
    """The columns at which each variable stands, as they are written."""
    found: dict[str, list[str]] = {}
    for at, atom in enumerate(clause.atoms, 1):
        columns = relations[atom.relation].schema.columns
        for term, column in zip(atom.terms, columns, strict=True):
            if isinstance(term, ColumnRef):
                found.setdefault(term.name, []).append(_place(at, column))
    return found


def _place(at: int, column: Column) -> str:
    """A column as it is written; one that stands for another as a text has no name of its own."""
    if column.text_of:
        return f"CAST(t{at}.{quoted(column.text_of)} AS STRING)"
    return f"t{at}.{quoted(column.name)}"


def conditions_of(clause: Clause, relations: Mapping[str, Relation]) -> list[Expression]:
    """What is to hold of the rows, over variables and columns as they are written, behind a `=`."""
    found: list[Expression] = []
    never_null = set(keys_of(clause, relations))
    said = {present(key) for key in never_null}
    places = places_of(clause, relations)
    for name, ref in clause.variables.items():
        others = places.get(name, [])[1:]
        is_present = ref in never_null or implied(present(ref), clause.conditions)
        for other in others:
            found.append(_equal("=" if is_present else "<=>", ref, other))
        if others and is_present:
            said.add(present(ref))
    for at, atom in enumerate(clause.atoms, 1):
        columns = relations[atom.relation].schema.columns
        for term, column in zip(atom.terms, columns, strict=True):
            if isinstance(term, Literal):
                operator = "<=>" if term.value is None else "="
                found.append(_equal(operator, term, _place(at, column)))
    left = without_implied(clause.conditions)
    return [*found, *(each for each in left if each not in said)]


def _equal(operator: str, term: ColumnRef | Literal, place: str) -> Expression:
    return Call(operator, (ColumnRef(f"={place}", term.type), term), BOOL)


def keys_of(clause: Clause, relations: Mapping[str, Relation]) -> list[Expression]:
    """The terms that stand in columns of keys."""
    return [
        atom.terms[at]
        for atom in clause.atoms
        for at in relations[atom.relation].key_positions
        if isinstance(atom.terms[at], ColumnRef)
    ]


# Expressions


def sql_of(expression: Expression, column: Callable[[str], str]) -> str:
    """An expression in SQL; RefusalError if there is no word for it."""
    match expression:
        case Literal(value=value, type=kind):
            return _constant(value, kind)
        case ColumnRef(name=name):
            return name[1:] if name.startswith("=") else column(name)
        case Call("not", (Call("is null", (only,)),)):
            return f"({sql_of(only, column)} IS NOT NULL)"
        case Call(operator=operator, arguments=arguments):
            parts = [sql_of(argument, column) for argument in arguments]
            return _call(operator, parts, expression)


def _call(operator: str, parts: list[str], expression: Call) -> str:
    match operator:
        case "is null":
            return f"({parts[0]} IS NULL)"
        case "not":
            return f"(NOT {parts[0]})"
        case "negate":
            return f"(- {parts[0]})"
        case "cast" | "try_cast":
            return f"{operator.upper()}({parts[0]} AS {_type(expression.type)})"
        case "case":
            pairs = zip(parts[:-1:2], parts[1:-1:2], strict=True)
            branches = " ".join(f"WHEN {when} THEN {then}" for when, then in pairs)
            return f"CASE {branches} ELSE {parts[-1]} END"
        case _ if operator in _INFIX:
            return f"({f' {operator.upper()} '.join(parts)})"
        case _ if operator.replace("_", "").isalnum():
            return f"{operator.upper()}({', '.join(parts)})"
    raise refused(expression)


def refused(expression: Expression) -> RefusalError:
    names = {ref.name: ColumnRef(column_of(ref.name), ref.type) for ref in refs_in(expression)}
    shown = show_term(substituted(expression, names))
    return RefusalError(
        f"{shown} cannot be used where mediated relations are read.",
        "Show the columns that it needs, and compute it in a view over this one.",
    )


def _constant(value: Value, kind: Type) -> str:
    if value is None:
        return f"CAST(NULL AS {_type(kind)})"
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() if kind.name == "int":
            return str(value)
        case str():
            return _text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    to_text = strict_function("cast", (kind,), TEXT)
    if to_text is None or kind.is_nested:
        raise refused(Literal(value, kind))
    return f"CAST({_text(str(to_text(value)))} AS {_type(kind)})"


def _text(value: str) -> str:
    doubled = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _type(kind: Type) -> str:
    return _TYPES.get(kind.name, str(kind).upper())


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Comparing


def canonical(clause: Clause, relations: Mapping[str, Relation]) -> object:
    """What two clauses have in common that are the same but for names and order of conditions."""
    first: dict[str, Expression] = {}
    for at, atom in enumerate(clause.atoms, 1):
        columns = relations[atom.relation].schema.names
        for term, name in zip(atom.terms, columns, strict=True):
            if isinstance(term, ColumnRef):
                first.setdefault(term.name, ColumnRef(f"t{at}.{name}", term.type))
    named = clause.substituted(first)
    keys = {present(key) for key in keys_of(named, relations)}
    conditions = {each for each in without_implied(named.conditions) if each not in keys}
    return replace(named, conditions=(), origins=()), frozenset(conditions)
