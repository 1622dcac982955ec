"""A project's settings: the typed model of `headwater.toml`, and its mistakes in words.

Texts may name environment variables as `${NAME}`, so that secrets stay out of files. No value
is ever printed in an error, since it may be a secret; the file and the key are.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from headwater.errors import HeadwaterError, InputError, SeveralError, SourceError, one_of
from headwater.frames.small import THRESHOLD
from headwater.project.setting_values import (
    Address,
    Duration,
    Every,
    Master,
    SparkOwn,
    WarehousePath,
    address_of,
    did_you_mean,
    is_loopback,
)
from headwater.project.variables import with_variables
from headwater.reading import as_text, read_plain
from headwater.sources.kinds import kind_of, known_kinds
from headwater.sources.settings import LocalPath, SourceSettings, WholeNumber
from headwater.storage.location import Location
from headwater.storage.opening import opened

FILE = "headwater.toml"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_Model = TypeVar("_Model", bound=BaseModel)

# The model


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True
    )


class WarehouseSettings(_Section):
    """Where views are kept, and for how long their past."""

    path: Annotated[
        WarehousePath,
        Field(
            description="A folder, relative to the project, or a place in an object store: "
            "`s3://bucket/folder`, `gs://...`, `abfss://...`."
        ),
    ] = Path("warehouse")
    options: Annotated[
        dict[str, str],
        Field(
            description="Options of the object store, such as `aws_endpoint` or `aws_region`; "
            "left out, the environment's. Secrets as `${NAME}`.",
            repr=False,
        ),
    ] = {}
    retention: Annotated[
        Duration,
        Field(description="How long the change log and old versions of views are kept."),
    ] = "1 day"  # type: ignore[assignment]  # read as a duration, as what the user writes is
    changes_retention: Annotated[
        Duration,
        Field(
            description="How long a table of changes (WITH CHANGES) tells each change; earlier "
            "ones are added up."
        ),
    ] = "30 days"  # type: ignore[assignment]  # read as a duration, as what the user writes is
    publish_every: Annotated[
        Duration,
        Field(description="How often a view's plain table is renewed, unless the view says so."),
    ] = "1 minute"  # type: ignore[assignment]  # read as a duration, as what the user writes is

    readers: Annotated[
        Literal["private", "group", "public"],
        Field(
            description="Who may read the views: the user that runs Headwater, its group, or "
            "everybody. Headwater's own files are never anybody else's."
        ),
    ] = "private"


class SparkSettings(_Section):
    """How Spark runs."""

    master: Annotated[Master, Field(description="Where Spark runs: `local[*]`, `spark://...`.")] = (
        "local[*]"
    )
    engine: Annotated[
        Literal["auto", "spark"],
        Field(description="`auto` does small work in memory, `spark` none."),
    ] = "auto"
    threshold: Annotated[
        Annotated[WholeNumber, Field(ge=0)] | None,
        Field(description="From how many rows on `auto` uses Spark; left out, a measured default."),
    ] = None
    settings: Annotated[
        SparkOwn,
        WarehousePath,
        Field(
            description="Settings of Spark's own, such as `spark.sql.shuffle.partitions`.",
            repr=False,
        ),
    ] = {}

    @property
    def most_in_memory(self) -> int:
        """Up to how many rows `auto` works in memory."""
        return THRESHOLD if self.threshold is None else self.threshold

    @property
    def spark_from(self) -> int:
        """Changes of more rows are worked on by Spark."""
        return 0 if self.engine == "spark" else self.most_in_memory


class RunSettings(_Section):
    """How views are maintained."""

    backlog: Annotated[
        WholeNumber,
        Field(
            gt=0,
            description="How many transactions may wait for a view before its sources are "
            "slowed down.",
        ),
    ] = 10_000
    batch: Annotated[
        WholeNumber,
        Field(
            gt=0,
            description="How many waiting transactions are taken in together where the level "
            "allows it.",
        ),
    ] = 1000
    in_work: Annotated[
        WholeNumber,
        Field(gt=0, description="How many transactions are in work at once for a COMPLETE view."),
    ] = 4
    gaps: Annotated[
        Literal["reload", "stop"],
        Field(
            description="What a view does that meets a gap in a source's log, such as a TRUNCATE: "
            "it is loaded anew by itself (COMPLETE views never are), or stops."
        ),
    ] = "reload"


class GlobalSettings(_Section):
    """How transactions across databases are shown."""

    wait: Annotated[
        Duration,
        Field(
            description="How long a part of a global transaction waits for the others before a "
            "view, which stands still for that."
        ),
    ] = "60 seconds"  # type: ignore[assignment]  # read as a duration, as what the user writes is
    late: Annotated[
        Literal["release", "stop"],
        Field(
            description="What happens then: the part is shown by itself, and the view says so; or "
            "the view stops."
        ),
    ] = "release"


class NodesSettings(_Section):
    """Where a runner meets the nodes that are processes of their own (`headwater node`)."""

    listen: Annotated[
        Address,
        Field(
            description="Where the runner listens for nodes. Other addresses than those of this "
            "machine itself need a secret, or certificates."
        ),
    ] = "127.0.0.1:7440"
    connect: Annotated[
        Address | None,
        Field(description="Where nodes find the runner, if that is not where it listens."),
    ] = None
    secret: Annotated[
        SecretStr | None,
        Field(
            min_length=16,
            description="What the runner and its nodes know each other by, such as "
            "`${NODES_SECRET}`; it is never sent. Left out, and on one machine: a key in the "
            "warehouse.",
        ),
    ] = None
    certificate: Annotated[
        LocalPath | None,
        Field(description="For TLS: this side's certificate (PEM), relative to the project."),
    ] = None
    key: Annotated[LocalPath | None, Field(description="For TLS: its private key.")] = None
    authorities: Annotated[
        LocalPath | None,
        Field(description="For TLS: who signs the certificates of the other side."),
    ] = None

    @model_validator(mode="after")
    def _are_safe(self) -> NodesSettings:
        tls = [self.certificate, self.key, self.authorities]
        if any(tls) and not all(tls):
            raise ValueError("TLS needs certificate, key and authorities, all three")
        for address in (self.listen, self.connect or self.listen):
            if not (is_loopback(address_of(address)[0]) or self.secret or all(tls)):
                raise ValueError(
                    "an address of another machine needs a secret, or certificate, key and "
                    "authorities: anybody could connect otherwise"
                )
        return self


class ShareSettings(_Section):
    """What the runner publishes by itself, for other nodes."""

    publish: Annotated[
        StrictBool,
        Field(description="Whether the runner publishes what views do, as they commit."),
    ] = False
    folder: Annotated[
        LocalPath,
        Field(description="The folder of the node's objects, relative to the project."),
    ] = Path("share")
    node: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Field(
            description="The node's name, for when it is made; left out, that of the project's "
            "folder."
        ),
    ] = None
    system: Annotated[
        str,
        Field(min_length=1, description="The name of the system of nodes, for when it is made."),
    ] = "shared"
    every: Annotated[
        Every,
        Field(
            description="How often something is published: a duration, or `commit` for whenever a "
            "view has committed. Publishing takes a fifth of the time at most."
        ),
    ] = "10 seconds"  # type: ignore[assignment]  # read as a duration, as what the user writes is
    views: Annotated[
        list[str],
        Field(description="Which views are published; `*` for all."),
    ] = ["*"]
    boosters: Annotated[
        list[str] | None,
        Field(
            description="For which views boosters are published, `*` for all; left out, as the "
            "node's policy has it."
        ),
    ] = None
    granularity: Annotated[
        Literal["run", "transaction"] | None,
        Field(
            description="One updategram for each publication (`run`), or one for each transaction; "
            "left out, as the node's policy has it."
        ),
    ] = None
    retention: Annotated[
        Duration,
        Field(
            description="How long the warehouse keeps what is not published yet, where that is "
            "longer than its own `retention`. After that publishing begins anew, with contents."
        ),
    ] = "7 days"  # type: ignore[assignment]  # read as a duration, as what the user writes is

    def publishes(self, view: str) -> bool:
        return "*" in self.views or view in self.views


class Settings(_Section):
    """All of `headwater.toml`."""

    warehouse: WarehouseSettings = WarehouseSettings()
    spark: SparkSettings = SparkSettings()
    run: RunSettings = RunSettings()
    across: Annotated[GlobalSettings, Field(alias="global")] = GlobalSettings()
    nodes: NodesSettings = NodesSettings()
    share: ShareSettings = ShareSettings()
    sources: dict[str, SourceSettings] = {}


SECTIONS: dict[str, type[BaseModel]] = {
    "warehouse": WarehouseSettings,
    "spark": SparkSettings,
    "run": RunSettings,
    "global": GlobalSettings,
    "nodes": NodesSettings,
    "share": ShareSettings,
}
Document = Mapping[str, Any]

# Reading


def read_document(path: Path) -> Document:
    """The file as tables and values, not yet looked at."""
    try:
        return tomllib.loads(as_text(read_plain(path)))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}.",
            "Go to a project's folder or name it with --project; headwater init makes one.",
        ) from None
    except ValueError as error:
        raise InputError(f"{path}: is not valid TOML: {error}.", "Correct it there.") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply.", "Correct it there.") from None


class Problems(list[InputError]):
    """Mistakes that are collected, so that the user hears of all of them at once."""

    def __init__(self, problems: Iterable[InputError] = ()) -> None:
        super().__init__(problems)
        self.of: dict[str, list[InputError]] = {}
        """Those of them that are of one view, by its name."""

    @contextmanager
    def collecting(self, of: str = "") -> Iterator[None]:
        """A mistake inside ends the block and is kept, as one of that view."""
        before = len(self)
        try:
            yield
        except ProjectError as error:
            self.extend(error.problems)
        except InputError as error:
            self.append(error)
        if of and len(self) > before:
            self.of.setdefault(of, []).extend(self[before:])

    def raise_any(self) -> None:
        if len(self) == 1:
            raise self[0]
        if self:
            raise ProjectError(self)


class ProjectError(InputError):
    """Several mistakes in a project, one a line."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def together(problems: Sequence[HeadwaterError]) -> HeadwaterError:
    """What tells some problems, of which there is at least one; by whose fault they are."""
    sources = [each for each in problems if isinstance(each, SourceError)]
    mistakes = [each for each in problems if isinstance(each, InputError)]
    if len(sources) == len(problems):
        return one_of(sources)
    if len(mistakes) == len(problems):
        return mistakes[0] if len(mistakes) == 1 else ProjectError(mistakes)
    return problems[0] if len(problems) == 1 else SeveralError(problems)


