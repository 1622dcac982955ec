"""What the servers of this package have in common: files of their own, an own user, an end.

As root, all that concerns a server's files is done by an unprivileged user, whose folder nobody
else may enter, since whoever reaches the socket is the server's superuser. Root's own files lie
outside it, and root follows no path inside: that user could have swapped it for a link. When the
process that uses the server ends in whatever way, a pipe closes; then a watchdog of that user
ends the server, and another one removes the files.
"""

from __future__ import annotations

import atexit
import os
import pwd
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

_END = """
cat >/dev/null
pid=$(head -n 1 "$1") && kill -QUIT "$pid"
for n in 1 2 3 4 5 6 7 8 9; do [ -e "$1" ] || break; sleep 0.1; done
[ -e "$1" ] && kill -KILL "$pid"
"""
_REMOVE = 'cat >/dev/null; rm -rf "$1"'


class EmbeddedServer:
    """One server with its own files; reached through a socket in its folder."""

    process_file: ClassVar[str]
    """Where in its folder the server writes its process number."""

    def __init__(self) -> None:
        self._outside = Path(tempfile.mkdtemp(prefix="hw", dir="/tmp"))  # mode 0700
        self.folder = self._outside / "server"
        self._data = self.folder / "data"
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def _begin(self) -> None:
        """Make the folder, which is removed when this process ends."""
        self._make_folder()
        self._watchdogs = self._start_watchdogs()
        atexit.register(self.stop)

    @property
    def process(self) -> int:
        """Its number; all its others are below it."""
        return int(self._shell('head -n 1 "$1"', str(self.folder / self.process_file)))

    def stop(self) -> None:
        atexit.unregister(self.stop)
        first = self._watchdogs[0].stdin
        assert first is not None
        first.close()
        for watchdog in self._watchdogs:
            watchdog.wait(timeout=30)

    # As the server's user

    def _shell(self, script: str, *arguments: str, said: str = "") -> str:
        """Let the server's user do something with its files."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            ["sh", "-c", script, "sh", *arguments],
            input=said,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            umask=0o077,
            timeout=60,
            check=False,
            **self._user,
        )
        return done.stdout

    def _start_watchdogs(self) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        """One ends the server, with no more rights than the server has; then one removes it."""
        quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "start_new_session": True}
        end = subprocess.Popen(
            ["sh", "-c", _END, "ending", str(self.folder / self.process_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            **quiet,
            **self._user,
        )
        remove = subprocess.Popen(
            ["sh", "-c", _REMOVE, "watchdog", str(self._outside)],
            stdin=end.stdout,
            stdout=subprocess.DEVNULL,
            **quiet,
        )
        assert end.stdout is not None
        end.stdout.close()
        return end, remove

    # As root, before anything there belongs to somebody else

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700)
        if self._user:
            os.chown(self.folder, self._user["user"], self._user["group"])
            os.chown(self._outside, -1, self._user["group"])
            self._outside.chmod(0o710)  # its user may pass, and look at nothing
