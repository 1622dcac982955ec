"""What a runner says of a view that it cannot maintain."""

from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.pipeline.planning import plan_view
from tests.pipeline.small import Small

SELECT = "SELECT o.amount, c.name FROM shop.orders o JOIN crm.customers c ON c.name = o.note"


def test_a_key_that_a_view_does_not_look_at_is_told_as_one_that_can_be_kept(
    tmp_path: Path,
) -> None:
    small = Small(tmp_path, {"v": f"CREATE MATERIALIZED VIEW v USING t-strobe AS {SELECT}"})
    kept = r"missing: orders \(id\), customers \(id\)\. Say KEEP KEYS"
    with pytest.raises(InputError, match=kept):
        plan_view(small.project, small.warehouse, "v", small.project.relations(), anew=True)
