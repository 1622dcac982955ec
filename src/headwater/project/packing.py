"""An archive of Headwater and all that it needs, for machines on which it is not installed.

Spark unpacks it beside each executor (`spark.archives`). It holds packages as they are installed
here, and a `bin/python` that starts the machine's own Python, of the same version, with them.
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from headwater.errors import InputError

_OF_SPARK = {"pyspark", "py4j"}
"""Executors have them from Spark itself."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PYTHON = "python{}.{}".format(*sys.version_info)
_START = f"""#!/bin/sh
# Python of this machine, with the packages of this archive.
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
if command -v {_PYTHON} >/dev/null 2>&1; then exec {_PYTHON} "$@"; fi
exec python3 "$@"
"""


def pack_environment(target: Path) -> list[str]:
    """Write the archive; the packages that are in it."""
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise InputError(f"{target}: is no name of an archive.", "Let it end with .tar.gz.")
    packed = _needed("headwater", set())
    try:
        with tarfile.open(target, "w:gz", compresslevel=1) as archive:
            _add_start(archive)
            for each in packed:
                for path, name in _files(each):
                    archive.add(path, f"lib/{name}", recursive=False)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}.") from None
    return sorted(each.name for each in packed)


def _add_start(archive: tarfile.TarFile) -> None:
    for name in ("python", "python3"):
        about = tarfile.TarInfo(f"bin/{name}")
        about.size, about.mode = len(_START), 0o755
        archive.addfile(about, io.BytesIO(_START.encode("ascii")))


def _needed(name: str, seen: set[str]) -> list[Distribution]:
    """A package and, once each, all that it needs here."""
    plain = re.sub(r"[-_.]+", "-", name).lower()
    if plain in seen or plain in _OF_SPARK:
        return []
    seen.add(plain)
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return []  # it is for another system
    needed = [found]
    for requirement in found.requires or ():
        words, _, when = requirement.partition(";")
        if "extra ==" in when and not (plain == "psycopg" and "binary" in when):
            continue
        if match := _NAME.match(words):
            needed += _needed(match[0], seen)
    return needed


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a package, and where they stand beside those of others."""
    root = Path(str(package.locate_file("")))
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        is_inside = path.is_relative_to(root) and ".." not in file.parts
        if is_inside and path.is_file() and path.suffix != ".pyc":
            yield path, str(file)
