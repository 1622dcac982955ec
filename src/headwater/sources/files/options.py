"""How the files of a source are laid out and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.algebra.schema import Schema
from headwater.sources.files.formats import Format
from headwater.sources.files.layouts import Complete, Layout


@dataclass(frozen=True)
class FilesOptions:
    """What the settings of a source say of its files."""

    layout: Layout = "current"
    complete: Complete = "still"
    marker: str = "_SUCCESS"
    still_s: float = 1.0
    format: Format = field(default_factory=Format)
    columns: Mapping[str, Schema] = field(default_factory=dict)
    """Those that are declared."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Where relations are, if not where their names say."""
    operation: str = "op"
    numbered: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether files say what changed, and not what there is."""
        return self.layout == "changes"
