"""The object stores that there are, through obstore: S3 and what speaks like it, Google's, Azure's.

obstore tries nothing again here: whether a put that was not answered took effect is found out
where that is known (`ObjectStorage`). Its messages may contain addresses with secrets in them, so
only what is known of an error is told, in our words.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from errno import EACCES, ENOTSUP
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from headwater.errors import InputError
from headwater.storage.bucket import (
    Condition,
    ConditionError,
    Listing,
    ObjectAbout,
    Tag,
    UnansweredError,
)
from headwater.storage.contract import Content

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

_CLIENT = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"}
)
"""Options of the connection; all others are the store's own."""
_SECRET = re.compile(r"key|secret|token|password|credential|sas")
"""What the names of options have in them whose values are nobody's business."""
T = TypeVar("T")


class CloudBucket:
    """What is below an address of an object store."""

    def __init__(self, address: str, options: Mapping[str, str] | None = None) -> None:
        self.uri = address.rstrip("/")
        self._options = dict(options or {})
        self._name = urlsplit(address).netloc
        client: dict[str, Any] = {"connect_timeout": timedelta(seconds=10)}
        config: dict[str, str] = {}
        for key, value in self._options.items():
            if key.lower().endswith("endpoint") and _has_login(value):
                raise InputError(
                    f"The option {key} of the warehouse has a name or a password in its address.",
                    "Leave them out there; credentials are options of their own.",
                )
            (client if key.lower() in _CLIENT else config)[key.lower()] = value
        if "allow_http" in client:
            client["allow_http"] = client["allow_http"].lower() == "true"
        try:
            self._store: ObjectStore = from_url(  # type: ignore[call-overload]  # any store's keys
                self.uri,
                config=config or None,
                client_options=client,
                retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=1)},
            )
        except exceptions.UnknownConfigurationKeyError:
            raise _unknown_option(config) from None
        except Exception as error:
            raise InputError(
                f"The warehouse {self.uri} cannot be opened: {_plainly(error)}.",
                "See [warehouse.options] in headwater.toml, and the variables of the environment.",
            ) from None

    def __reduce__(self) -> tuple[type[CloudBucket], tuple[str, dict[str, str]]]:
        """What travels with a plan of Spark's has no secrets: tasks take these from the variables
        of their own environment, as the store's other programs do."""
        told = {
            key: value
            for key, value in self._options.items()
            if not (_SECRET.search(key.lower()) or _has_login(value))
        }
        return CloudBucket, (self.uri, told)

    def clock(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def fresh_name(self) -> str:
        return uuid.uuid4().hex

    # Reading

    def get(self, key: str, most: int | None = None) -> tuple[bytes | None, ObjectAbout]:
        def read() -> tuple[bytes | None, ObjectAbout]:
            found = obstore.get(self._store, key)
            about = _about(found.meta)
            is_wanted = most is None or about.size <= most
            return bytes(found.bytes()) if is_wanted else None, about

        return self._asked(key, read)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._asked(
            key, lambda: bytes(obstore.get_range(self._store, key, start=start, end=end))
        )

    def head(self, key: str) -> ObjectAbout | None:
        try:
            return self._asked(key, lambda: _about(obstore.head(self._store, key)))
        except FileNotFoundError:
            return None

    def look(self, prefix: str) -> Listing:
        found = self._asked(prefix, lambda: obstore.list_with_delimiter(self._store, prefix))
        objects = {_last(meta["path"]): _about(meta) for meta in found["objects"]}
        return Listing(objects, frozenset(map(_last, found["common_prefixes"])))

    def is_empty(self, prefix: str) -> bool:
        return not self._asked(
            prefix, lambda: next(iter(obstore.list(self._store, prefix, chunk_size=1)), ())
        )

    def below(self, prefix: str) -> list[str]:
        def read() -> list[str]:
            chunks = obstore.list(self._store, prefix)
            return [meta["path"] for chunk in chunks for meta in chunk]

        return self._asked(prefix, read)

    # Writing

    def put(self, key: str, content: Content, condition: Condition) -> Tag:
        mode, plain = _mode(condition), memoryview(content).cast("B")
        found = self._asked(key, lambda: obstore.put(self._store, key, plain, mode=mode))
        return found["e_tag"], found["version"]

    def copy(self, key: str, target: str) -> None:
        self._asked(key, lambda: obstore.copy(self._store, key, target))

    def delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._asked(key, lambda: obstore.delete(self._store, key))

    # Errors

    def _asked(self, key: str, ask: Callable[[], T]) -> T:
        where = f"{self.uri}/{key}"
        try:
            return ask()
        except FileNotFoundError as error:
            if _code(error) in ("NoSuchBucket", "ContainerNotFound"):
                raise self._no_bucket() from None
            raise FileNotFoundError(2, "there is no such object", where) from None
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise ConditionError from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise _refused(error, where) from None
        except exceptions.NotSupportedError:
            raise OSError(ENOTSUP, "the object store cannot do what is asked", where) from None
        except (exceptions.BaseError, OSError) as error:
            if _code(error) in ("NoSuchBucket", "ContainerNotFound"):
                raise self._no_bucket() from None
            if _code(error) in _REFUSED:
                raise _refused(error, where) from None
            raise UnansweredError(None, f"no answer ({_plainly(error)})", where) from None

    def _no_bucket(self) -> InputError:
        return InputError(
            f"There is no bucket or container '{self._name}' for the warehouse {self.uri}.",
            "Make it first, or correct 'path' under [warehouse] in headwater.toml.",
        )


_REFUSED = {
    "AccessDenied": "these credentials may not do it",
    "AuthorizationPermissionMismatch": "these credentials may not do it",
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret does not fit the access key",
    "AuthenticationFailed": "the credentials are wrong",
    "InvalidToken": "the token is wrong",
    "ExpiredToken": "the token has expired",
    "RequestTimeTooSkewed": "the clock of this machine is wrong by more than it accepts",
}


def _refused(error: BaseException, where: str) -> OSError:
    why = _REFUSED.get(_code(error), "the credentials are missing, wrong, or may not do it")
    return OSError(EACCES, f"the object store refuses it: {why}", where)


def _code(error: BaseException) -> str:
    """What the store calls an error; its text may hold secrets."""
    found = re.search(r"<Code>\s*(\w{1,60})\s*</Code>", str(error))
    return found[1] if found else ""


def _plainly(error: BaseException) -> str:
    """What is known of an error without repeating its text."""
    if code := _code(error):
        return code
    text = str(error)
    if found := re.search(r"\b(?:status|error|response)\D{0,20}\b([45]\d\d)\b", text):
        return f"status {found[1]}"
    for word, plain in _WORDS.items():
        if word in text.lower():
            return plain
    return type(error).__name__


_WORDS = {
    "timed out": "it took too long",
    "timeout": "it took too long",
    "connection refused": "the connection was refused",
    "dns": "its host is not known",
    "connect": "no connection",
    "certificate": "its certificate is not trusted",
    "missing": "something is missing in its configuration",
}


def _has_login(value: str) -> bool:
    """Whether a value is an address with a name or a password before its host."""
    return "@" in value.partition("://")[2].partition("/")[0]


def _unknown_option(options: Mapping[str, str]) -> InputError:
    return InputError(
        f"One of the options of the warehouse is not known: {', '.join(sorted(options))}.",
        "Under [warehouse.options] stand options of the object store, such as aws_region.",
    )


def _mode(condition: Condition) -> PutMode:
    match condition:
        case "always":
            return "overwrite"
        case "absent":
            return "create"
        case (tag, version):
            found: UpdateVersion = {}
            if tag is not None:
                found["e_tag"] = tag
            if version is not None:
                found["version"] = version
            return found


def _about(meta: Any) -> ObjectAbout:
    tag = (meta["e_tag"], meta["version"])
    return ObjectAbout(meta["size"], meta["last_modified"].timestamp(), tag)


def _last(key: str) -> str:
    return key.rstrip("/").rpartition("/")[2]
