"""Random JSON as texts, written in ways that a parser and a printer would not keep."""

from __future__ import annotations

import json
from random import Random

KEYS = ("a", "b", "", "a.b", 'q"', "\\", "é", "\U0001f600", "0", "x y", "{}", "$.a", "null")
NUMBERS = (
    *("0", "-0", "1.10", "1e5", "1E-7", "-12.500", "123456789012345678901234567890.10", "1e400"),
)
STRINGS = ("", "x", "a\nb", 'q"', "\\", "/", "é", "\U0001f600", "\x7f", "\u2028", "null", "1")


def any_json(random: Random, depth: int = 4) -> str:
    """A text that holds JSON, and no member twice."""
    choice = random.randrange(7 if depth else 3)
    if choice == 0:
        return random.choice(NUMBERS)
    if choice == 1:
        return any_string(random, random.choice(STRINGS))
    if choice == 2:
        return random.choice(("true", "false", "null"))
    gap = random.choice(("", " ", "\n\t"))
    values = [any_json(random, depth - 1) for _ in range(random.randrange(4))]
    if choice in (3, 4):
        return f"[{gap}{f'{gap},{gap}'.join(values)}{gap}]"
    names = [any_string(random, name) for name in random.sample(KEYS, len(values))]
    pairs = [f"{name}{gap}:{gap}{value}" for name, value in zip(names, values, strict=True)]
    return f"{{{gap}{f'{gap},{gap}'.join(pairs)}{gap}}}"


def any_string(random: Random, text: str) -> str:
    return json.dumps(text, ensure_ascii=random.random() < 0.5)
