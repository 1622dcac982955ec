"""Advancing a view: its updategram between two vectors, from what is published.

First by updategrams of the view itself, if they lead there. Else one base relation after the
other, as a transaction's effect telescopes: the updategram of R joined, by the rules, with
boosters of the others, of those before it at their new versions and of those behind it at
their old ones. Where a booster is of another version it is moved there; where it covers too
little, several are merged. Only where there is none, a copy that the node holds is asked.

This tries what is at hand in a fixed order and takes the first that serves. Which plan is
cheapest is another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.catalog import Catalog, ListedBooster
from headwater.sharing.containment import is_contained
from headwater.sharing.contents import Contents
from headwater.sharing.definitions import Definition
from headwater.sharing.errors import GapError, MissingBoosterError, SharingError
from headwater.sharing.history import reachable, relation_between, updategram_between
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

    def updategram(self, view: Definition, first: Versions, last: Versions) -> Updategram:
        """mu_V between two vectors, forwards or backwards; a SharingError says what is missing."""
        try:
            return updategram_between(self.catalog, view.name, first, last)
        except GapError:
            return self._by_relations(view, first, last)

    def as_far_as_possible(self, view: Definition, first: Versions) -> Updategram | None:
        """Forwards to the newest vector that can be reached; None if none can."""
        found: Updategram | None = None
        for step in self._published(view, first):
            found = step if found is None else found.then(step)
        here = first if found is None else found.last
        for relation in view.relations:
            for version in reachable(self.catalog, relation, here[relation]):
                try:
                    step = self._step(view, here, relation, version)
                except SharingError:
                    continue
                here, found = step.last, step if found is None else found.then(step)
                break
        return found

    def _published(self, view: Definition, first: Versions) -> Iterator[Updategram]:
        """Updategrams of the view itself, one after the other, each as far as it goes."""
        here = first
        while True:
            ahead = [u for u in self.catalog.updategrams(view.name) if u.first == here]
            if not ahead:
                return
            longest = max(ahead, key=lambda u: (sum(u.last.values()), u.address))
            yield self.catalog.load_updategram(longest)
            here = longest.last

    def _by_relations(self, view: Definition, first: Versions, last: Versions) -> Updategram:
        found, here = None, first
        for relation in view.relations:
            if here[relation] != last[relation]:
                step = self._step(view, here, relation, last[relation])
                here, found = step.last, step if found is None else found.then(step)
        assert found is not None, "the vectors differ"
        return found

    # One relation moves

    def _step(self, view: Definition, here: Versions, relation: str, version: int) -> Updategram:
        mu = relation_between(self.catalog, relation, here[relation], version)
        joined, missing = mu, [name for name in view.relations if name != relation]
        for booster in self._join_boosters(view, mu, missing, here):
            joined = rules.a8(view, joined, booster)
            missing = [name for name in missing if name not in booster.of]
        while missing:
            name = _connected(view, joined.first, missing)
            missing.remove(name)
            joined = self._join(view, mu, joined, name, here[name])
        return rules.finished(view, joined)

    def _join(
        self, view: Definition, mu: Updategram, joined: Updategram, name: str, version: int
    ) -> Updategram:
        booster = self._booster(view, mu, name, version)
        if booster is not None:
            return rules.a8(view, joined, booster)
        copy = self.copy(name, version)
        if copy is None:
            raise self._missing(view, mu, name)
        self.copies.append(name)
        self.made.append(rules.a3(view, mu, copy))
        return rules.a1(view, joined, copy)

    def _missing(self, view: Definition, mu: Updategram, name: str) -> MissingBoosterError:
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
        self, view: Definition, mu: Updategram, missing: Sequence[str], here: Versions
    ) -> Iterator[Booster]:
        taken: set[str] = set()
        listed = [b for b in self.catalog.boosters(mu.interval.relation) if len(b.of) > 1]
        for entry in sorted(listed, key=lambda b: (-len(b.of), b.rows, b.address)):
            fits = set(entry.of) <= set(missing) - taken and entry.versions == here.only(entry.of)
            if fits and entry.interval.contains(mu.interval) and _serves(view, entry):
                taken |= set(entry.of)
                yield self._load(entry)

    # Boosters of one relation

    def _booster(self, view: Definition, mu: Updategram, name: str, version: int) -> Booster | None:
        listed = [
            entry
            for entry in self.catalog.boosters(mu.interval.relation)
            if entry.of == (name,) and entry.interval.meets(mu.interval) and _serves(view, entry)
        ]
        whole = [entry for entry in listed if entry.interval.contains(mu.interval)]
        for entry in sorted(whole, key=lambda b: (b.versions[name] != version, b.rows, b.address)):
            try:
                return self._at(view, mu, entry, version)
            except GapError:
                continue
        try:
            return self._merged(view, mu, listed, version)
        except GapError:
            return None

    def _merged(
        self, view: Definition, mu: Updategram, listed: Sequence[ListedBooster], version: int
    ) -> Booster | None:
        """Boosters of overlapping or touching intervals, put together (A11)."""
        interval, found, reached = mu.interval, None, mu.interval.first
        while reached < interval.last:
            ahead = [e for e in listed if e.interval.first <= reached < e.interval.last]
            if not ahead:
                return None
            entry = max(ahead, key=lambda e: (e.interval.last, -e.rows, e.address))
            last = min(entry.interval.last, interval.last)
            part = relation_between(self.catalog, interval.relation, reached, last)
            piece = self._at(view, part, entry, version)
            found = piece if found is None else rules.a11(view, found, piece)
            reached = last
        return found

    def _at(self, view: Definition, mu: Updategram, entry: ListedBooster, version: int) -> Booster:
        """A booster for exactly these changes, at the version that is needed."""
        (name,) = entry.of
        if entry.versions[name] == version:
            return rules.narrowed(view, mu, self._load(entry))
        change = relation_between(self.catalog, name, entry.versions[name], version)
        return rules.moved(view, mu, self._load(entry), change)

    def _load(self, entry: ListedBooster) -> Booster:
        self.used.append(entry.address)
        return self.catalog.load_booster(entry)


def _serves(view: Definition, entry: ListedBooster) -> bool:
    return is_contained(view, entry.view, (entry.interval.relation, *entry.of))


def _connected(view: Definition, there: Iterable[str], missing: Sequence[str]) -> str:
    """The relation to be joined next: one that a condition connects, if there is one."""
    names = tuple(there)
    alone = len(view.condition(names))
    for name in missing:
        if len(view.condition((*names, name))) > alone + len(view.condition((name,))):
            return name
    return missing[0]
