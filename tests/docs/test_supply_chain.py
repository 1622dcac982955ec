"""What the Makefile installs is pinned by hash, and what it does to the system can be refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "lock", sorted((ROOT / "requirements").glob("*.lock")), ids=lambda p: p.name
)
def test_every_package_of_a_lock_has_hashes(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_nothing_is_installed_without_hashes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r"^\t.*(?:\(PIP\) install|pip-of,).*$", text, re.MULTILINE)
    assert installs
    assert [
        line for line in installs if "--require-hashes" not in line and "--no-index" not in line
    ] == []


def test_system_packages_can_be_refused(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    (tmp_path / "apt-get").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "JAVA_HOME": ""}
    done = subprocess.run(
        ["make", "java", "NO_SYSTEM=1"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Headwater needs Java" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_bill_of_materials_has_every_package_of_the_lock() -> None:
    lock = ROOT / "requirements" / "dev.lock"
    done = subprocess.run(
        [sys.executable, ROOT / "requirements" / "sbom.py", lock],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = json.loads(done.stdout)["components"]
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE)
    assert [component["name"] for component in listed] == pinned
    assert all(component["hashes"] for component in listed)
