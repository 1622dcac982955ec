"""Bytes that become others on the disk: whoever reads them is refused, or reads what was there."""

from random import Random

import pytest

from headwater.simulation.damage import REFUSED, damaged, shown
from headwater.simulation.mishaps import Settings
from headwater.simulation.world import World


@pytest.mark.parametrize("seed", [2, 3, 16])
def test_a_damaged_byte_is_told_or_changes_nothing(seed: int) -> None:
    world = World(Settings.of(seed))
    world.run()
    views, sources = [view.name for view in world.views], list(world.databases)
    before, random, told = shown(world.disk, views, sources), Random(seed), 0
    assert REFUSED not in before.values()
    for _ in range(50):
        path, disk = damaged(world.disk, random)
        after = shown(disk, views, sources)
        if path.name == "notes.json":  # what is noted of quiet views may be lost: they are less far
            after = {name: _without_vector(found) for name, found in after.items()}
            told_before = {name: _without_vector(found) for name, found in before.items()}
        else:
            told_before = dict(before)
        other = [
            name for name, found in after.items() if found not in (REFUSED, told_before.get(name))
        ]
        assert not other, f"{path} was damaged, and {other} is another"
        told += REFUSED in after.values()
    assert told


def _without_vector(found: object) -> object:
    """Of a view that was read by its commits: its number, definition and rows."""
    match found:
        case (number, definition, _, rows):
            return number, definition, rows
    return found
