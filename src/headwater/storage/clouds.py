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
from dataclasses import dataclass
from datetime import timedelta
from errno import ENOTSUP
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from headwater.errors import InputError
from headwater.storage.bucket import (
    Condition,
    ConditionError,
    DeniedError,
    Listing,
    ObjectAbout,
    StoreError,
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
_FIRST_S = 15.0
"""A store that has never answered is not asked for longer."""
_SECRET = re.compile(r"key|secret|token|password|credential|sas")
"""What the names of options have in them whose values are nobody's business."""
T = TypeVar("T")


class CloudBucket:
    """What is below an address of an object store."""

    def __init__(self, address: str, options: Mapping[str, str] | None = None) -> None:
        self.uri = address.rstrip("/")
        self._options = dict(options or {})
        self._name = urlsplit(address).netloc
        self._has_answered = False
        self._asked_since: float | None = None
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
                f"The warehouse {self.uri} cannot be opened: {_cause(error).told}.",
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

    def steady(self) -> float:
        return time.monotonic()

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
        if self._asked_since is None:
            self._asked_since = self.steady()
        try:
            found = ask()
        except (exceptions.BaseError, OSError) as error:
            failure = self._failure(error, where)
            self._has_answered |= not isinstance(failure, StoreError)
            raise failure from None
        self._has_answered = True
        return found

    def _failure(self, error: Exception, where: str) -> Exception:
        cause, code, status = _cause(error), _code(error), _status(error)
        if cause is _NO_CREDENTIALS:  # that was an answer of another service
            return self._unanswered(cause, cause.told, where)
        if code in ("NoSuchBucket", "ContainerNotFound"):
            return self._no_bucket()
        match error:
            case FileNotFoundError():
                return FileNotFoundError(2, "there is no such object", where)
            case exceptions.AlreadyExistsError() | exceptions.PreconditionError():
                return ConditionError()
            case exceptions.NotSupportedError():
                return OSError(ENOTSUP, "the object store cannot do what is asked", where)
            case exceptions.PermissionDeniedError() | exceptions.UnauthenticatedError():
                return _refused(code or status, where)
        if code in _REFUSED or (400 <= int(status or 0) < 500 and not _is_passing(code, status)):
            return _refused(code or status, where)
        return self._unanswered(cause, code or (f"status {status}" if status else ""), where)

    def _unanswered(self, cause: _Cause, why: str, where: str) -> StoreError:
        since = self._asked_since or 0.0
        is_late = cause.is_lasting or self.steady() - since > _FIRST_S
        kind = DeniedError if is_late and not self._has_answered else UnansweredError
        return kind(None, f"no answer ({why or cause.told})", where)

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
    "AuthorizationHeaderMalformed": "the region is another: see aws_region",
    "PermanentRedirect": "the bucket is in another region: see aws_region",
    "InvalidBucketName": "no bucket can have this name",
}


def _refused(how: str, where: str) -> DeniedError:
    """`how` is what the store calls it, or the status of its answer."""
    rights = "the credentials are missing, wrong, or may not do it"
    other = f"it answers {how}" if how not in ("", "401", "403") else rights
    return DeniedError(None, f"the object store refuses it: {_REFUSED.get(how, other)}", where)


def _is_passing(code: str, status: str) -> bool:
    """Whether an answer that blames the request means: try again."""
    return status in ("408", "409", "425", "429") or code in ("RequestTimeout", "IncompleteBody")


def _code(error: BaseException) -> str:
    """What the store calls an error; its text may hold secrets."""
    found = re.search(r"<Code>\s*(\w{1,60})\s*</Code>", str(error))
    return found[1] if found else ""


def _status(error: BaseException) -> str:
    """The status of an answer, if there was one."""
    found = re.search(r"\bstatus code: ([1-5]\d\d)\b", str(error))
    return found[1] if found else ""


@dataclass(frozen=True)
class _Cause:
    """Why there is no answer, without repeating the error's text."""

    told: str
    is_lasting: bool = False
    """Whether it stays so, if there has been no answer before."""


_NO_CREDENTIALS = _Cause(
    "no credentials were found: not in [warehouse.options], not in the environment", True
)
_CAUSES = {
    r"://(169\.254\.(169\.254|170\.)|metadata\.google)|token request": _NO_CREDENTIALS,
    r"BadScheme": _Cause('its address begins with http: then allow_http has to be "true"', True),
    r"dns error": _Cause("its host is not known", True),
    r"InvalidCertificate": _Cause("its certificate is not trusted", True),
    r"InvalidContentType": _Cause("it does not speak TLS: its address may begin with http", True),
    r"ConnectionRefused": _Cause("the connection was refused"),
    r"kind: Time(d)?[oO]ut|TimedOut": _Cause("it took too long"),
    r"ConnectionReset|IncompleteMessage|kind: Interrupted": _Cause("the connection was broken off"),
    r"kind: Connect": _Cause("no connection"),
    r"(?i)redirect": _Cause("the bucket is in another region: see aws_region", True),
    r"(?i)missing": _Cause("something is missing in its configuration", True),
}


def _cause(error: BaseException) -> _Cause:
    text = str(error)
    found = (cause for pattern, cause in _CAUSES.items() if re.search(pattern, text))
    return next(found, _Cause(type(error).__name__))


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
