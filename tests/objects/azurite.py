"""Azurite, a server that speaks like Azure's blob storage, and how a container is made there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
from email.utils import formatdate
from pathlib import Path

PROGRAM = (
    Path(__file__).parents[2] / "build" / "object-store" / "node_modules" / ".bin" / "azurite-blob"
)
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The one that every Azurite has, as its documentation tells: no secret."""


def options(endpoint: str) -> dict[str, str]:
    return {
        "azure_endpoint": endpoint,
        "azure_storage_account_name": ACCOUNT,
        "azure_storage_account_key": KEY,
        "allow_http": "true",
    }


def command(folder: Path, port: int) -> list[str]:
    place = ["--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort", f"{port}"]
    return [str(PROGRAM), *place, "--skipApiVersionCheck", "--silent"]


def make_container(port: int, name: str) -> None:
    """One signed request, since nothing that Headwater uses makes containers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{key}:{value}\n" for key, value in headers.items())
    signed = f"PUT{chr(10) * 12}{named}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
        assert connection.getresponse().status == 201
    finally:
        connection.close()
