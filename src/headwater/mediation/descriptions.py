"""Descriptions: what a source, a view or a constraint says of mediated relations, as rules.

Everything that is said has one form: every row of a query over what is told is a row of a query
over mediated relations, the *target* (updategrams paper, section 4.1):

- LAV: the rows of a source's relation are rows of a join of mediated relations;
- GAV: the rows of a query over sources are rows of a mediated relation;
- GLAV: the rows of a query over sources are rows of a join of mediated relations;
- a foreign key: the values of some columns are values of columns of another relation.

The rules of a description are its inverse rules: one for each atom of its target, with `unknown`
in the place of each value that the target has and the row does not tell.

Choices. Rows are told, and nothing is closed: a relation may have more rows than all descriptions
together tell. A row that contradicts its own description (NULL where the description joins or
compares, a value that its WHERE excludes) tells nothing, in place of making every answer certain.
A NULL that a source has is a value, the same as NULL, and equals nothing in SQL; an unknown value
may be NULL unless its description says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.algebra.expressions import (
    ColumnRef,
    Expression,
    Literal,
    as_written,
    columns_of,
    substituted,
)
from headwater.algebra.schema import Relation
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call, cast, common_type
from headwater.algebra.values import FLOAT, Type
from headwater.mediation.clauses import Atom, Clause, present, refs_in, show_term, unknown
from headwater.mediation.facts import TRUE, contradictory, implied, without_implied
from headwater.mediation.queries import as_constant

PLACE = "?"
"""The column that stands for an unknown value in what is known of it."""


@dataclass(frozen=True)
class Rule:
    """Where the body holds, the row of the head is there."""

    head: Atom
    body: tuple[Atom, ...]
    conditions: tuple[Expression, ...]
    origin: str
    """The description that it is of, in words."""

    def apart(self, mark: str) -> Rule:
        clause = Clause(self.head.terms, self.body, self.conditions).apart(mark)
        head = Atom(self.head.relation, clause.outputs)
        return replace(self, head=head, body=clause.atoms, conditions=clause.conditions)

    def __str__(self) -> str:
        body = ", ".join([*map(str, self.body), *map(show_term, self.conditions)])
        return f"{self.head} :- {body}"


@dataclass(frozen=True)
class Rules:
    """The rules of a mediated schema, by the relations of their heads."""

    by_head: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    known: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    """What is known of unknown values, by their names: conditions on the column `PLACE`."""

    @classmethod
    def of(
        cls, parts: Iterable[tuple[Sequence[Rule], Mapping[str, tuple[Expression, ...]]]]
    ) -> Rules:
        heads: dict[str, list[Rule]] = {}
        known: dict[str, tuple[Expression, ...]] = {}
        for rules, facts in parts:
            known |= facts
            for rule in rules:
                heads.setdefault(rule.head.relation, []).append(rule)
        return cls({name: tuple(dict.fromkeys(each)) for name, each in heads.items()}, known)

    @property
    def every(self) -> tuple[Rule, ...]:
        return tuple(rule for rules in self.by_head.values() for rule in rules)


@dataclass(frozen=True)
class Description:
    """That every row of any of these queries is a row of the target, output by output."""

    origin: str
    """What says so, in words that no other description of the schema has."""
    told: tuple[Clause, ...]
    names: tuple[str, ...]
    """What the outputs are called."""
    target: Clause
    place: str = ""
    """Where it stands in the files."""

    def rules(
        self, mediated: Mapping[str, Relation], required: Mapping[str, frozenset[str]]
    ) -> tuple[list[Rule], dict[str, tuple[Expression, ...]]]:
        """Its inverse rules, and what is known of the values that it leaves unknown.

        `required` has the columns of mediated relations that are never NULL.
        """
        shown = frozenset().union(*map(columns_of, self.target.outputs))
        places: dict[str, tuple[str, str]] = {}
        known: dict[str, list[Expression]] = {}
        for atom in self.target.atoms:
            relation = mediated[atom.relation]
            for term, column in zip(atom.terms, relation.schema.names, strict=True):
                if isinstance(term, ColumnRef) and term.name not in shown:
                    places.setdefault(term.name, (relation.short_name, column))
                    if column in required[atom.relation]:
                        known.setdefault(term.name, []).append(present(term))
        names = {name: self._unknown(*place) for name, place in _told_apart(places).items()}
        for condition in self.target.conditions:
            looked = columns_of(condition)
            if len(looked) == 1 and looked <= names.keys():
                known.setdefault(next(iter(looked)), []).append(condition)
        facts = {names[name]: _of_place(name, each) for name, each in known.items()}
        needed = self._needed(names, mediated, required)
        rules = [rule for told in self.told for rule in self._of(told.apart("'"), names, needed)]
        return rules, facts

    def _needed(
        self,
        names: Mapping[str, str],
        mediated: Mapping[str, Relation],
        required: Mapping[str, frozenset[str]],
    ) -> list[Expression]:
        """What holds of told values in every row of the target; others contradict it."""
        found: list[Expression] = []
        for condition in self.target.conditions:
            refs = list(refs_in(condition))
            if not any(ref.name in names for ref in refs):
                found.append(condition)
            else:
                told = (present(ref) for ref in refs if ref.name not in names)
                found += [each for each in told if implied(each, [condition])]
        for atom in self.target.atoms:
            columns = mediated[atom.relation].schema.names
            for term, column in zip(atom.terms, columns, strict=True):
                is_told = not columns_of(term) & names.keys()
                if is_told and column in required[atom.relation]:
                    found.append(present(term))
        return found

    def _unknown(self, relation: str, column: str) -> str:
        return f"{column} of {relation} by {self.origin}"

    def _of(
        self, told: Clause, names: Mapping[str, str], needed: Sequence[Expression]
    ) -> list[Rule]:
        """The rules of one of its queries, with these names for unknown values, where what is
        needed holds."""
        meanings: dict[str, Expression] = {}
        fit: list[Expression] = []
        for output, term, name in zip(self.target.outputs, told.outputs, self.names, strict=True):
            wanted = as_written(output)
            fitting = self._fitted(term, output.type, name)
            match wanted:
                case ColumnRef(name=variable) if variable not in meanings:
                    meanings[variable] = self._fitted(term, wanted.type, name)
                case ColumnRef(name=variable):
                    fit.append(call("<=>", meanings[variable], fitting))
                case Literal():
                    fit.append(call("<=>", fitting, output))
                case _:
                    raise self._computed(name, output)
        everything = tuple(meanings.values())  # by position, as in each other query that tells it
        for name, ref in self.target.variables.items():
            if name in names:
                meanings[name] = unknown(names[name], everything, ref.type)
        fit += [substituted(condition, meanings) for condition in needed]
        conditions = without_implied((*told.conditions, *fit))
        if contradictory(conditions):
            return []
        heads = dict.fromkeys(atom.substituted(meanings) for atom in self.target.atoms)
        return [Rule(head, told.atoms, conditions, self.origin) for head in heads]

    def _fitted(self, term: Expression, kind: Type, name: str) -> Expression:
        """What is told as a value of a mediated column's type, if none of it gets lost."""
        if term.type == kind:
            return term
        if isinstance(term, Literal) and (same := as_constant(term, kind)) is not None:
            return same
        try:
            if common_type([term.type, kind]) == kind and kind != FLOAT:  # which rounds numbers
                return cast(term, kind)
        except ValueError:
            pass
        raise RefusalError(
            f"{self.origin} tells column {name} as {term.type}, and the mediated one is {kind}.",
            "CAST it in the query that tells it, which for a source view stands behind FROM, or "
            "declare the mediated column with that type.",
        )

    def _computed(self, name: str, output: Expression) -> RefusalError:
        return RefusalError(
            f"in {self.origin} column {name} is computed from mediated columns "
            f"({show_term(output)}), and what they are does not follow from it.",
            f"Write the source's side as a query that computes the mediated values: FROM (SELECT "
            f"... AS {name} FROM ...) AS SELECT ...",
        )


