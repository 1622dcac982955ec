"""How sound inputs are spoilt: as values, as text, as bytes, and as files that are none."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**12, -(10**30), 10**400, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), "", " ", "x", "\ud800", "\x1b[31m", "\x00", "\u202e", "[/b]"),
    *("x" * 5000, "../../outside", "/dev/zero", "%s", "${HOME}", "${}", "é" * 300, "1", "null"),
    *([], {}, [[]], {"": {}}, [None], ["x"], {"x": 4}, {"number": -1}, [["k", "int"]], [1] * 300),
]
"""What stands where something else is expected."""
_DEEP = "a very deep place"
_SIGNS = b"[]{}()\",:;\\u0d8-1e9.\n\r\t '\x00\xff\xef\xbb\xbf="


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of a JSON value with what it is in."""
    if not isinstance(value, dict | list):
        return []
    members = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in list(members):
        found.append((value, key))
        found += places(inner)
    return found


def change(random: Random, value: Any, values: list[Any] = VALUES) -> None:
    """Change a JSON value somewhere, in a way that leaves it one."""
    if not (found := places(value)):
        return
    container, key = random.choice(found)
    match random.randrange(8):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.insert(random.randrange(len(container) + 1), container[key])
        case 2 if isinstance(container, list):
            random.shuffle(container)
        case 2 if isinstance(container, dict):
            container[random.choice(["", "x", "\x00", "number", "é" * 999])] = container.pop(key)
        case 3:
            other, at = random.choice(found)
            container[key] = _copied(other.get(at) if isinstance(other, dict) else value)
        case 4 if isinstance(container[key], int):
            container[key] += random.choice([-1, 1, 10**9, 10**12, -(10**20)])
        case 5 if isinstance(container[key], int | float | str):
            found_there = container[key]
            container[key] = random.choice([str(found_there), repr(found_there), [found_there]])
        case 6 if random.random() < 0.2:
            container[key] = _DEEP
        case _:
            container[key] = _copied(random.choice(values))


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def changed(random: Random, value: Any, values: list[Any] = VALUES) -> Any:
    """A copy of a JSON value with a few changes."""
    value = _copied(value)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        change(random, value, values)
    return value


def json_text(random: Random, value: Any) -> str:
    """A JSON value as text; now and then with a name twice, or nested very deeply."""
    text = json.dumps(value, separators=random.choice([(",", ":"), (", ", ": ")]))
    depth = random.choice([50, 5000, 100_000])
    text = text.replace(json.dumps(_DEEP), "[" * depth + "]" * depth)
    if random.random() < 0.05 and (names := re.findall(r'"[a-z]+" ?:', text)):
        text = text.replace("{", f"{{{random.choice(names)}1,", 1)
    return text


def noise(random: Random, content: bytes) -> bytes:
    """Bytes with a few of them changed, lost, doubled or moved."""
    found = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(found) + 1)
        match random.randrange(9):
            case 0:
                del found[at : at + random.randint(1, 40)]
            case 1:
                found[at:at] = bytes(random.choices(_SIGNS, k=random.randint(1, 3)))
            case 2 if random.random() < 0.3:
                found[at:at] = random.choice([b"[", b"(", b"{", b"'", b"\x00"]) * random.choice(
                    [10, 2000, 100_000]
                )
            case 3:
                found[at:at] = found[max(0, at - random.choice([30, 300])) : at]
            case 4:
                del found[at:]
            case 5:
                found = bytearray(found.replace(b"\n", b"\r\n"))
            case 6:
                found[:0] = random.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\n\n"])
            case 7:
                size = random.choice([1, 16, 512])
                found[at : at + size] = bytes(len(found[at : at + size]))
            case _ if at < len(found):
                found[at] ^= 1 << random.randrange(8)
    return bytes(found)


def removed(path: Path) -> None:
    """Whatever is there is there no more."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def put(random: Random, path: Path, content: bytes, outside: Path) -> None:
    """A file with this content, or once in a while something else in its place."""
    removed(path)
    match random.randrange(60):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to(
                random.choice(["/dev/zero", "/dev/null", str(outside), "nowhere", path.name])
            )
        case 2:
            path.mkdir()
        case 3:
            path.touch()
        case _:
            path.write_bytes(content)


def shown(path: Path) -> str:
    """What is at a path, for a person who looks for the mistake."""
    if path.is_symlink():
        return f"{path}: a link to {path.readlink()}"
    if not path.is_file():
        return f"{path}: {'a folder' if path.is_dir() else 'a FIFO, or nothing'}"
    with path.open("rb") as file:
        return f"{path}: {file.read(3000)!r}"
