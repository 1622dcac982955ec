"""Headwater keeps materialized views consistent with many autonomous, changing sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.pipeline.project import Project as Project

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`headwater.Project`, imported when it is first asked for, so that `headwater` is light."""
    if name == "Project":
        from headwater.pipeline.project import Project

        return Project
    raise AttributeError(f"module 'headwater' has no attribute '{name}'")