def with_own_origins(descriptions: Iterable[Description]) -> list[Description]:
    """The descriptions, told apart by their places, or numbers, where several have one title.

    Unknown values are named for what tells of them: one name would make two of them the same.
    """
    every = list(descriptions)
    titles = Counter(each.origin for each in every)
    taken = {title for title, number in titles.items() if number == 1}
    found = []
    for each in every:
        origin = each.origin
        if titles[origin] > 1:
            again, plain = 1, f"{origin} in {each.place}"
            origin = plain
            while origin in taken:
                again += 1
                origin = f"{plain} ({again})"
            taken.add(origin)
        found.append(replace(each, origin=origin))
    return found


def _told_apart(places: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The places with numbers where two unknown values would have one name."""
    found: dict[str, tuple[str, str]] = {}
    for name, (relation, column) in places.items():
        again, wanted = 1, relation
        while (wanted, column) in found.values():
            again += 1
            wanted = f"{relation} {again}"
        found[name] = (wanted, column)
    return found


def _of_place(name: str, conditions: Sequence[Expression]) -> tuple[Expression, ...]:
    found = []
    for condition in conditions:
        (kind,) = {ref.type for ref in refs_in(condition)}
        found.append(substituted(condition, {name: ColumnRef(PLACE, kind)}))
    return tuple(each for each in without_implied(found) if each != TRUE)
