"""Scenario files: shipped ones, spoilt, and run if they can be read."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from headwater.lab.library import example, example_names
from tests.fuzz.commands import run
from tests.fuzz.mutations import VALUES, changed, json_text, noise

_VALUES = [
    *VALUES,
    *("r1", "r2", "x", "T1", "int", "text", "decimal(99,3)", "decimal(38,37)", ["A"], [1, 2]),
    *("SELECT", "SELECT * FROM r1", "SELECT r1.A FROM r1 WHERE 1/0 = r1.A", "2020-02-30", "1e999"),
    "SELECT r1.A FROM r1 WHERE r1.A = " + "(" * 500 + "1" + ")" * 500,
    "SELECT r1.A FROM r1 WHERE " + " AND ".join(["r1.A = 1"] * 800),
    "SELECT r1.A FROM r1 " + " ".join(f"JOIN r1 AS t{n} ON t{n}.A = r1.A" for n in range(40)),
]


class ScenarioFiles:
    def __init__(self, folder: Path, outside: Path) -> None:
        self.input = folder / "scenario.json"
        self._texts = [json.dumps(example(name).data) for name in example_names()]

    def attack(self, random: Random) -> None:
        text = random.choice(self._texts)
        if random.random() < 0.8:
            text = json_text(random, changed(random, json.loads(text), _VALUES))
        content = text.encode()
        if random.random() < 0.2:
            content = noise(random, content)
        self.input.write_bytes(content)
        run("lab", "run", str(self.input), "--algorithm", "recompute", "--seeds", "0", "--json")
        if random.random() < 0.2:
            run("lab", "replay", str(self.input))
