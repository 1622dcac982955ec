"""The settings of Delta tables as a source, as `headwater.toml` has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from headwater.sources.contract import Source
from headwater.sources.settings import KeptSettings, LocalPath, Seconds


class DeltaSettings(KeptSettings):
    """Delta tables in one folder, or a Headwater warehouse's views."""

    kind: Annotated[Literal["delta"], Field(description="The kind of database.")]
    path: Annotated[
        LocalPath,
        Field(
            description="The folder that the tables are in, relative to the project; of another "
            "project, its warehouse."
        ),
    ]
    look_every_s: Annotated[
        Seconds, Field(description="How often, in seconds, it is looked for new versions.")
    ] = 0.2

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        from headwater.sources.delta.source import DeltaSource

        return DeltaSource(
            name,
            project / self.path,
            self.listed,
            self.keys,
            place=self.place_of(name),
            look_every_s=self.look_every_s,
        )
