"""Where a runner and its nodes meet, and by what they know each other: `[nodes]` in settings."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import InputError
from headwater.project.setting_values import address_of
from headwater.project.settings import NodesSettings
from headwater.storage.location import Location
from headwater.storage.modes import OWN

_MOST_BYTES = 4096
KEY_FILE = "nodes.key"


@dataclass(frozen=True)
class Meeting:
    """One side's way to the other."""

    host: str
    port: int
    secret: bytes
    """Both sides show that they know it; empty where certificates alone decide."""
    release: str
    """Of Headwater: both sides are the same."""
    tls: ssl.SSLContext | None = None

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)

    @property
    def family(self) -> socket.AddressFamily:
        try:
            is_six = ipaddress.ip_address(self.host).version == 6
        except ValueError:
            return socket.AF_INET
        return socket.AF_INET6 if is_six else socket.AF_INET


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def of_runner(settings: NodesSettings, folder: Path, warehouse: Location, release: str) -> Meeting:
    """Where a runner listens; makes the key of its machine if nothing else is given."""
    host, port = address_of(settings.listen)
    tls = _tls(settings, folder, ssl.Purpose.CLIENT_AUTH)
    if settings.secret is None and tls is None:
        return Meeting(host, port, _made_key(warehouse), release)
    return Meeting(host, port, _secret(settings), release, tls)


def of_node(settings: NodesSettings, folder: Path, warehouse: Location, release: str) -> Meeting:
    """Where a node finds its runner."""
    host, port = address_of(settings.connect or settings.listen)
    tls = _tls(settings, folder, ssl.Purpose.SERVER_AUTH)
    if settings.secret is None and tls is None:
        return Meeting(host, port, _found_key(warehouse), release)
    return Meeting(host, port, _secret(settings), release, tls)


def _secret(settings: NodesSettings) -> bytes:
    return settings.secret.get_secret_value().encode() if settings.secret is not None else b""


def _tls(settings: NodesSettings, folder: Path, purpose: ssl.Purpose) -> ssl.SSLContext | None:
    """Both sides show certificates that the authorities have signed."""
    if settings.certificate is None or settings.key is None or settings.authorities is None:
        return None
    try:
        context = ssl.create_default_context(purpose, cafile=folder / settings.authorities)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / settings.certificate, folder / settings.key, _password)
    except OSError as error:  # ssl.SSLError is one
        why = getattr(error, "reason", None) or error.strerror or type(error).__name__
        raise InputError(
            f"nodes: certificate, key or authorities cannot be used: {why}.",
            "Each names a PEM file, relative to the project; the key must fit the certificate.",
        ) from None
    return context


def _password() -> str:
    """Instead of a question at the terminal, for which nobody waits."""
    raise InputError(
        "nodes: the key is encrypted, and there is no setting for its password.",
        "Give a key that is not, in a file that only this user may read.",
    )


def _made_key(warehouse: Location) -> bytes:
    """The key of this machine's runner and nodes, in a folder that only their user enters."""
    path = warehouse / OWN / KEY_FILE
    path.parent.make_folder(durable=False)
    while True:
        if path.is_named():
            return _found_key(warehouse)
        fresh = "".join(path.storage.fresh_name() for _ in range(2)).encode()
        path.put_if_absent(fresh)


def _found_key(warehouse: Location) -> bytes:
    path = warehouse / OWN / KEY_FILE
    try:
        found = path.read(_MOST_BYTES)
    except OSError as error:
        raise NoKeyError(
            f"The key of the runner's nodes cannot be read: {path}: {error.strerror}.",
            "A runner makes it: start 'headwater run' on this machine. From another machine, "
            "give both a secret in [nodes] of headwater.toml.",
        ) from None
    if len(found) < 32:
        raise InputError(f"{path} is no key.", "Remove it: the next 'headwater run' makes another.")
    return found


class NoKeyError(InputError):
    """There is no key yet; a runner makes one."""
