"""The forms of what lies in a warehouse: actions of Delta logs, records of change logs, own files.

Whoever can write to the folder may have put anything there. What does not have its form is
damaged, and is said to be before anything is made of it. Members that nobody reads are free.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from headwater.warehouse.columns import schema_from_delta

_Number = Annotated[int, Field(ge=0, lt=2**63)]
_Stamp = Annotated[int, Field(ge=-(2**63), lt=2**64)]
_Texts = list[str]


def has_form(form: TypeAdapter[Any], value: object) -> bool:
    try:
        form.validate_python(value)
    except (ValidationError, RecursionError):
        return False
    return True


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, alias_generator=to_camel)


# Delta logs


def _file_name(path: str) -> str:
    """A file of the table's own folder: no other is read, whatever a log says."""
    name = unquote(path)
    if not name or name in (".", "..") or set("/\0") & set(name):
        raise ValueError("is not the name of a file")
    return path


def _schema(text: str) -> str:
    try:
        schema_from_delta(text)
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError("is not a schema") from error
    return text


class _Bounds(_Form):
    commit: Annotated[_Number | None, Field(alias="_commit")] = None


class _Statistics(_Form):
    num_records: _Number | None = None
    min_values: _Bounds = _Bounds()
    max_values: _Bounds = _Bounds()


class _Add(_Form):
    path: Annotated[str, AfterValidator(_file_name)]
    size: _Number
    stats: Json[_Statistics] | None = None


class _Remove(_Form):
    path: str


class _Transaction(_Form):
    app_id: str
    version: _Number


class _MetaData(_Form):
    schema_string: Annotated[str, AfterValidator(_schema)]
    description: str | None = None


class _Protocol(_Form):
    min_reader_version: _Number = 1
    reader_features: _Texts | None = None
    writer_features: _Texts | None = None


class _Base(_Form):
    plain: Annotated[int, Field(ge=-1, lt=2**63)]
    number: _Number


class _Reached(_Form):
    number: _Number
    position: dict[str, Any] | None
    also: list[_Number]


class _Numbered(_Form):
    """What a commit with a number says of itself."""

    view: str
    number: _Number
    kind: str
    runner: str
    vector: Annotated[dict[str, _Reached], Field(min_length=1)]
    added: dict[str, list[Annotated[list[_Number], Field(min_length=2, max_length=2)]]]
    algorithm: str
    level: str
    rows: _Number
    base: _Base
    plain: list[_Action] = []
    split: _Texts = []


_MAINTENANCE = ("clean", "compact", "store")
"""The kinds of commits that may have no number."""


class _Maintenance(_Form):
    """What a commit says that changes files, and not the view."""

    base: _Base | None = None


def _by_number(value: object) -> object:
    """Which of both it is, is told by the number, and by the kind, so that none can be missing."""
    if not isinstance(value, dict):
        return None if value is None else _Maintenance.model_validate(value)
    is_numbered = "number" in value or value.get("kind") not in _MAINTENANCE
    return (_Numbered if is_numbered else _Maintenance).model_validate(value)


class _CommitInfo(_Form):
    timestamp: _Number = 0
    headwater: Annotated[_Numbered | _Maintenance | None, BeforeValidator(_by_number)] = None


class _Action(_Form):
    add: _Add | None = None
    remove: _Remove | None = None
    txn: _Transaction | None = None
    meta_data: _MetaData | None = None
    protocol: _Protocol | None = None
    commit_info: _CommitInfo | None = None


class _Description(_Form):
    definition: dict[str, Any]
    sources: _Texts
    key: _Texts = []


class _DescriptionWithTop(_Form):
    definition_with_top: Annotated[dict[str, Any], Field(alias="definition_with_top")]
    sources: _Texts


class _DescriptionOfGroup(_Form):
    definition_of_group: Annotated[dict[str, Any], Field(alias="definition_of_group")]
    sources: _Texts


ACTIONS: TypeAdapter[Any] = TypeAdapter(list[_Action])
"""An entry of a Delta log, or a checkpoint."""
DESCRIPTION: TypeAdapter[Any] = TypeAdapter(
    _Description | _DescriptionWithTop | _DescriptionOfGroup
)
"""What the metadata of a signed log tells of its view."""

# Change logs


class _Position(_Form):
    position: dict[str, Any]


class _Break(_Position):
    number: _Number
    reason: str
    stamp: _Stamp | None
    columns: dict[str, _Texts | None] | None


_Changed = Annotated[tuple[str, list[Any], _Number], Strict(False)]
"""The columns are a schema's, which says itself when it is none."""


_Tag = Annotated[tuple[str, _Number, str], Strict(False)]


class _Change(_Position):
    number: _Number
    id: str
    stamp: _Stamp
    relations: list[_Changed]
    others: list[_Stamp] = []
    tags: list[_Tag] = []
    touched: _Texts = []


POSITION: TypeAdapter[Any] = TypeAdapter(_Position)
BREAK: TypeAdapter[Any] = TypeAdapter(_Break)
CHANGE: TypeAdapter[Any] = TypeAdapter(_Change)

# Own files


class _Lease(_Form):
    epoch: _Number
    runner: str
    host: str
    pid: Annotated[int, Field(ge=1, lt=2**31)]
    renewed: Annotated[float, Field(allow_inf_nan=False)]


class _Note(_Form):
    number: _Number
    since: dict[str, _Number]
    vector: dict[str, _Reached]


class _Notes(_Form):
    views: dict[str, _Note]


LEASE: TypeAdapter[Any] = TypeAdapter(_Lease)
NOTES: TypeAdapter[Any] = TypeAdapter(_Notes)
