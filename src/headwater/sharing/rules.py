"""The rules A1 to A11: how updategrams and boosters are made, combined and used.

Section 3 of the paper, a function a rule. `mu_R^{i,j}` is the updategram of R from version i to
j, `beta_V(mu_R, S)` the booster of S for it in the view V, `x_V` the join with V's conditions. An
updategram joined with rows is an updategram: each resulting row keeps the label, inserted or
deleted, of the row that it came from. A booster is what it joins with, projected and with the
counts of S.

Every rule checks what it needs and raises PreconditionError; nothing is ever computed from
objects that do not fit. What the paper leaves unsaid and every rule needs:

- S is at one version throughout, the version in the view's vector: a booster has it written on it.
- Conditions are closed under deduction, also where they reach over a third relation.
- An updategram's rows are all rows touched within its interval, not only its net change.
- The view reads each relation once.

Choices. Printed, and not so: A3 and A8 for net updategrams; A4 and A9 as equalities; A7 with a
condition on S and T where one on R and S and one on R and T is needed; A11 as an equality, or for
boosters of different versions of S, or of cut rows. Each docstring has the form that
holds; the tests keep a counterexample of each printed form. Four more operations are needed to use
the rules in practice: `narrowed`, `moved`, `whole` and `redirected`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from headwater.algebra.rows import Rows
from headwater.sharing.booster import Booster
from headwater.sharing.containment import is_contained
from headwater.sharing.contents import Contents
from headwater.sharing.errors import PreconditionError
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions

Operand: TypeAlias = Contents | Booster
"""What an updategram is joined with: a base relation, or a booster of one or several."""

# Creating updategrams and boosters


def a1(view: SharedView, updategram: Updategram, relation: Contents) -> Updategram:
    """A1. mu_R x_V S = mu_{R x_V S}.

    Holds, for S at the version that the result's vector names; R may be a join already. For
    sets it needs counts: a deletion that is projected may leave another derivation.
    """
    return _joined(view, updategram, relation)


def a2(view: SharedView, updategram: Updategram, booster: Booster) -> Updategram:
    """A2. mu_R x_V beta_V(mu_R, S) = mu_{R x_V S}. Holds."""
    _require_same_view(view, booster)
    _require_interval(booster.interval == updategram.interval, updategram, booster)
    return _joined(view, updategram, booster)


def a3(view: SharedView, updategram: Updategram, relation: Contents) -> Booster:
    """A3. Pi_S(mu_R x_V S) = beta_V(mu_R, S).

    Holds for all rows touched, each row of S with its own count. For the net change the booster
    of +r, -r is empty, and A8 fails. If R is joined with T already, rows of S are lost that join
    with nothing of T just now: the booster then says that it is one through T at its version.
    """
    names, versions, rows = _operand(view, relation)
    if names[0] in updategram.first:
        raise PreconditionError(
            f"The updategram of {updategram.subject} has {names[0]} in it.",
            "Give another relation of the view.",
        )
    return _made(view, updategram, names, versions, rows)


# Combining boosters


def a4(view: SharedView, booster: Booster, other: Booster) -> Booster:
    """A4. beta_V(mu_R, S) x_V beta_V(mu_R, T) contains beta_V(mu_R, S x_V T).

    Printed as an equality. R(a, b) = {(1, 1), (2, 2)} inserted, S(a) = T(b) = {1, 2}, S joins R on
    a and T joins R on b: four pairs on the left, two on the right. A super-booster, then.
    """
    _require_same_view(view, booster)
    _require_same_view(view, other)
    _require_equal_intervals(booster, other)
    return _joined_boosters(view, booster.interval, booster, other)


def a5(view: SharedView, updategram: Updategram, booster: Booster, other: Booster) -> Updategram:
    """A5. (mu_R x_V beta(S)) x_V beta(T) = mu_R x_V (beta(S) x_V beta(T)). Holds.

    This is the right-hand side; `a2` twice is the left. Boosters may be super-boosters.
    """
    return _joined(view, updategram, a4(view, booster, other))


# Using super-boosters


def a6(view: SharedView, updategram: Updategram, booster: Booster) -> Updategram:
    """A6. If R x_V S is contained in R x_W S, then mu_R x_V beta_W(mu_R, S) = mu_{R x_V S}.

    Holds with conditions closed first: W with R.a = T.a and T.a = S.a says nothing of R and S
    together as it is written, but its booster has only rows with R.a = S.a.
    """
    _require_interval(booster.interval == updategram.interval, updategram, booster)
    _require_contained(view, booster)
    return _joined(view, updategram, booster)


def a7(view: SharedView, booster: Booster, other: Booster) -> Booster:
    """A7. If R x_V S is contained in R x_U S and R x_V T in R x_W T, then
    beta_U(mu_R, S) x_V beta_W(mu_R, T) contains beta_V(mu_R, S x_V T).

    Printed with containment of S x_V T in S x_U T and S x_W T. That says nothing of R: a U that
    selects more of R than V does meets it, and its booster lacks rows.
    """
    _require_equal_intervals(booster, other)
    _require_contained(view, booster)
    _require_contained(view, other)
    return _joined_boosters(view, booster.interval, booster, other)


# Boosters for overlapping intervals


def a8(view: SharedView, updategram: Updategram, booster: Booster) -> Updategram:
    """A8. If i <= j < k <= l, then mu_R^{j,k} x_V beta_V(mu_R^{i,l}, S) = mu_{R x_V S}^{j,k}.

    Holds because boosters cover all rows touched. For net updategrams it does not: r inserted in
    j, k and deleted in k, l nets to nothing in i, l. The booster may be one of a containing view.
    """
    interval = updategram.interval
    _require_interval(booster.interval.contains(interval), updategram, booster)
    _require_contained(view, booster)
    return _joined(view, updategram, booster)


def a9(view: SharedView, booster: Booster, other: Booster) -> Booster:
    """A9. If m = max(i, k) < n = min(j, l), then
    beta_V(mu_R^{i,j}, S) x_V beta_V(mu_R^{k,l}, T) contains beta_V(mu_R^{m,n}, S x_V T).

    Printed as equal to some beta_W with V contained in W. Both sides may have rows of other
    versions than m to n, so it is a super-booster, and only if boosters cover all rows touched.
    """
    _require_contained(view, booster)
    _require_contained(view, other)
    one, two = booster.interval, other.interval
    shared = Interval(one.relation, max(one.first, two.first), min(one.last, two.last))
    if one.relation != two.relation or shared.first >= shared.last:
        raise PreconditionError(
            f"The boosters are for {one} and for {two}, which have no change in common.",
            "Their intervals must overlap.",
        )
    return _joined_boosters(view, shared, booster, other)


# Coalescing


def a10(updategram: Updategram, later: Updategram) -> Updategram:
    """A10. mu_R^{i,j} u mu_R^{j,k} = mu_R^{i,k}. Holds, also for views and vectors.

    Counts are added, of insertions and of deletions apart, so nothing touched is forgotten.
    """
    return updategram.then(later)


def a11(view: SharedView, booster: Booster, other: Booster) -> Booster:
    """A11. If V is contained in W and in X and i < k <= j < l, then
    beta_W(mu_R^{i,j}, S) u beta_X(mu_R^{k,l}, S) contains beta_V(mu_R^{i,l}, S).

    A super-booster; intervals may also nest or just touch, but not leave a gap. Needs both of one
    version of S, and whole rows: a row in both has its count once, not twice.
    """
    _require_contained(view, booster)
    _require_contained(view, other)
    one, two = booster.interval, other.interval
    if not one.meets(two):
        raise PreconditionError(
            f"The boosters are for {one} and for {two}, and nothing covers what lies between.",
            "Their intervals must overlap or touch.",
        )
    if (
        set(booster.of) != set(other.of)
        or booster.versions != other.versions
        or booster.through != other.through
    ):
        raise PreconditionError(
            f"The boosters are of ({booster.versions}) and of ({other.versions}).",
            "They can be merged once both are of one version; 'moved' takes one there.",
        )
    (names, versions, rows), (_, _, more) = _operand(view, booster), _operand(view, other)
    merged = rows + (more - more.among(rows))
    whole = Interval(one.relation, min(one.first, two.first), max(one.last, two.last))
    rows = view.joined([(names, merged)])
    return Booster(view, whole, names, versions, rows, False, booster.through)


# Beside the paper's rules


def narrowed(view: SharedView, updategram: Updategram, booster: Booster) -> Booster:
    """Pi_S(mu_R^{j,k} x_V beta_W(mu_R^{i,l}, S)) = beta_V(mu_R^{j,k}, S): A3 from a super-booster.

    Needs i <= j < k <= l and R x_V S contained in R x_W S. Gives the exact booster.
    """
    _require_interval(booster.interval.contains(updategram.interval), updategram, booster)
    _require_contained(view, booster)
    _require_through(updategram, booster)
    return _made(view, updategram, *_operand(view, booster))


def moved(
    view: SharedView, updategram: Updategram, booster: Booster, change: Updategram
) -> Booster:
    """beta_V(mu_R, S^s) + what of mu_S^{s,t} is relevant = beta_V(mu_R, S^t), t before or after s.

    Without this a booster is of use only to views that stand at its very version of S.
    """
    exact = narrowed(view, updategram, booster)
    if booster.of != (change.subject,) or change.first != booster.versions:
        raise PreconditionError(
            f"An updategram of {change.subject} from ({change.first}) does not move a booster of "
            f"({booster.versions}).",
            "It must be of the booster's one relation and start at its version.",
        )
    names, changed = qualified(view, change)
    delta = _relevant(view, updategram, names, changed.net)
    return replace(exact, versions=change.last, rows=exact.rows + delta)


def whole(view: SharedView, interval: Interval, relation: Contents) -> Booster:
    """A relation is a super-booster of itself, for whatever changes (definition 2.4).

    So relations are joined with each other and with boosters as boosters are (A9).
    """
    names, versions, rows = _operand(view, relation)
    return Booster(view, interval, names, versions, view.joined([(names, rows)]), exact=False)


def redirected(view: SharedView, booster: Booster, patch: Booster) -> Booster:
    """beta(mu_R x T^t, S) u beta(mu_T^{t,u}, S) contains beta(mu_R x T^u, S): through T at u.

    A row of T at u was there at t, and then the booster has its partners in S, or it came since,
    and then the patch has them. Both are of one version of S; u is before t or after it.
    """
    _require_contained(view, booster)
    _require_contained(view, patch)
    between, ends = patch.interval.relation, {patch.interval.first, patch.interval.last}
    there = booster.through.get(between)
    if (
        there not in ends
        or (patch.of, patch.versions) != (booster.of, booster.versions)
        or patch.through
        or len(booster.through) != 1
    ):
        raise PreconditionError(
            f"{str(patch).capitalize()} of ({patch.versions}) does not go with {booster} of "
            f"({booster.versions}).",
            "It must be for changes of what lies between, from the version that is named there, "
            "and of the same version of the same relation.",
        )
    (names, versions, rows), (_, _, more) = _operand(view, booster), _operand(view, patch)
    merged = view.joined([(names, rows + (more - more.among(rows)))])
    (here,) = ends - {there}
    through = Versions({between: here})
    return Booster(view, booster.interval, names, versions, merged, False, through)


def finished(view: SharedView, updategram: Updategram) -> Updategram:
    """mu_V from the updategram of the join of all its relations: the select list at last.

    Where that may fail on a row, only on rows that are in one of the two versions: a row that
    came and went in between is no reason to fail.
    """
    names, part = qualified(view, updategram)
    if len(names) != len(view.relations):
        missing = [name for name in view.relations if name not in names]
        raise PreconditionError(
            f"The updategram of {updategram.subject} is not yet joined with {', '.join(missing)}.",
            f"Join it with all relations of view {view.name}.",
        )
    if view.may_fail:
        part = Updategram.of_net(part.subject, part.first, part.last, part.net)
    return Updategram(
        view.name,
        part.first,
        part.last,
        view.finished(part.inserted),
        view.finished(part.deleted),
    )


# The join with a view's conditions


def _joined(view: SharedView, updategram: Updategram, operand: Operand) -> Updategram:
    """The bowtie of the paper, between an updategram and rows."""
    names, part = qualified(view, updategram)
    others, versions, rows = _operand(view, operand)
    if twice := [name for name in others if name in names]:
        raise PreconditionError(
            f"The updategram of {updategram.subject} has {twice[0]} in it already.",
            "Join it with another relation.",
        )
    if isinstance(operand, Booster):
        _require_through(updategram, operand)
    together = view.ordered((*names, *others))
    return Updategram(
        " ⋈ ".join(together),
        part.first.joined(versions),
        part.last.joined(versions),
        view.joined([(names, part.inserted), (others, rows)]),
        view.joined([(names, part.deleted), (others, rows)]),
    )


def _joined_boosters(
    view: SharedView, interval: Interval, booster: Booster, other: Booster
) -> Booster:
    if twice := [name for name in booster.of if name in other.of]:
        raise PreconditionError(
            f"Both boosters are of {twice[0]}.", "Join boosters of different relations."
        )
    (one, _, rows), (two, _, more) = _operand(view, booster), _operand(view, other)
    versions = booster.versions.joined(other.versions)
    through = booster.through.joined(other.through)
    if any(number != versions.get(name, number) for name, number in through.items()):
        raise PreconditionError(
            f"A booster is one through ({through}), the other of ({versions}).",
            "What one goes through must be what the other is of.",
        )
    return Booster(
        view,
        interval,
        view.ordered((*one, *two)),
        versions,
        view.joined([(one, rows), (two, more)]),
        False,
        Versions({name: number for name, number in through.items() if name not in versions}),
    )


def _made(
    view: SharedView, updategram: Updategram, names: tuple[str, ...], versions: Versions, rows: Rows
) -> Booster:
    """The exact booster for an updategram, from rows that cover it."""
    interval = updategram.interval
    through = Versions({n: v for n, v in updategram.first.items() if n != interval.relation})
    found = _relevant(view, updategram, names, rows)
    return Booster(view, interval, names, versions, found, through=through)


def _relevant(view: SharedView, updategram: Updategram, names: tuple[str, ...], rows: Rows) -> Rows:
    """Those of `rows` that may join with a row that the updategram touches."""
    own, part = qualified(view, updategram)
    matches = view.joined([(own, part.touched), (names, rows)])
    return rows.among(matches.only(view.columns(names)))


def qualified(view: SharedView, updategram: Updategram) -> tuple[tuple[str, ...], Updategram]:
    """The updategram with columns named `relation.column`, and the relations that are in it."""
    names = view.ordered(updategram.first)
    columns = view.columns(names)
    if updategram.subject in view.relations:
        given = view.relations[updategram.subject].schema
        if updategram.schema == given:
            inserted = updategram.inserted.renamed(columns)
            deleted = updategram.deleted.renamed(columns)
            return names, replace(updategram, inserted=inserted, deleted=deleted)
    elif updategram.schema == columns:
        return names, updategram
    raise PreconditionError(
        f"The updategram of {updategram.subject} does not have the columns that view {view.name} "
        "knows.",
        "Both must be published over the same columns.",
    )


def _operand(view: SharedView, operand: Operand) -> tuple[tuple[str, ...], Versions, Rows]:
    names: tuple[str, ...]
    if isinstance(operand, Contents):
        names = (view.require(operand.subject).name,)
        if operand.schema != view.relations[operand.subject].schema:
            raise PreconditionError(
                f"{operand.subject} does not have the columns that view {view.name} knows.",
                "Both must be published over the same columns.",
            )
        return names, operand.versions, operand.rows.renamed(view.columns(names))
    names = view.ordered(operand.of)
    columns = view.columns(names)
    return names, operand.versions, operand.rows.only(columns)


# Preconditions


def _require_through(updategram: Updategram, booster: Booster) -> None:
    """The relations between must have been joined, at the versions that the booster names."""
    there = {name: updategram.first.get(name) for name in booster.through}
    if booster.changed != updategram.interval.relation or there != dict(booster.through):
        raise PreconditionError(
            f"{str(booster).capitalize()} does not go with the updategram of {updategram.subject} "
            f"at ({updategram.first}).",
            "Use a booster for the relation that changes, and join what lies between first.",
        )


def _require_same_view(view: SharedView, booster: Booster) -> None:
    if booster.view != view:
        raise PreconditionError(
            f"This is {booster}, not one for view {view.name}.",
            "Where the other view contains this one, A6, A7 or A8 apply.",
        )


def _require_contained(view: SharedView, booster: Booster) -> None:
    if not is_contained(view, booster.view, booster.relations):
        raise PreconditionError(
            f"View {view.name} is not known to be contained in view {booster.view.name} on "
            f"{', '.join(booster.relations)}, so {booster} may lack rows.",
            "Use a booster of a view whose conditions are the same or fewer.",
        )


def _require_equal_intervals(booster: Booster, other: Booster) -> None:
    if booster.interval != other.interval:
        raise PreconditionError(
            f"The boosters are for {booster.interval} and for {other.interval}.",
            "Both must be for one updategram; A9 joins those of overlapping intervals.",
        )


def _require_interval(fits: bool, updategram: Updategram, booster: Booster) -> None:
    if not fits:
        raise PreconditionError(
            f"The booster is for {booster.interval}, the updategram of {updategram.subject} for "
            f"{updategram.interval}.",
            "A booster covers its own interval and what lies within it.",
        )
