"""Headwater keeps materialized views consistent with many autonomous, changing sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.version import VERSION

__all__ = ["Project", "register"]
__version__ = VERSION

if TYPE_CHECKING:
    from headwater.pipeline.open_project import OpenProject as Project
    from headwater.readers.registering import register


def __getattr__(name: str) -> object:
    """Imported when it is first asked for, so that `headwater` is light."""
    if name == "Project":
        from headwater.pipeline.open_project import OpenProject

        return OpenProject
    if name == "register":
        from headwater.readers.registering import register

        return register
    raise AttributeError(f"module 'headwater' has no attribute '{name}'")
