"""Segments of a change log: what is read is what was written, or it is refused.

Damage that no one means (bytes, whole records, whole files) is never read as something else.
Records that somebody wrote on purpose, with right checksums, are only to be refused in words.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.errors import HeadwaterError
from headwater.protocol.transactions import Transaction, Update
from headwater.warehouse.change_records import (
    SEGMENT_START,
    Break,
    Change,
    Position,
    PositionRecord,
    Record,
)
from headwater.warehouse.changes import ChangeLog, between
from tests.fuzz.mutations import VALUES, changed, json_text, noise, put, removed

_SCHEMA = Schema.of([("id", INT), ("name", TEXT)])
_FRAME = struct.Struct("<4sIIQ")
_LENGTH = struct.Struct("<I")
_NAMES = ["00000001-x.log", "٣-٣.log", "9" * 30 + "-" + "9" * 30 + ".log", "00000009--1.log",
          "00000000-00000000000000000000.log", "00000002-00000000000000000002.log"]  # fmt: skip


def _change(number: int) -> Change:
    delta = Rows(_SCHEMA, {(number, "é'\0"): 1, (number, None): -2, (-number, "x" * number): 1})
    update = Update("s.r", delta)
    others = (number + 7,) if number % 3 == 0 else ()
    return Change(
        number,
        Transaction(f"t{number}", (update,), ("s",), ("s",)),
        {"seq": 10 * number},
        number,
        others,
    )


_BATCHES: list[list[list[Record]]] = [
    [[_change(1)], [_change(2), _change(3), PositionRecord({"seq": 35})]],
    [[Break(4, {"s.r": frozenset({"id"}), "s.q": None}, "truncated", {"seq": 40}, 4)]],
    [[_change(5)], [PositionRecord({"seq": 55})], [_change(6), Break(7, None, "all", {"seq": 70})]],
]
"""For each runner what it appended, together each time."""


@dataclass(frozen=True)
class _Piece:
    """A record of a segment as it was framed."""

    batch: int
    header: dict[str, Any]
    body: bytes

    def framed(self, payload: bytes | None = None) -> bytes:
        if payload is None:
            payload = self.payload(json.dumps(self.header).encode())
        check = zlib.crc32(payload, self.batch & 0xFFFFFFFF)
        return _FRAME.pack(b"\xa9hw\n", len(payload), check, self.batch) + payload

    def payload(self, head: bytes) -> bytes:
        return _LENGTH.pack(len(head)) + head + self.body


def _pieces(content: bytes) -> list[_Piece]:
    found, at = [], len(SEGMENT_START)
    while at < len(content):
        _, size, _, batch = _FRAME.unpack_from(content, at)
        payload = content[at + _FRAME.size : at + _FRAME.size + size]
        start = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
        found.append(_Piece(batch, json.loads(payload[_LENGTH.size : start]), payload[start:]))
        at += _FRAME.size + size
    return found


class ChangeLogSegments:
    def __init__(self, folder: Path, outside: Path) -> None:
        self._folder, self._outside = folder / "changes", outside
        self._places: list[tuple[int, Position | None]] = [(0, None)]
        for epoch, batches in enumerate(_BATCHES, 1):
            log = ChangeLog(self._folder, "s")
            log.open(epoch)
            for batch in batches:
                log.append(batch)
                self._places += self._reached(batch)
            log.close()
        records = [record for batches in _BATCHES for batch in batches for record in batch]
        self._sound = [record for record in records if not isinstance(record, PositionRecord)]
        self._files = {path.name: path.read_bytes() for path in self._folder.glob("s/*.log")}
        self.input = self._folder

    def _reached(self, batch: list[Record]) -> list[tuple[int, Position | None]]:
        end = self._places[-1][0]
        found: list[tuple[int, Position | None]] = []
        for record in batch:
            end = end if isinstance(record, PositionRecord) else record.number
            found.append((end, record.position))
        return found

    def attack(self, random: Random) -> None:
        for path in (self._folder / "s").iterdir():
            removed(path)
        for name, content in self._files.items():
            (self._folder / "s" / name).write_bytes(content)
        name = random.choice(sorted(self._files))
        self.input = self._folder / "s" / name
        content = self._files[name]
        match random.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                self._put(random, noise(random, content), meant=False)
            case 5:
                self._put(random, self._rearranged(random, content), meant=False)
            case 6:
                target = self.input.with_name(random.choice(_NAMES))
                self.input = self.input.rename(target)
                self._read(random, meant=True)
            case _:
                self._put(random, self._rewritten(random, content), meant=True)

    def _put(self, random: Random, content: bytes, *, meant: bool) -> None:
        put(random, self.input, content, self._outside)
        self._read(random, meant=meant)

    def _rearranged(self, random: Random, content: bytes) -> bytes:
        pieces = _pieces(content)
        at = random.randrange(len(pieces))
        match random.randrange(3):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(random.randrange(len(pieces)), pieces[at])
            case _:
                random.shuffle(pieces)
        return SEGMENT_START + b"".join(piece.framed() for piece in pieces)

    def _rewritten(self, random: Random, content: bytes) -> bytes:
        """Records that nobody but an attacker writes: their checksums are right."""
        start, framed = SEGMENT_START, []
        pieces = _pieces(content)
        target = random.randrange(len(pieces))
        for at, piece in enumerate(pieces):
            if at != target:
                framed.append(piece.framed())
                continue
            match random.randrange(5):
                case 0:
                    payload = piece.payload(json.dumps(piece.header).encode())
                    framed.append(piece.framed(noise(random, payload)))
                case 1:
                    framed.append(
                        _Piece(piece.batch, piece.header, noise(random, piece.body)).framed()
                    )
                case 2:
                    start = start[:8] + _LENGTH.pack(random.choice([0, 2, 99, 2**32 - 1]))
                    framed.append(piece.framed())
                case _:
                    header = changed(random, piece.header, [*VALUES, "int", "float", "json", [4]])
                    text = json_text(random, header).encode()
                    framed.append(piece.framed(piece.payload(text)))
        return start + b"".join(framed)

    def _read(self, random: Random, *, meant: bool) -> None:
        refused: list[HeadwaterError] = []
        for look in (self._scan, self._all, self._heads, self._between, self._sizes):
            try:
                look(meant)
            except HeadwaterError as error:
                refused.append(error)
        if random.random() < 0.1:
            self._go_on(random)
        if refused:
            raise refused[0]

    def _scan(self, meant: bool) -> None:
        log = ChangeLog(self._folder, "s")
        log.scan()
        assert meant or (log.end, log.position) in self._places, (log.end, log.position)

    def _all(self, meant: bool) -> None:
        found = list(ChangeLog(self._folder, "s").read())
        if found and not meant:
            first = found[0].number - 1
            assert found == self._sound[first : first + len(found)], found

    def _heads(self, meant: bool) -> None:
        found = [head.number for head in ChangeLog(self._folder, "s").heads(0)]
        assert meant or found == list(range(1, len(found) + 1)), found

    def _between(self, meant: bool) -> None:
        """What a view reads that knows how far the log once reached."""
        found = list(between(ChangeLog(self._folder, "s"), 0, len(self._sound)))
        assert meant or found == self._sound, found

    def _sizes(self, meant: bool) -> None:
        log = ChangeLog(self._folder, "s")
        assert (log.first, log.byte_count) >= (0, 0)

    def _go_on(self, random: Random) -> None:
        """A runner takes the log over, and forgets it if it has to."""
        log = ChangeLog(self._folder, "s")
        try:
            log.open(9)
        except HeadwaterError:
            log.begin_anew("it is damaged.", len(self._sound), 9)
        log.append([_change(log.end + 1)])
        log.release(log.end, 0.0)
        log.close()
