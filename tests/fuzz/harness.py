"""Inputs that nobody should write, one after the other: the program that reads them.

A program of its own, so that memory can be limited and a hang be ended:
`python harness.py KIND FOLDER FIRST COUNT`. Every number from FIRST on is the seed of one input.
What is read, or refused in words, is well; anything else ends it with the seed and the input.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Protocol

from headwater.errors import HeadwaterError
from tests.fuzz.change_log import ChangeLogSegments
from tests.fuzz.delta_log import DeltaLogFiles
from tests.fuzz.mutations import shown
from tests.fuzz.own_files import OwnFiles
from tests.fuzz.scenarios import ScenarioFiles
from tests.fuzz.settings_files import SettingsFiles
from tests.fuzz.share_objects import SharedObjects
from tests.fuzz.view_files import ViewFiles

MEMORY = 3 << 30
"""Of address space, in which the libraries alone take more than one."""
HANG_S = 60


class Kind(Protocol):
    """One kind of input: made sound in a folder, then spoilt and read again and again."""

    input: Path
    """What was spoilt last."""

    def attack(self, random: Random) -> None:
        """Spoil something and read it; HeadwaterError if it is refused."""


KINDS: dict[str, Callable[[Path, Path], Kind]] = {
    "share": SharedObjects,
    "scenario": ScenarioFiles,
    "settings": SettingsFiles,
    "view": ViewFiles,
    "changes": ChangeLogSegments,
    "delta": DeltaLogFiles,
    "own": OwnFiles,
}


def main() -> None:
    name, folder, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    os.environ["JAVA_HOME"] = str(folder / "nowhere")  # none is started
    os.fsync = lambda fd: None  # no power is lost here
    kind = KINDS[name](folder / "inside", folder / "outside")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    refused = 0
    for seed in range(first, first + count):
        (folder / "seed").write_text(str(seed))  # is still there after a hang
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            kind.attack(Random(seed))
        except HeadwaterError as error:
            str(error).encode("utf-8", "backslashreplace")
            refused += 1
        except BaseException:
            sys.stderr.write(f"seed {seed}: {shown(kind.input)}\n")
            raise
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.write(f"{count - refused} {refused}")


if __name__ == "__main__":
    main()