def read_settings(path: Path, document: Document, problems: Problems) -> Settings:
    """The settings; what is wrong in them is added to the problems and left out."""
    sections: dict[str, Any] = {}
    for name, section in document.items():
        if name in SECTIONS:
            with problems.collecting():
                sections[name] = _valid(SECTIONS[name], section, f"{path}: {name}")
        elif name != "sources":
            problems.append(_unknown(f"{path}: {name}", name, [*SECTIONS, "sources"]))
    sources: dict[str, SourceSettings] = {}
    with problems.collecting():
        for name in _source_tables(path, document):
            with problems.collecting():
                sources[name] = source_settings(path, document, name)
    problems += _alike(path, sources)
    return Settings(**sections, sources=sources)


def warehouse_of(folder: Path, settings: WarehouseSettings) -> Location:
    """Where the warehouse of a project in a folder is."""
    return opened(settings.path, folder, settings.options)


def warehouse_in(path: Path, document: Document) -> Location:
    """Where the warehouse is; nothing else is looked at."""
    found = document.get("warehouse", {})
    told = found if isinstance(found, dict) else {}
    chosen = {key: told[key] for key in ("path", "options") if key in told}
    return warehouse_of(path.parent, _valid(WarehouseSettings, chosen, f"{path}: warehouse"))


