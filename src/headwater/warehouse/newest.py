"""What can be seen of a view at once, without Spark: some rows, those that changed last first."""

from __future__ import annotations

from headwater.warehouse.scanning import LeftToSparkError, Scan, plain_scan
from headwater.warehouse.view_table import ViewTable


def scanned(table: ViewTable, version: int | None) -> tuple[Scan, str]:
    """What is seen of a view, and why that is not its newest state, if it is not."""
    try:
        scan, note = table.scan(version), ""
    except LeftToSparkError as error:
        if version is not None:
            raise
        scan, note = plain_scan(table.plain_state()), f"{error.message} This is its plain table: "
    newest = table.latest().number
    if version is None and scan.number < newest:
        return scan, f"{note}the newest version is {newest}, and 'headwater status' tells more"
    return scan, ""


def first_rows(scan: Scan, most: int) -> list[tuple[object, ...]]:
    """So many rows, or all; no more is read than is needed."""
    found: list[tuple[object, ...]] = []
    for table in scan.tables():
        some = table.slice(0, most - len(found))
        found += zip(*(column.to_pylist() for column in some.columns), strict=True)
        if len(found) >= most:
            break
    return found
