"""`views/*.sql`: sound views, spoilt word by word, as `check` reads them."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from headwater.errors import InputError
from headwater.project.example import make_project
from tests.fuzz.commands import run
from tests.fuzz.mutations import noise, put

_SOUND = [
    """-- Everything that a header has.
CREATE MATERIALIZED VIEW fuzzed WITH STRONG CONSISTENCY USING pvm-cc (p = 8, handle = 'posse')
IN GROUP g KEEP KEYS REFRESH EVERY '5 seconds' PUBLISH EVERY '2 hours'
AS SELECT c.name, o.id AS order_id, l.price * 2 + 1.5 AS twice, upper(c.segment) AS s
FROM crm.customers AS c JOIN shop.orders AS o ON o.customer = c.id
JOIN shop.lines l ON l.order_id = o.id WHERE l.price > 0 AND c.name LIKE 'A%' AND NOT o.id IN (1, 2)
""",
    """CREATE MATERIALIZED VIEW fuzzed AS
SELECT c.segment, COUNT(*) AS n, SUM(o.id) AS total, MIN(c.name) AS first
FROM crm.customers c, shop.orders o WHERE o.customer = c.id GROUP BY c.segment HAVING COUNT(*) > 1
""",
    """CREATE MATERIALIZED VIEW fuzzed WITH CONVERGENCE AS
SELECT id, CASE WHEN id > 1 THEN 'a' WHEN id IS NULL THEN NULL ELSE 'b' END AS what FROM shop.orders
UNION ALL SELECT id, CAST(name AS TEXT) FROM crm.customers WHERE id BETWEEN -1 AND 10;
""",
    """CREATE MATERIALIZED VIEW fuzzed WITH COMPLETE AS SELECT DISTINCT placed,
DATE '2020-01-01' AS d, CAST(id AS DECIMAL(10, 2)) AS x FROM shop.orders
WHERE placed >= TIMESTAMP '2020-01-01 00:00:00'
""",
]
_LONE = [
    *(
        "AS",
        "SELECT",
        "WITH",
        "(",
        ")",
        "VALUES",
        "CASE",
        "TABLE",
        "UNION ALL",
        "INTERVAL",
        "NOT",
        "*",
    ),
    *("END", "LATERAL", "EXPLAIN", "USING", "ON", "FROM", "DISTINCT", "CAST", "{", "/*+ */", "."),
]
"""Words that are a whole query."""
_FRAGMENTS = [
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY 1", "LIMIT 1", "OVER ()", "WITH RECURSIVE"),
    *("LEFT JOIN", "CROSS JOIN", "NATURAL JOIN", "UNION", "EXCEPT", "(SELECT 1)", "EXISTS (", "*"),
    *("AS", "KEEP KEYS", "USING sweep", "USING ''", "EVERY '9999999999 weeks'", "WITH WEAK", ";"),
    *("''", "'", '"', "`", "``", '""', "--", "/*", "*/", "$$", "$1", "?", ":x", "@x", "{{ x }}"),
    *("1e400", "9" * 500, "-" * 300, "0x", "1.", ".5", "NaN", "NULL", "TRUE", "INTERVAL '1' DAY"),
    *("now()", "random()", "x'00'", "x'0'", "b'1'", "E'\\n'", "N'x'", "_utf8'x'", "U&'\\0041'"),
    *("é", "\u202e", "\x00", "\x1b[31m", "\ufeff", "\u2028", "𝔘", "a" * 5000, "[/b]", "'\x00'"),
    *("CAST(id AS", "DECIMAL(99, 98)", "DECIMAL(-1)", "ARRAY[1]", "MAP(", "id::int", "[1:2]"),
    *("/*+ x ' */", "/*+ x(a) */", "/*+ x /* */", "/* /* */", "*/ */", "/*+", "-- \\\n", "{# x #}"),
    *("1/0", "id IN (SELECT id FROM shop.orders)", "CASE", "END", "x.y.z.w.v", "..", "c.*", "%"),
]


class ViewFiles:
    def __init__(self, folder: Path, outside: Path) -> None:
        self._folder, self._outside = folder / "project", outside
        make_project(self._folder)
        self.input = self._folder / "views" / "fuzzed.sql"

    def attack(self, random: Random) -> None:
        text = random.choice(_SOUND)
        if random.random() < 0.05:
            text = f"CREATE MATERIALIZED VIEW fuzzed AS {random.choice(_LONE)}"
        elif random.random() < 0.85:
            text = self._reworded(random, text)
        content = text.encode()
        if random.random() < 0.2:
            content = noise(random, content)
        put(random, self.input, content, self._outside)
        if run("check", "--project", str(self._folder), *random.choice([("--json",), ()])):
            raise InputError("It was refused.")

    def _reworded(self, random: Random, text: str) -> str:
        words = re.findall(r"\w+|\s+|'[^']*'|.", text)
        for _ in range(random.choice([1, 1, 2, 3, 5])):
            at = random.randrange(len(words))
            match random.randrange(7):
                case 0:
                    del words[at : at + random.choice([1, 2, 8])]
                    words = words or [" "]
                case 1:
                    words[at] = random.choice(_FRAGMENTS)
                case 2:
                    words.insert(at, f" {random.choice(_FRAGMENTS)} ")
                case 3:
                    words[at], other = random.choice(words), words[at]
                    words.insert(random.randrange(len(words)), other)
                case 4:
                    words[at:at] = words[at : at + random.choice([1, 5, 30])]
                case 5 if random.random() < 0.2:
                    words[at] = self._deep(random, words[at])
                case _:
                    words[at] = random.choice([words[at].upper(), words[at] * 2, words[at][:-1]])
        return "".join(words)

    @staticmethod
    def _deep(random: Random, word: str) -> str:
        depth = random.choice([50, 400, 3000])
        opening, closing = random.choice(
            [("(", ")"), ("(1 + ", ")"), ("NOT ", ""), ("- ", ""), ("upper(", ")"), ("1 + ", ""),
             ("CASE WHEN 1 = 1 THEN ", " END"), ("(SELECT ", ")"), ("id = 1 AND ", "")]
        )  # fmt: skip
        return opening * depth + word + closing * depth
