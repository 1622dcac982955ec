"""Who may ask, and what every answer says to a browser: around the application, for each request.

Without a token only names of this machine are answered, so that no page from elsewhere can have
its own name point here. With one, it is asked for: as `Authorization: Bearer`, or as the password
that a browser asks its user for, which it then sends by itself. Nothing is ever changed by a
request, and only GET and HEAD are answered.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from headwater.project.setting_values import is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_OPEN = ("/healthz", "/readyz")
"""What those who start and route ask without a token; they are told yes or no."""


@dataclass(frozen=True)
class Guard:
    """The application behind it."""

    app: App
    token: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = [(name.encode(), text.encode()) for name, text in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *named]
            await send(message)

        if scope["type"] != "http":
            return
        refused = self.refused(scope)
        if refused is None:
            await self.app(scope, receive, sent)
            return
        status, more = refused
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *more]
        await sent({"type": "http.response.start", "status": status, "headers": headers})
        await sent({"type": "http.response.body", "body": b"refused\n"})

    def refused(self, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]]] | None:
        """With which status a request is refused, and what is said with it; None if it is not."""
        headers = dict(scope["headers"])
        scope["headwater.told"] = self._knows(headers.get(b"authorization", b""))
        if scope["method"] not in ("GET", "HEAD"):
            return 405, [(b"allow", b"GET, HEAD")]
        if not self.token and not _is_of_here(headers.get(b"host", b"").decode("latin-1")):
            return 403, []
        if scope["headwater.told"] or scope["path"] in _OPEN:
            return None
        return 401, [(b"www-authenticate", b'Basic realm="headwater", charset="UTF-8"')]

    def _knows(self, said: bytes) -> bool:
        """Whether who asks has told the token, or none is asked for."""
        if not self.token:
            return True
        kind, _, value = said.partition(b" ")
        if kind.lower() == b"basic":
            try:
                value = base64.b64decode(value, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != b"bearer":
            return False
        return secrets.compare_digest(value.strip(), self.token.encode())


def _is_of_here(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)
