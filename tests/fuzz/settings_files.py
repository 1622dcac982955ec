"""`headwater.toml`: every setting there is, spoilt, as `check` and `status` read it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from headwater.project.example import make_project
from tests.fuzz.commands import run
from tests.fuzz.mutations import VALUES, changed, noise, put

_SOUND: dict[str, Any] = {
    "warehouse": {"path": "warehouse", "retention": "1 day", "publish_every": "90 s"},
    "spark": {
        "master": "local[2]",
        "engine": "auto",
        "threshold": 10,
        "settings": {"spark.sql.shuffle.partitions": 4, "spark": {"ui": {"enabled": False}}},
    },
    "run": {"backlog": 100, "batch": 10, "in_work": 2, "gaps": "stop"},
    "sources": {
        "crm": {"kind": "sqlite", "path": "crm.db", "relations": ["customers"]},
        "shop": {
            "kind": "sqlite",
            "path": "shop.db",
            "relations": ["orders", "lines"],
            "keys": {"lines": ["order_id", "line"]},
        },
    },
}
_POSTGRES = {
    "kind": "postgres",
    "dsn": "host=127.0.0.1 port=1",
    "relations": ["public.orders", '"a.b"."c""d"'],
    "changes": "triggers",
    "limit_s": 5,
    "slot": "s",
    "publication": "p",
}
_VALUES = [
    *VALUES,
    *("999999999999 days", "0 s", "1e9 s", "9" * 400 + " s", "local[0]", "sqlite", "postgres"),
    *('"', '"."', "a.b.c.d", ".", "/dev", "/proc/self/mem", "orders", "lines", "crm.db/x", "."),
    *("://", "s3://x/y", "~", "w%", "spark://\n", "dbname", "host=\x00", "postgres://[::"),
]


def toml_of(value: Any) -> str:
    """A value as TOML has it; of what TOML lacks, the nearest."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)} = {toml_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "1979-05-27T07:32:00Z"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class SettingsFiles:
    def __init__(self, folder: Path, outside: Path) -> None:
        self._folder, self._outside = folder / "project", outside
        make_project(self._folder)
        self.input = self._folder / "headwater.toml"

    def attack(self, random: Random) -> None:
        sound = _SOUND
        online = random.random() < 0.3
        if online:
            sound = {**sound, "sources": {**sound["sources"], "pg": _POSTGRES}}
        value = changed(random, sound, _VALUES) if random.random() < 0.85 else sound
        text = self._written(random, value)
        content = text.encode("utf-8", "surrogatepass")
        if value is sound or random.random() < 0.1:
            content = noise(random, content)
        put(random, self.input, content, self._outside)
        run("status", "--project", str(self._folder))
        if b"postgres" not in content and random.random() < 0.5:  # no other machine is asked
            run("check", "--project", str(self._folder), "--json")

    def _written(self, random: Random, value: Any) -> str:
        """Top tables as tables, everything else inline; now and then a line twice."""
        if not isinstance(value, dict):
            return toml_of(value)
        lines = []
        for name, table in value.items():
            if isinstance(table, dict) and random.random() < 0.9:
                lines.append(f"[{_text(name)}]")
                lines += [f"{_text(key)} = {toml_of(item)}" for key, item in table.items()]
            else:
                lines.insert(0, f"{_text(name)} = {toml_of(table)}")
        if lines and random.random() < 0.05:
            lines.append(random.choice(lines))
        if random.random() < 0.02:
            depth = random.choice([100, 1000, 5000])
            lines.append(random.choice(["x = " + "[" * depth + "]" * depth, ".".join("a" * depth)]))
        return "\n".join(lines) + "\n"
