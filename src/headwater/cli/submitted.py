"""What `spark-submit` is given: the same commands, on the Spark that it has started.

`spark-submit ... $(headwater entry) run --project orders`. Its Java process is the parent of this
one, and the one that is told to stop; when it ends, so does this.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

_LOOK_S = 0.2


def main() -> None:
    """Run the command line, as long as `spark-submit` does."""
    folder = str(Path(__file__).parent)  # where Python looks for modules first, and finds ours
    sys.path[:] = [place for place in sys.path if place != folder]
    threading.Thread(target=_stop_with, args=[os.getppid()], daemon=True).start()
    from headwater.__main__ import main as run

    run()


def _stop_with(parent: int) -> None:
    """Ask this process to stop, as SIGTERM does, when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
