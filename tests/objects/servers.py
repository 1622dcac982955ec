"""Object stores for tests: the small one, and a real one where it has been built.

`make object-store` builds MinIO from its Go module into `build/object-store`; without it, tests
that need a real server are skipped, and say so.
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
from tests.objects.server import BUCKET, small_server

MINIO = Path(__file__).parents[2] / "build" / "object-store" / "bin" / "minio"
KEY, SECRET = "headwater-tests", "not-a-secret-of-anybody"


def servers() -> list[str]:
    """The kinds that can be had."""
    return ["small", *(["minio"] if MINIO.exists() else [])]


def options(endpoint: str) -> dict[str, str]:
    return {
        "aws_endpoint": endpoint,
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }


def location(endpoint: str, folder: str = "warehouse") -> Location:
    bucket = CloudBucket(f"s3://{BUCKET}/{folder}", options(endpoint))
    return Location(Path("/"), ObjectStorage(bucket))


@contextmanager
def endpoint_of(kind: str) -> Iterator[str]:
    """A server of a kind with an empty bucket."""
    if kind == "small":
        with small_server() as server:
            yield server.endpoint
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield from _minio(Path(folder))


def _minio(folder: Path) -> Iterator[str]:
    (folder / BUCKET).mkdir()  # a folder is a bucket there
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(MINIO), "server", str(folder), "--address", f"127.0.0.1:{port}"]
    env = {**os.environ, "MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet) as process:
        try:
            deadline = time.monotonic() + 120
            while not _answers(port):
                assert process.poll() is None, "MinIO did not start"
                assert time.monotonic() < deadline, "MinIO does not answer"
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
