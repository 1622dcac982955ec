"""`headwater share serve`, `mirror`, `coalesce`: objects for others, and how theirs are reached."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.listening import address_of_option, token_in
from headwater.cli.logs import (
    LOG_SIZE,
    LogFileOption,
    LogFormatOption,
    LogLevelOption,
    Logs,
    LogSizeOption,
    logged,
)
from headwater.errors import InputError
from headwater.journal import happened
from headwater.terminal.output import JsonOption, console, print_json

if TYPE_CHECKING:
    from headwater.sharing.answers import Access
    from headwater.sharing.following import CaughtUp
    from headwater.sharing.node import SharingNode
    from headwater.sharing.offers import Offering
    from headwater.sharing.peers import Peer
    from headwater.sharing.serving import Served

TOKEN_VARIABLE = "HEADWATER_SHARE_TOKEN"
"""Where a token is, if no file is named."""
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help=f"A file with the token; without one it is taken from {TOKEN_VARIABLE}.",
    ),
]
AuthoritiesOption = Annotated[
    Path | None,
    typer.Option("--authorities", help="For TLS: who signs the other side's certificate (PEM)."),
]
CertificateOption = Annotated[
    Path | None, typer.Option("--certificate", help="For TLS: this side's certificate (PEM).")
]
KeyOption = Annotated[Path | None, typer.Option("--key", help="For TLS: its private key.")]


def serve(
    catalog: Annotated[
        Path, typer.Option("--catalog", "-c", help="The folder of the node's objects.")
    ] = Path("share"),
    listen: Annotated[
        str,
        typer.Option(
            "--listen", help="HOST:PORT; one that others reach needs a token or --authorities."
        ),
    ] = "127.0.0.1:7450",
    token_file: TokenOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    authorities: AuthoritiesOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell every request, a line each.")
    ] = False,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    log_file: LogFileOption = None,
    log_size: LogSizeOption = LOG_SIZE,
    as_json: JsonOption = False,
) -> None:
    """Give a node's objects to others over HTTP, until stopped; nothing is changed.

    Others take what they lack with 'headwater share exchange http://HOST:PORT'. The private key and
    what the node itself holds are never given.
    """
    from headwater.cli.running import stopped_by_signals
    from headwater.project.setting_values import is_loopback
    from headwater.sharing.answers import Access, Answers
    from headwater.sharing.peers import Peer
    from headwater.sharing.serving import Serving

    host, port = address_of_option("--listen", listen)
    peer, token = Peer(catalog), token_in(TOKEN_VARIABLE, token_file)
    tls = _tls_of_server(certificate, key, authorities)
    access = Access(token, by_certificate=authorities is not None)
    if not (is_loopback(host) or token or access.by_certificate):
        raise InputError(
            f"--listen {listen}: others reach this address, and nothing says who may ask.",
            f"Give a token in {TOKEN_VARIABLE} or with --token-file, or have both sides show "
            "certificates with --certificate, --key and --authorities.",
        )

    def tell(served: Served) -> None:
        happened("request", **{**vars(served), "seconds": round(served.seconds, 4)})
        if not verbose:
            return
        if as_json:
            print_json({"event": "request", **vars(served)})
        else:
            console().print(
                f"  {served.who} {served.method} {served.path}: {served.status}, "
                f"{served.size:,} bytes, {served.seconds * 1e3:.3g} ms"
            )

    serving = Serving(host, port, Answers(peer, access), tls, tell)
    stop = threading.Event()
    logs = Logs(log_format, log_level, log_file, log_size)
    with logged(logs), stopped_by_signals(stop, b"headwater: stopping\n"):
        serving.start()
        happened("node", state="served", node=peer.node, at=serving.address)
        try:
            _tell_start(peer.node, serving.address, access, is_loopback(host), as_json)
            stop.wait()
        finally:
            serving.stop()
            happened("node", state="stopped", node=peer.node)
    if as_json:
        print_json({"event": "stopped", "node": peer.node})


def _tell_start(node: str, address: str, access: Access, is_near: bool, as_json: bool) -> None:
    if as_json:
        print_json({"event": "serving", "node": node, "address": address})
        return
    console().print(f"● {node} is served at {address}")
    if not access.token and not access.by_certificate:
        console().print("  without a token: everybody on this machine may read its objects")
    elif not is_near and address.startswith("http:"):
        console().print(
            "  without TLS: who is between sees the token and the objects; give --certificate and "
            "--key"
        )


def mirror(
    address: Annotated[str, typer.Argument(help="A place in an object store: s3://BUCKET/FOLDER.")],
    catalog: Annotated[
        Path, typer.Option("--catalog", "-c", help="The folder of the node's objects.")
    ] = Path("share"),
    as_json: JsonOption = False,
) -> None:
    """Put a node's objects into an object store, those that are not there yet.

    Others take what they lack from there with 'headwater share exchange s3://BUCKET/FOLDER'.
    Options and credentials are variables of the environment, such as AWS_ACCESS_KEY_ID.
    """
    from headwater.cli.share import counted
    from headwater.sharing.node import SharingNode
    from headwater.sharing.stores import mirror as put_mirror

    node = SharingNode.open(catalog)
    counts = put_mirror(node.catalog, address)
    if as_json:
        print_json({"node": node.name, "to": address, "put": counts})
    else:
        console().print(f"✓ {node.name} to {address}: {counted(counts) or 'nothing new'}")


def coalesce(
    name: Annotated[str, typer.Argument(help="A view, or a relation of this node's own.")],
    catalog: Annotated[
        Path, typer.Option("--catalog", "-c", help="The folder of this node's objects.")
    ] = Path("share"),
    since: Annotated[
        str | None, typer.Option("--from", help="A vector, RELATION=N,...; by default the first.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish all changes of a view or relation as one updategram, for those who were away."""
    from headwater.sharing.coalescing import coalesce as published
    from headwater.sharing.node import SharingNode
    from headwater.sharing.versions import parse_versions

    first = parse_versions(since) if since is not None else None
    done = published(SharingNode.open(catalog), name, first)
    if as_json:
        ends = {"first": dict(done.first), "last": dict(done.last)} if done else None
        print_json({"name": name, "published": ends})
    elif done is None:
        console().print(f"✓ {name}: there is one updategram for all of it already")
    else:
        rows = sum(count for _, count in done.touched.items())
        console().print(f"✓ {name}: ({done.first}) to ({done.last}) as one, {rows:,} rows")


