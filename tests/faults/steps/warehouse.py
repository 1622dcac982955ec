"""What disks and other people do to a warehouse, and to its sources."""

from __future__ import annotations

import shutil
from random import Random

from tests.faults.steps.action import action
from tests.faults.tally import Tally
from tests.faults.world import World


@action(2)
def lose_the_lease(world: World, random: Random) -> bool | None:
    """Somebody cleans up the warehouse's folder."""
    path = world.warehouse.internal / "lease.json"
    if not path.exists():
        return False
    if random.random() < 0.5:
        path.unlink()
    else:
        path.write_bytes(b"")
    return None


@action(1)
def tear_the_checkpoints(world: World, random: Random) -> bool | None:
    """What a power loss leaves of files that were not flushed."""
    found = False
    for path in world.warehouse.path.rglob("_delta_log/*"):
        if path.name == "_last_checkpoint" or path.name.endswith(".checkpoint.parquet"):
            path.write_bytes(b"")
            found = True
    return None if found else False


@action(1)
def lose_the_warehouse(world: World, random: Random) -> bool | None:
    if not world.warehouse.path.exists():
        return False
    shutil.rmtree(world.warehouse.path)
    world.may_stop("the warehouse was deleted")
    return None


@action(1)
def damage_the_change_log(world: World, random: Random) -> bool | None:
    """A byte of a record that is on disk is another."""
    folder = world.warehouse.changes.local
    files = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size > 40]
    if not files:
        return False
    path = random.choice(files)
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    world.may_stop("the change log was damaged", lasting=True)
    return None


@action(2)
def somebody_else(world: World, random: Random) -> None:
    """A colleague's clone of the project, with a warehouse of its own, over the same databases.

    It is refused, or its views are right; in either case nothing happens to ours.
    """
    if world.clone is None:
        folder = world.folder / "clone"
        shutil.copytree(world.folder / "views", folder / "views")
        shutil.copy(world.folder / "headwater.toml", folder)
        world.clone = World(folder, world.databases, dict(world.views), world.settings, Tally())
    clone = world.clone
    clone.may_stop("another owner was here first")
    for source in world.databases:
        clone.headwater("setup", source)
    clone.run()
    world.history += [f"clone: {line}" for line in clone.history]
