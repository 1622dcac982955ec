"""How values of `headwater.toml` are read: durations, and what Spark is told.

Each reader raises ValueError in words that follow the key; what it says never holds the value,
which may be a secret.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from headwater.sources.settings import local_path
from headwater.storage.opening import address_problem, is_address


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the closest of the known names, or nothing."""
    close = get_close_matches(name, list(known), 1)
    return f"Did you mean '{close[0]}'? " if close else ""


# Durations

_UNITS = {
    "millisecond": 0.001,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
}
_ABBREVIATIONS = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def parse_duration(text: object) -> float:
    """Seconds, from a text such as '5 seconds'; ValueError in words."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    word = match[2].lower() if match else ""
    unit = _ABBREVIATIONS.get(word, word.removesuffix("s"))
    if match is None or unit not in _UNITS:
        raise ValueError("is not a duration: write a number and a unit, such as '5 seconds'")
    seconds = float(match[1]) * _UNITS[unit]
    if seconds <= 0:
        raise ValueError("must be longer than nothing")
    return seconds


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds; written as a number and a unit."""


def parse_every(text: object) -> float:
    """Seconds, or 0 for at every commit."""
    return 0.0 if text == "commit" else parse_duration(text)


Every = Annotated[float, BeforeValidator(parse_every)]
"""Seconds; written as a number and a unit, or as `commit`, which is none."""

# Addresses


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; ValueError in words."""
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError("is no address: write HOST:PORT, such as 127.0.0.1:7440")
    return host, int(port)


def read_address(text: str) -> str:
    address_of(text)
    return text


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name is looked up by nobody here."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


Address = Annotated[str, AfterValidator(read_address)]
"""A host and a port."""

# Spark


def spark_settings(value: object) -> object:
    """Spark's dotted names, which TOML reads as tables in tables, as texts."""
    if not isinstance(value, dict):
        return value
    flat: dict[str, object] = {}
    for name, item in value.items():
        if isinstance(item, dict):
            inner = spark_settings(item)
            assert isinstance(inner, dict)
            flat.update({f"{name}.{rest}": value for rest, value in inner.items()})
        elif isinstance(item, bool):
            flat[name] = str(item).lower()
        else:
            flat[name] = str(item) if isinstance(item, int | float) else item
    return flat


_LOCAL_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)( *, *\d+)?\])?|local-cluster\[[\d, ]+\]")
_REMOTE_MASTER = re.compile(r"(spark://|k8s://|yarn$).*")
_MASTERS = ("local[*]", "local", "local[4]", "yarn", "spark://HOST:7077", "k8s://HOST")


def read_master(value: str) -> str:
    """Where Spark runs; empty under `spark-submit`, whose own then holds."""
    if value and not (_LOCAL_MASTER.fullmatch(value) or _REMOTE_MASTER.fullmatch(value)):
        close = did_you_mean(value, _MASTERS).strip()
        raise ValueError(
            "is no place where Spark runs: write local[*], local[4] (so many cores), "
            f"spark://HOST:PORT, yarn or k8s://HOST:PORT{'. ' if close else ''}{close}"
        )
    return value


def known_to_spark(settings: dict[str, str]) -> dict[str, str]:
    """Settings that Spark would read; it passes over others without a word."""
    if settings:
        from headwater.frames.session import MEANING  # imports Spark

        for name in settings:
            if not name.startswith("spark."):
                raise ValueError(f"{name} is no setting of Spark's: their names start with spark.")
            if name in MEANING or name.startswith("spark.sql.legacy."):
                raise ValueError(
                    f"{name} decides what values mean, so Headwater sets it itself: leave it out"
                )
    return settings


Master = Annotated[str, AfterValidator(read_master)]
"""Where Spark runs."""

SparkOwn = Annotated[
    dict[str, str], BeforeValidator(spark_settings), AfterValidator(known_to_spark)
]
"""Settings of Spark's own, by their names."""


def folder_or_address(value: object) -> object:
    """A folder of this machine, or an address of an object store."""
    if isinstance(value, str) and is_address(value):
        if problem := address_problem(value):
            raise ValueError(problem)
        return value
    found = local_path(value)
    return Path(found) if isinstance(found, str) else found


WarehousePath = Annotated[Path | str, BeforeValidator(folder_or_address)]
"""Where a warehouse is."""
