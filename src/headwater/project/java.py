"""Whether the Java that Spark needs is there, told before Spark fails over it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from headwater.errors import InputError

OLDEST = 17
_ADVICE = (
    "Install it (on Debian and Ubuntu: apt install default-jre-headless), "
    "or point JAVA_HOME at one."
)


def check_java() -> None:
    """InputError if Spark would find no Java, or one that is too old."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"  # noqa: PTH118 # may be relative
    if shutil.which(program) is None:
        place = f"at JAVA_HOME, {home}" if home else "on the PATH"
        raise InputError(f"Spark needs Java {OLDEST} or newer, and there is none {place}.", _ADVICE)
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found and int(found[1]) < OLDEST:
        raise InputError(f"Spark needs Java {OLDEST} or newer, and this is {found[1]}.", _ADVICE)
