"""A warehouse to try things on."""

from pathlib import Path

import pytest

from headwater.warehouse.warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse", durable=False)
