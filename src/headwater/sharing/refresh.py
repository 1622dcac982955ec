"""Advancing a view: its updategram between two vectors, from what is published.

First by updategrams of the view itself, if they lead there. A view that is more than a join is
else computed at both vectors, from copies that the node holds. A join follows one base relation
after the other, as a transaction's effect telescopes: the updategram of R joined, by the rules,
with boosters of the others, of those before it at their new versions and of those behind it at
their old ones. Where a booster is of another version it is moved there; where it covers too
little, several are merged; where it goes through a relation that has changed since, what these
changes reach is added. Only where there is none, a copy that the node holds is asked.

This tries what is at hand in a fixed order and takes the first that serves. Which plan is
cheapest is another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.evaluate import evaluate_shown
from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.catalog import Catalog, ListedBooster
from headwater.sharing.containment import is_contained
from headwater.sharing.contents import Contents
from headwater.sharing.errors import MissingBoosterError, VersionGapError
from headwater.sharing.history import reachable, relation_between, updategram_between
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions

Copy = Callable[[str, int], Contents | None]
"""The node's own copy of a base relation at a version, if it has one."""


def no_copy(relation: str, version: int) -> Contents | None:
    return None


@dataclass
class Refresher:
    """Computes updategrams of views from a catalog; remembers what it used and made."""

    catalog: Catalog
    copy: Copy = no_copy
    used: list[str] = field(default_factory=list)
    """Addresses of boosters that were used."""
    copies: list[str] = field(default_factory=list)
    """Base relations of which the node's own copy was asked."""
    made: list[Booster] = field(default_factory=list)
    """Boosters that came about on the way (rule A3)."""

    def updategram(self, view: SharedView, first: Versions, last: Versions) -> Updategram:
        """mu_V between two vectors, forwards or backwards; a SharingError says what is missing."""
        try:
            return updategram_between(self.catalog, view.name, first, last)
        except VersionGapError as error:
            if view.beyond_rules:
                return self._computed(view, first, last, error)
            return self._by_relations(view, first, last)

    def as_far_as_possible(self, view: SharedView, first: Versions) -> Updategram | None:
        """Forwards to the newest vector that can be reached; None if none can."""
        found: Updategram | None = None
        for step in self._published(view, first):
            found = step if found is None else found.then(step)
        here = first if found is None else found.last
        for relation in view.relations if not view.beyond_rules else ():
            for version in reachable(self.catalog, relation, here[relation]):
                try:
                    step = self._step(view, here, relation, version)
                except (VersionGapError, MissingBoosterError):
                    continue
                here, found = step.last, step if found is None else found.then(step)
                break
        return found

    def _published(self, view: SharedView, first: Versions) -> Iterator[Updategram]:
        """Updategrams of the view itself, one after the other, each as far as it goes."""
        here = first
        while True:
            ahead = [u for u in self.catalog.updategrams(view.name) if u.first == here]
            if not ahead:
                return
            longest = max(ahead, key=lambda u: (sum(u.last.values()), u.address))
            yield self.catalog.load_updategram(longest)
            here = longest.last

    def _by_relations(self, view: SharedView, first: Versions, last: Versions) -> Updategram:
        found, here = None, first
        for relation in view.relations:
            if here[relation] != last[relation]:
                step = self._step(view, here, relation, last[relation])
                here, found = step.last, step if found is None else found.then(step)
        assert found is not None, "the vectors differ"
        return found

    def _computed(
        self, view: SharedView, first: Versions, last: Versions, gap: VersionGapError
    ) -> Updategram:
        """What readers see at one vector less what they see at another, if all rows are at hand."""
        shown = []
        for versions in (first, last):
            copies = {name: self.copy(name, versions[name]) for name in view.relations}
            if lacking := [name for name, copy in copies.items() if copy is None]:
                raise VersionGapError(
                    gap.message,
                    f"View {view.name} {view.beyond_rules}, so that it follows its own updategrams "
                    f"alone, or rows of all its relations: here are none of {lacking[0]}. Exchange "
                    "with the node that publishes it.",
                )
            state = {name: copy.rows for name, copy in copies.items() if copy is not None}
            shown.append(evaluate_shown(view.view, state))
        self.copies += view.relations
        return Updategram.of_net(view.name, first, last, shown[1] - shown[0])

    # One relation moves

    def _step(self, view: SharedView, here: Versions, relation: str, version: int) -> Updategram:
        mu = relation_between(self.catalog, relation, here[relation], version)
        missing = [name for name in view.relations if name != relation]
        return rules.finished(view, self.joined(view, mu, missing, here))

    def joined(
        self, view: SharedView, mu: Updategram, missing: Sequence[str], here: Mapping[str, int]
    ) -> Updategram:
        """An updategram joined with relations of the view at these versions."""
        found, left = mu, list(missing)
        for booster in self._join_boosters(view, mu, left, here):
            found = rules.a8(view, found, booster)
            left = [name for name in left if name not in booster.of]
        while left:
            name, found = self._join_one(view, mu, found, left, here)
            left.remove(name)
        return found

    def _join_one(
        self,
        view: SharedView,
        mu: Updategram,
        joined: Updategram,
        missing: Sequence[str],
        here: Mapping[str, int],
    ) -> tuple[str, Updategram]:
        """The first that can be joined, those before others that a condition connects."""
        reasons = []
        for name in sorted(missing, key=lambda name: not view.connects(joined.first, name)):
            try:
                return name, self._join(view, mu, joined, name, here[name])
            except MissingBoosterError as error:
                reasons.append(error)
        raise reasons[0]

    def _join(
        self, view: SharedView, mu: Updategram, joined: Updategram, name: str, version: int
    ) -> Updategram:
        booster = self._booster(view, mu, name, version)
        if booster is None:
            booster = self._through(view, mu, joined, name, version)
        if booster is not None:
            return rules.a8(view, joined, booster)
        copy = self.copy(name, version)
        if copy is None:
            raise self._missing(view, mu, name)
        self.copies.append(name)
        self.made.append(rules.a3(view, joined, copy))
        return rules.a1(view, joined, copy)

    def _missing(self, view: SharedView, mu: Updategram, name: str) -> MissingBoosterError:
        owner = (
            self.catalog.relations[name].owner if name in self.catalog.relations else "its owner"
        )
        there = [b for b in self.catalog.boosters(mu.interval.relation) if name in b.of]
        others = "; ".join(sorted(f"{b.interval} in view {b.view.name}" for b in there))
        return MissingBoosterError(
            f"View {view.name} needs a booster of {name} for {mu.interval}, and there is none"
            + (f" (only for {others})." if others else "."),
            f"Exchange with a node that has one, or with {owner}, which can make it; nothing was "
            "applied.",
        )

    # Boosters of several relations, joined already

    def _join_boosters(
        self, view: SharedView, mu: Updategram, missing: Sequence[str], here: Mapping[str, int]
    ) -> Iterator[Booster]:
        taken: set[str] = set()
        listed = [
            b
            for b in self.catalog.boosters(mu.interval.relation)
            if len(b.of) > 1 and not b.through
        ]
        for entry in sorted(listed, key=lambda b: (-len(b.of), b.rows, b.address)):
            fits = set(entry.of) <= set(missing) - taken and all(
                here[name] == number for name, number in entry.versions.items()
            )
            if fits and entry.interval.contains(mu.interval) and _serves(view, entry):
                taken |= set(entry.of)
                yield self._load(entry)

    # Boosters of one relation

    def _booster(self, view: SharedView, mu: Updategram, name: str, version: int) -> Booster | None:
        listed = [
            entry
            for entry in self.catalog.boosters(mu.interval.relation)
            if entry.of == (name,)
            and not entry.through
            and entry.interval.meets(mu.interval)
            and _serves(view, entry)
        ]
        whole = [entry for entry in listed if entry.interval.contains(mu.interval)]
        for entry in sorted(whole, key=lambda b: (b.versions[name] != version, b.rows, b.address)):
            try:
                return self._at(view, mu, entry, version)
            except VersionGapError:
                continue
        try:
            return self._merged(view, mu, listed, version)
        except VersionGapError:
            return None

    def _merged(
        self, view: SharedView, mu: Updategram, listed: Sequence[ListedBooster], version: int
    ) -> Booster | None:
        """Boosters of overlapping or touching intervals, put together (A11)."""
        found: Booster | None = None
        for entry, part in self._pieces(mu, listed):
            piece = self._at(view, part, entry, version)
            found = piece if found is None else rules.a11(view, found, piece)
        return found

    def _pieces(
        self, mu: Updategram, listed: Sequence[ListedBooster]
    ) -> list[tuple[ListedBooster, Updategram]]:
        """Boosters that together cover an updategram, each with its share; none if they do not."""
        interval, pieces, reached = mu.interval, [], mu.interval.first
        while reached < interval.last:
            ahead = [e for e in listed if e.interval.first <= reached < e.interval.last]
            if not ahead:
                return []
            entry = max(ahead, key=lambda e: (e.interval.last, -e.rows, e.address))
            last = min(entry.interval.last, interval.last)
            pieces.append((entry, relation_between(self.catalog, mu.subject, reached, last)))
            reached = last
        return pieces

    def _at(
        self, view: SharedView, part: Updategram, entry: ListedBooster, version: int
    ) -> Booster:
        """A booster for exactly these changes, at the version that is needed.

        `part` is joined already with what the booster goes through.
        """
        (name,) = entry.of
        if entry.versions[name] == version:
            return rules.narrowed(view, part, self._load(entry))
        change = relation_between(self.catalog, name, entry.versions[name], version)
        return rules.moved(view, part, self._load(entry), change)

    # Boosters through relations in between

    def _through(
        self, view: SharedView, mu: Updategram, joined: Updategram, name: str, version: int
    ) -> Booster | None:
        """Rows that changes reach over a relation in between, wherever that stood then."""
        listed = [
            entry
            for entry in self.catalog.boosters(mu.interval.relation)
            if entry.of == (name,) and len(entry.through) == 1 and _serves(view, entry)
        ]
        for between in {next(iter(entry.through)) for entry in listed} & set(joined.first):
            mine = [entry for entry in listed if between in entry.through]
            try:
                return self._over(view, mu, joined, between, mine, version)
            except (VersionGapError, MissingBoosterError):
                continue
        return None

    def _over(
        self,
        view: SharedView,
        mu: Updategram,
        joined: Updategram,
        between: str,
        listed: Sequence[ListedBooster],
        version: int,
    ) -> Booster:
        """Boosters through one relation, merged, with what its own changes since then reach.

        A row of it in `joined` was there when a booster was made, and then the booster has its
        partners, or it came later, and then a booster for its changes has them.
        """
        here, rows = joined.first[between], None
        pieces = self._pieces(mu, listed)
        if not pieces:
            raise self._missing(view, mu, listed[0].of[0])
        for entry, part in pieces:
            there = entry.through[between]
            with_it = self.joined(view, part, [between], {between: there})
            found = [self._at(view, with_it, entry, version).rows]
            if there != here:
                since = relation_between(self.catalog, between, there, here)
                patch = self._booster(view, since, entry.of[0], version)
                if patch is None:
                    raise self._missing(view, since, entry.of[0])
                found.append(patch.rows)
            for more in found:
                rows = more if rows is None else rows + (more - more.among(rows))
        assert rows is not None
        of = listed[0].of
        merged = Booster(view, mu.interval, of, Versions({of[0]: version}), rows, exact=False)
        return rules.narrowed(view, joined, merged)

    def _load(self, entry: ListedBooster) -> Booster:
        self.used.append(entry.address)
        return self.catalog.load_booster(entry)


def _serves(view: SharedView, entry: ListedBooster) -> bool:
    return is_contained(view, entry.view, (entry.interval.relation, *entry.through, *entry.of))
