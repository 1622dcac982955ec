"""The command's start: until everything is imported, Ctrl-C ends it without a traceback."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line, then run it."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headwater.cli.main import main as run

    run(ready=lambda: signal.signal(signal.SIGINT, before))


if __name__ == "__main__":
    main()
