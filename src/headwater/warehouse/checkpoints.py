"""Checkpoints, as every Delta reader wants them: written by delta-rs, in a folder of its own.

It is given a table with one entry that says what the version says, so it reads no log of ours, and
what it writes is put where the table is, on whatever storage. Choices: files that were removed are
not in it. Others need them only to delete what is left of them, which Headwater does itself.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from deltalake import DeltaTable

from headwater.errors import EngineError
from headwater.warehouse.table_versions import TableVersion

_FIRST = f"{0:020}"
_HINT = "_last_checkpoint"


def checkpoint_of(snapshot: TableVersion) -> tuple[bytes, bytes]:
    """A checkpoint that says what a version does, and the hint at it."""
    with tempfile.TemporaryDirectory(prefix="headwater-checkpoint-") as folder:
        log = Path(folder, "_delta_log")
        log.mkdir()
        lines = (json.dumps(action) for action in snapshot.actions())
        (log / f"{_FIRST}.json").write_text("\n".join(lines))
        try:
            DeltaTable(folder).create_checkpoint()
            content = (log / f"{_FIRST}.checkpoint.parquet").read_bytes()
            hint = json.loads((log / _HINT).read_bytes())
        except Exception as error:  # of delta-rs, under many names
            raise EngineError(
                f"No checkpoint of the table {snapshot.folder} could be written: {error}",
                "Look at the disk for temporary files; nothing was removed.",
            ) from error
    return content, json.dumps({**hint, "version": snapshot.version}).encode()
