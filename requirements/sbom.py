"""Writes a bill of materials (CycloneDX, JSON) of everything that a lock file pins."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, object]]:
    """Every pinned package with the hashes of its files."""
    found = list(_PINNED.finditer(lock))
    ends = [*(match.start() for match in found[1:]), len(lock)]
    return [
        {
            "type": "library",
            "name": match["name"],
            "version": match["version"],
            "purl": f"pkg:pypi/{match['name'].lower()}@{match['version']}",
            "hashes": [
                {"alg": "SHA-256", "content": digest}
                for digest in _HASH.findall(lock, match.end(), end)
            ],
        }
        for match, end in zip(found, ends, strict=True)
    ]


def main(path: str) -> None:
    listed = components(Path(path).read_text(encoding="utf-8"))
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": listed}
    sys.stdout.write(json.dumps(bill, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
