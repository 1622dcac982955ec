"""The journal of a source that is seen step by step: which states it was seen in, in one order.

A source of several files or tables has no log of its own that orders them. So the monitor does: it
numbers each step that it sees and writes it down, durably, before it reports it. Answers and loads
go by what is written here, so they reflect exactly the steps up to a number, and a restart goes on
behind what was reported. Steps are kept until they are acknowledged.

Assumes one writer at a time; one that was replaced finds the file changed and stops. What a step
consists of only its own kind of source knows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.algebra.values import Json
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.protocol.transactions import Tag
from headwater.reading import parse_json
from headwater.storage.location import Location

FILE = "kept.json"
FORMAT = 1
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Gap:
    """Why the change of a relation is not known; of some columns, or of all if there are none."""

    reason: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """What came with a number: for each relation that it changes what its kind needs to know.

    `gaps` has the relations of which the change is not known.
    """

    number: int
    data: Mapping[str, Json]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    tags: tuple[Tag, ...] = ()
    name: str = ""
    """How people know it: a folder, a file, a commit."""


@dataclass(frozen=True)
class Standing:
    """All that is known: a first step, which has every relation's state, and those behind it."""

    log: str
    base: Step
    steps: tuple[Step, ...] = ()
    notes: Mapping[str, Json] = field(default_factory=dict)
    """What its kind has seen so far, beyond steps."""

    @property
    def at(self) -> int:
        return self.base.number + len(self.steps)

    @property
    def relations(self) -> frozenset[str]:
        return frozenset(self.base.data)

    def after(self, number: int) -> tuple[Step, ...]:
        return self.steps[number - self.base.number :]

    def upto(self, number: int) -> Standing:
        """As it was at an earlier number."""
        return replace(self, steps=self.steps[: number - self.base.number])

    def data(self, relation: str) -> Iterator[Json]:
        """A relation's state at the beginning, and what each step behind it says of it."""
        for step in (self.base, *self.steps):
            if relation in step.data:
                yield step.data[relation]

    def last(self, relation: str) -> Json:
        """What was said last."""
        for step in reversed(self.steps):
            if relation in step.data:
                return step.data[relation]
        return self.base.data[relation]


class Journal:
    """The journal in a folder of the warehouse; without a place nothing is kept."""

    def __init__(self, source: str, place: Location | None) -> None:
        self.source = source
        self.place = place
        self._lock = threading.Lock()
        self._token: object = None
        self._known: Standing | None = None

    @property
    def folder(self) -> Location:
        if self.place is None:
            raise SourceError(
                f"Source {self.source} has no warehouse to keep what it has seen in.",
                "Open it as a part of a project.",
            )
        return self.place

    def standing(self) -> Standing | None:
        """What is written now; None before a setup."""
        if self.place is None:
            return None
        with self._lock:
            about = (self.place / FILE).about()
            if about is None:
                self._token = self._known = None
            elif self._known is None or about.token is None or about.token != self._token:
                content, self._token = (self.place / FILE).stamped()
                self._known = self._parsed(content)
            return self._known

    def required(self) -> Standing:
        found = self.standing()
        if found is None:
            raise SourceError(
                f"Source {self.source} was not set up.", f"Run 'headwater setup {self.source}'."
            )
        return found

    def begin(self, data: Mapping[str, Json], notes: Mapping[str, Json]) -> None:
        """Begin, another log than any before."""
        self.folder.make_folder()
        fresh = Standing(self.folder.storage.fresh_name(), Step(0, data), (), notes)
        self._write(fresh, anyway=True)

    def change(self, known: Standing, standing: Standing) -> None:
        """Write what follows `known`, unless another has written since."""
        if known is not self._known:
            raise self._overtaken()
        self._write(standing)

    def remove(self) -> None:
        if self.place is not None:
            self.place.remove_tree()

    def _write(self, standing: Standing, anyway: bool = False) -> None:
        content = json.dumps(_document(standing), separators=(",", ":")).encode()
        with self._lock:
            file = self.folder / FILE
            if anyway:
                file.replace(content)
                about = file.about()
                token = None if about is None else about.token
            else:
                token = file.replace_if(content, self._token)
                if token is None:
                    raise self._overtaken()
            self._token, self._known = token, standing

    def _overtaken(self) -> LostConnectionError:
        return LostConnectionError(
            f"Source {self.source}: another process has read on in it.",
            "It is opened again; if that goes on, end the other runner.",
        )

    def _parsed(self, content: bytes) -> Standing:
        try:
            return _standing(parse_json(content))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BrokenLogError(
                self.source, f"what was kept of it in {self.folder} is damaged."
            ) from None


def advanced(known: Standing, upto: int) -> Standing:
    """Without the steps up to a number, where a relation's last word is its whole state."""
    behind = known.steps[: upto - known.base.number]
    return replace(known, base=joined(behind, known.base, upto), steps=known.after(upto))


def joined(steps: Iterable[Step], base: Step, number: int) -> Step:
    """The base at a later number, by what the steps up to there say last."""
    data = dict(base.data)
    for step in steps:
        data.update(step.data)
    return Step(number, data)


def _document(standing: Standing) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "log": standing.log,
        "number": standing.base.number,
        "base": dict(standing.base.data),
        "steps": [_step(step) for step in standing.steps],
        "notes": dict(standing.notes),
    }


def _step(step: Step) -> dict[str, Any]:
    document: dict[str, Any] = {"data": dict(step.data)}
    if step.gaps:
        document["gaps"] = {n: [gap.reason, *gap.columns] for n, gap in step.gaps.items()}
    if step.tags:
        document["tags"] = [[tag.id, tag.parts, tag.mistake] for tag in step.tags]
    if step.name:
        document["name"] = step.name
    return document


def _standing(found: Any) -> Standing:
    if found["format"] != FORMAT:
        raise ValueError("another format")
    first = found["number"]
    steps = tuple(
        Step(
            number,
            each["data"],
            {n: Gap(gap[0], tuple(gap[1:])) for n, gap in each.get("gaps", {}).items()},
            tuple(Tag(*tag) for tag in each.get("tags", ())),
            each.get("name", ""),
        )
        for number, each in enumerate(found["steps"], first + 1)
    )
    return Standing(found["log"], Step(first, found["base"]), steps, found["notes"])