@contextmanager
def met(
    address: str,
    token_file: Path | None = None,
    authorities: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Iterator[Peer | Offering]:
    """The other node: what is at an address, or in a folder."""
    from headwater.sharing.peers import Peer
    from headwater.storage.opening import is_address

    if not is_address(address):
        yield Peer(address)
        return
    offering = _offering_at(address, token_file, authorities, certificate, key)
    try:
        yield offering
    finally:
        offering.close()


def _offering_at(
    address: str,
    token_file: Path | None,
    authorities: Path | None,
    certificate: Path | None,
    key: Path | None,
) -> Offering:
    if not address.startswith(("http://", "https://")):
        from headwater.sharing.stores import StorePeer

        return StorePeer(address)
    from headwater.sharing.remote import HttpPeer, tls_of_peer

    tls = None
    if address.startswith("https://"):
        tls = _told_tls(lambda: tls_of_peer(authorities, certificate, key))
    return HttpPeer(address, token_in(TOKEN_VARIABLE, token_file), tls)


def print_ways(node: SharingNode, done: CaughtUp, as_json: bool) -> None:
    """Where views are now, and how they came there."""
    for way in done.ways:
        held = node.held(way.view)
        versions = held.versions if held is not None else way.last
        if as_json:
            about = {"seconds": way.seconds, "objects": len(way.reads)}
            print_json({"view": way.view, "last": dict(versions), "by": way.kind, **about})
        else:
            console().print(f"✓ {way.view} is at ({versions}), by {way.kind}")


# What the options say


def _tls_of_server(
    certificate: Path | None, key: Path | None, authorities: Path | None
) -> ssl.SSLContext | None:
    if certificate is None or key is None:
        if certificate or key or authorities:
            raise InputError(
                "TLS needs --certificate and --key, both.", "--authorities goes beside them."
            )
        return None
    return _told_tls(lambda: _server_context(certificate, key, authorities))


def _server_context(certificate: Path, key: Path, authorities: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    if authorities is not None:
        context.load_verify_locations(authorities)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _told_tls(make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    try:
        return make()
    except OSError as error:  # ssl.SSLError is one
        why = getattr(error, "reason", None) or error.strerror or type(error).__name__
        raise InputError(
            f"--certificate, --key or --authorities cannot be used: {why}.",
            "Each names a PEM file; the key must fit the certificate.",
        ) from None