def warehouse_of_project(folder: Path) -> Location:
    """The warehouse of a project; nothing else of its files is looked at."""
    path = folder / FILE
    return warehouse_in(path, read_document(path))


def nodes_settings(path: Path, document: Document) -> NodesSettings:
    """Where nodes meet the runner; nothing else is looked at."""
    return _valid(NodesSettings, document.get("nodes", {}), f"{path}: nodes")


def file_mask(folder: Path) -> int:
    """Which rights new files of a project are not to give; the safest where that is not clear."""
    masks = {"group": 0o027, "public": 0o022}
    try:
        found = read_document(folder / FILE).get("warehouse")
    except InputError:
        found = None
    readers = found.get("readers") if isinstance(found, dict) else None
    return masks.get(readers, 0o077) if isinstance(readers, str) else 0o077


def source_names(folder: Path) -> list[str]:
    """The sources of a project; whether their settings are right is not looked at."""
    path = folder / FILE
    return list(_source_tables(path, read_document(path)))


def source_settings(path: Path, document: Document, name: str) -> SourceSettings:
    """The settings of one source; those of the others are not looked at."""
    tables = _source_tables(path, document)
    if name not in tables:
        raise InputError(
            f"{path}: there is no source '{name}'.",
            f"{did_you_mean(name, tables)}There are: {', '.join(tables) or 'none'}.",
        )
    place = f"{path}: sources.{name}"
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{place}: cannot be the name of a source.",
            "Use letters, digits and underscores, a letter first.",
        )
    table = _table(tables[name], place)
    return _valid(_kind(table, place), table, place)


