"""A real browser: the system's Chromium, driven by its own protocol over pipes.

Needs no driver and no port. Where there is no Chromium the tests that need it are skipped.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 600.0
PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
needs_browser = pytest.mark.skipif(
    not PROGRAM, reason="there is no Chromium (apt install chromium)"
)
PHONE = (390, 844)
_TEXT = "(document.body?.innerText ?? '')"
"""Of a page that may not be there yet."""


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def does(self, script: str) -> Any:
        """What an expression comes to."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    @property
    def text(self) -> str:
        return str(self.does(_TEXT))

    def waits_for(self, script: str) -> float:
        """Wait until an expression is true; how many seconds that took."""
        began = time.monotonic()
        while not self.does(f"!!({script})"):
            assert time.monotonic() < began + LIMIT_S, f"{script}\n{self.text}"
            time.sleep(0.1)
        return time.monotonic() - began

    def waits_for_text(self, text: str) -> float:
        return self.waits_for(f"({_TEXT}).includes({json.dumps(text)})")

    def looks(self, scheme: str = "light", size: tuple[int, int] = (1280, 900)) -> None:
        """As light or dark, and as large, as somebody's screen."""
        width, height = size
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def picture(self, file: Path, whole: bool = True) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    @property
    def complaints(self) -> Sequence[str]:
        """What the browser did not like: errors of scripts, and what the policy forbids."""
        return self._browser.complaints


class Browser:
    """A process of the browser, with a folder of its own."""

    def __init__(self, folder: str) -> None:
        self.complaints: list[str] = []
        self._number = 0
        to_read, self._to = _pipe()
        self._from, to_write = _pipe()

        def as_its_own() -> None:
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        self._process = subprocess.Popen(
            [
                *(PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu"),
                *("--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"),
                *("--disable-background-networking", "--remote-debugging-pipe"),
                *("--hide-scrollbars", f"--user-data-dir={folder}", "about:blank"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=as_its_own,
            pass_fds=(3, 4),
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""

    def page(self) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        return page

    def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while (said := self._next()).get("id") != self._number:
            self._note(said)
        assert "error" not in said, said
        return said["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, said: dict[str, Any]) -> None:
        about = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"]))
        entry = about.get("entry", {})
        if said.get("method") == "Log.entryAdded" and entry.get("source") != "network":
            self.complaints.append(str(entry))

    def close(self) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait()


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are not among the numbers by which the browser knows its own."""
    ends = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return reading, writing


@contextmanager
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        opened = Browser(folder)
        try:
            yield opened
        finally:
            opened.close()
