from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.lab.files import load_objects


def test_lowest_run_is_kept_and_replays_to_the_same_level(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    found = CliRunner().invoke(
        app, ["lab", "run", "eca-2", "-a", "conventional", "--keep", str(kept)]
    )
    assert found.exit_code == 0
    ((data, _),) = load_objects(kept)
    assert data["algorithm"] == "conventional"
    replayed = CliRunner().invoke(app, ["lab", "replay", str(kept)])
    assert "the view becomes ([1], [4], [4])" in replayed.output