def _kind(table: Mapping[str, Any], place: str) -> type[SourceSettings]:
    """The model of a source's kind, which its table has to name."""
    if "kind" not in table and (close := get_close_matches("kind", table, 1)):
        raise InputError(f"{place}.{close[0]}: there is no such setting.", "Did you mean 'kind'?")
    kind = with_variables(table.get("kind"), f"{place}.kind")
    if isinstance(kind, str) and (found := kind_of(kind)) is not None:
        return found
    meant = did_you_mean(kind, known_kinds()) if isinstance(kind, str) else ""
    hint = meant.strip() or f"The kinds are: {', '.join(known_kinds())}."
    raise InputError(f"{place}.kind: there is no such kind of source.", hint)


def _source_tables(path: Path, document: Document) -> dict[str, Any]:
    tables = document.get("sources", {})
    if not isinstance(tables, dict):
        raise InputError(f"{path}: sources: must hold tables.", "Write [sources.NAME].")
    return tables


def _alike(path: Path, names: Iterable[str]) -> list[InputError]:
    """Sources that differ only in case: views would not know which is meant."""
    seen: dict[str, str] = {}
    problems = []
    for name in names:
        if (first := seen.setdefault(name.lower(), name)) != name:
            problems.append(
                InputError(
                    f"{path}: sources.{name}: differs from sources.{first} only in case.",
                    "Give one of them another name.",
                )
            )
    return problems


# Mistakes


def _table(found: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise InputError(f"{place}: must be a table.", f"Write [{place.rpartition(': ')[2]}].")
    return found


def _valid(model: type[_Model], found: Any, place: str) -> _Model:
    table = _table(found, place)
    try:
        return model.model_validate(with_variables(table, place))
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
    problems = Problems(_in_words(each, place, model) for each in _causes(found, table, model))
    problems.raise_any()
    raise AssertionError("a table that is not valid has a mistake")


def _causes(
    found: Sequence[ErrorDetails], table: Mapping[str, Any], model: type[BaseModel]
) -> list[ErrorDetails]:
    """Every mistake, the unknown keys first, without the keys that they stand for."""
    known = list(model.model_fields)
    unknown = [name for name in table if name not in known]
    meant = {close for name in unknown for close in get_close_matches(name, known, 1)}
    kept = [e for e in found if not (e["type"] == "missing" and e["loc"][-1] in meant)]
    return sorted(kept, key=lambda each: each["type"] != "extra_forbidden")


def _in_words(first: ErrorDetails, place: str, model: type[BaseModel]) -> InputError:
    """One mistake as a sentence; never the value, which may be a secret."""
    loc = [str(part) for part in first["loc"]]
    key = ".".join([place, *loc])
    if first["type"] == "extra_forbidden":
        return _unknown(key, loc[-1], list(model.model_fields))
    if first["type"] == "missing":
        meaning = model.model_fields[loc[-1]].description if len(loc) == 1 else None
        return InputError(f"{key}: is missing.", meaning or "")
    if first["type"] == "too_short" and first["ctx"]["field_type"] == "Value":  # a secret text
        least = first["ctx"]["min_length"]
        return InputError(f"{key}: is too short.", f"It needs at least {least} characters.")
    if first["type"] == "value_error":
        words = str(first["ctx"]["error"])
        return InputError(f"{key}: {words}{'' if words.endswith('?') else '.'}")
    described = model.model_fields[loc[0]].description if loc else None
    message = first["msg"].removeprefix("Input ")
    return InputError(f"{key}: {message[:1].lower()}{message[1:]}.", described or "")


def _unknown(place: str, key: str, known: Sequence[str]) -> InputError:
    return InputError(
        f"{place}: there is no such setting.",
        f"{did_you_mean(key, known)}The settings here are: {', '.join(known)}.",
    )
