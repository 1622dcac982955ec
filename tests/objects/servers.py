"""Object stores for tests: the small one, and real ones where they are to be had.

`make object-store` builds MinIO from its Go module into `build/object-store`, and installs Azurite
there from its npm package where there is npm; without them the same tests run on the small one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.storage.clouds import CloudBucket
from headwater.storage.location import Location
from headwater.storage.objects import ObjectStorage
from tests.objects import azurite
from tests.objects.server import BUCKET, small_server

MINIO = Path(__file__).parents[2] / "build" / "object-store" / "bin" / "minio"
KEY, SECRET = "headwater-tests", "not-a-secret-of-anybody"


def servers() -> list[str]:
    """The kinds that can be had."""
    azure = ["azurite"] if azurite.PROGRAM.exists() else []
    return ["small", *azure, *(["minio"] if MINIO.exists() else [])]


def is_azure(endpoint: str) -> bool:
    return endpoint.endswith(azurite.ACCOUNT)


def address(endpoint: str, folder: str = "warehouse") -> str:
    return f"{'az' if is_azure(endpoint) else 's3'}://{BUCKET}/{folder}"


def options(endpoint: str) -> dict[str, str]:
    if is_azure(endpoint):
        return azurite.options(endpoint)
    return {
        "aws_endpoint": endpoint,
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }


def location(endpoint: str, folder: str = "warehouse") -> Location:
    bucket = CloudBucket(address(endpoint, folder), options(endpoint))
    return Location(Path("/"), ObjectStorage(bucket))


@contextmanager
def endpoint_of(kind: str) -> Iterator[str]:
    """A server of a kind with an empty bucket."""
    if kind == "small":
        with small_server() as server:
            yield server.endpoint
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if kind == "azurite":
            with _started(azurite.command(folder, port), port):
                azurite.make_container(port, BUCKET)
                yield f"http://127.0.0.1:{port}/{azurite.ACCOUNT}"
        else:
            (folder / BUCKET).mkdir()  # a folder is a bucket there
            command = [str(MINIO), "server", name, "--address", f"127.0.0.1:{port}"]
            with _started(command, port):
                yield f"http://127.0.0.1:{port}"


@contextmanager
def _started(command: list[str], port: int) -> Iterator[None]:
    env = {**os.environ, "MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet) as process:
        try:
            deadline = time.monotonic() + 120
            while not _answers(port):
                assert process.poll() is None, f"{command[0]} did not start"
                assert time.monotonic() < deadline, f"{command[0]} does not answer"
                time.sleep(0.1)
            yield
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
