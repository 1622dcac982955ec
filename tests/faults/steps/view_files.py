"""What users do with view files."""

from __future__ import annotations

from random import Random

from tests.faults.steps.action import action, change_something
from tests.faults.world import World


@action(2)
def change_a_view(world: World, random: Random) -> None:
    """Another SELECT under the same name: it asks for a reload."""
    name = random.choice(list(world.views))
    world.write_view(world.new_view(random, name))
    world.may_stop(f"view {name} was changed")


@action(1)
def change_a_level(world: World, random: Random) -> None:
    view = random.choice(list(world.views.values()))
    world.write_view(world.with_level(random, view))


@action(2)
def add_a_view(world: World, random: Random) -> bool | None:
    name = f"v{random.randint(4, 9)}"
    if name in world.views or name in world.warehouse.view_names() or len(world.views) > 3:
        return False
    world.write_view(world.new_view(random, name))
    world.may_stop(f"view {name} may use columns that are not logged yet")
    return None


@action(2)
def remove_a_view(world: World, random: Random) -> bool | None:
    """Its file goes, its tables stay, and other views go on."""
    if len(world.views) < 2:
        return False
    world.remove_view(random.choice(list(world.views)))
    return None


@action(2)
def bring_a_view_back(world: World, random: Random) -> bool | None:
    """The file comes back, and the view goes on where it was, as if its file had never gone."""
    if not world.removed:
        if len(world.views) < 2 or not world.is_sound:
            return False
        world.remove_view(random.choice(list(world.views)))
        change_something(world, random, 4)
        world.run()
        change_something(world, random, 4)
    name = random.choice(list(world.removed))
    view, breaks = world.removed.pop(name)
    world.write_view(view)
    if breaks != world.breaks:
        world.may_stop(f"other things have changed since {name} went")
    return None
