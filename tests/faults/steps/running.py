"""What operators do with the commands, and what becomes of runners."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tests.faults.commands import Child, FaultError
from tests.faults.oracle import difference
from tests.faults.steps.action import ACTIONS, action, change_something
from tests.faults.world import World

STATUS_S = 60.0
"""How long a runner may take to write down how it stands, on a busy machine."""


@action(14)
def run(world: World, random: Random) -> None:
    """`run --once`, and what it says is done, or left for later."""
    if not world.run() and random.random() < 0.5:
        world.settle(random)


@contextmanager
def _runner(world: World) -> Iterator[Child]:
    child = Child(world.folder, "run", "--json")
    try:
        yield child
    finally:
        child.kill()


def _work_beside(world: World, random: Random, child: Child, most: int) -> None:
    """Changes while a runner is at work, after it has begun."""
    child.wait_until(lambda: '"state"' in child.said, 20)
    for _ in range(random.randint(0, most)):
        change_something(world, random, 1)
        time.sleep(random.choice([0, 0, 0.01, 0.05]))


BESIDE = (
    *("write", "write", "write_much", "maintain_the_database", "truncate", "rebuild_a_table"),
    *("add_a_column", "drop_an_unused_column", "rename_an_unused_column", "add_an_index"),
    *("rename_a_used_column", "drop_and_add_a_used_column", "recompute_a_used_column"),
    *("disable_triggers_for_a_while", "load_as_a_replica", "drop_triggers"),
    *("leave_the_publication_for_a_while", "change_the_identity_for_a_while"),
    *("source_goes_away", "sources_come_back"),
)
"""What may also happen while a runner is at work."""


@action(5)
def administer_beside_a_runner(world: World, random: Random) -> bool | None:
    """A runner that sees it as it happens; it goes on, or gives up the views that it concerns."""
    if not _all_loaded(world) or not world.is_sound:
        return False
    with _runner(world) as child:
        _work_beside(world, random, child, 3)
        for name in random.choices(BESIDE, k=random.randint(1, 4)):
            world.note(f"---- {name}")
            ACTIONS[name].do(world, random)
            _work_beside(world, random, child, 3)
        _check_status(world, child)
        child.send(signal.SIGTERM)
        outcome = child.wait()
    world.note(f"{outcome.command} -> {outcome.code}: {outcome.said[-600:]}")
    if outcome.code and world.is_sound:
        raise FaultError(f"the runner failed, and nothing was wrong: {outcome.said}")
    return None


def _all_loaded(world: World) -> bool:
    return set(world.views) <= set(world.warehouse.view_names())


@action(4)
def run_for_a_while(world: World, random: Random) -> bool | None:
    """A runner at work under changes, told to stop."""
    if not _all_loaded(world):
        return False
    with _runner(world) as child:
        _work_beside(world, random, child, 20)
        _check_status(world, child)
        child.send(signal.SIGTERM)
        outcome = child.wait()
    world.note(f"{outcome.command} -> {outcome.code}: {outcome.said[-600:]}")
    if outcome.code and world.is_sound:
        raise FaultError(f"the runner failed, and nothing was wrong: {outcome.said}")
    return None


def _check_status(world: World, child: Child) -> None:
    """`status` tells of every view that a runner has given up."""
    stopped = child.stopped_views()

    def told() -> bool:
        outcome = world.headwater("status")
        return outcome.code == 1 and all(name in outcome.said for name in stopped)

    if stopped and not child.wait_until(told, STATUS_S) and child.process.is_alive():
        still = child.stopped_views()
        if stopped <= still:
            raise FaultError(f"status does not say that {', '.join(stopped)} has stopped")


@action(4)
def kill_the_runner(world: World, random: Random) -> bool | None:
    """A runner killed at any moment, also while it starts."""
    if not _all_loaded(world):
        return False
    with _runner(world) as child:
        if random.random() < 0.3:
            time.sleep(random.uniform(0, 0.3))
        else:
            _work_beside(world, random, child, 12)
        child.kill()
        child_said = child.said
    if "Traceback" in child_said:
        raise FaultError(f"the runner showed a traceback:\n{child_said}")
    return None


@action(2)
def replace_the_runner(world: World, random: Random) -> bool | None:
    """A runner stands still until another takes its place, and then wakes up."""
    if not _all_loaded(world) or not world.is_sound:
        return False
    with _runner(world) as child:
        _work_beside(world, random, child, 6)
        if not child.wait_until(lambda: (world.warehouse.internal / "status.json").exists(), 20):
            return False
        child.send(signal.SIGSTOP)
        _age_the_lease(world)
        world.may_stop("a runner stands still, perhaps with something locked")
        if not world.run():
            return None
        child.send(signal.SIGCONT)
        change_something(world, random, 3)
        outcome = child.wait()
    if outcome.code == 0:
        raise FaultError(f"a runner that was replaced says that all is well: {outcome.said}")
    return None


def _age_the_lease(world: World) -> None:
    """As if the runner had been silent for long."""
    path = world.warehouse.internal / "lease.json"
    lease = json.loads(path.read_text())
    path.write_text(json.dumps({**lease, "renewed": 0.0}))


@action(3)
def command_beside_a_runner(world: World, random: Random) -> bool | None:
    """A second runner is refused; other commands are carried out by the one that is there."""
    if not _all_loaded(world) or not world.is_sound:
        return False
    name = random.choice(list(world.views))
    with _runner(world) as child:
        _work_beside(world, random, child, 6)
        if not child.wait_until(lambda: (world.warehouse.internal / "status.json").exists(), 20):
            return False
        command = random.choice(["run", "reload", "fold", "status", "check"])
        if command == "run":
            if world.headwater("run", "--once").code == 0:
                raise FaultError("two runners worked on one warehouse")
        else:
            world.command(command, *([name] if command in ("reload", "fold") else []))
        change_something(world, random, 3)
        child.send(signal.SIGTERM)
        outcome = child.wait()
    if outcome.code:
        raise FaultError(f"the runner failed, and nothing was wrong: {outcome.said}")
    return None


@action(2)
def kill_a_command(world: World, random: Random) -> None:
    """A command that changes a view's tables, or a source, is killed on its way."""
    name, source = random.choice(list(world.views)), random.choice(list(world.databases))
    commands = [("reload", name), ("fold", name), ("setup", source), ("run", "--once")]
    child = Child(world.folder, *random.choice(commands))
    time.sleep(random.uniform(0, 1))
    child.kill()


@action(1)
def repair_a_source(world: World, random: Random) -> None:
    """For no reason: it sets up the source again and loads its views anew."""
    world.command("repair", random.choice(list(world.databases)))


@action(3)
def reload_a_view(world: World, random: Random) -> None:
    world.command("reload", random.choice(list(world.views)))


@action(2)
def drop_a_view(world: World, random: Random) -> bool | None:
    name = random.choice(list(world.views))
    if name not in world.warehouse.view_names():
        return False
    world.command("drop", name)
    return None


@action(2)
def fold_a_view(world: World, random: Random) -> bool | None:
    """The plain table then has what the view has."""
    name = random.choice(list(world.views))
    if name not in world.warehouse.view_names():
        return False
    if world.command("fold", name):
        wrong = difference(world.published(name), world.shown(name))
        if wrong:
            raise FaultError(f"the plain table of {name} is not the view: {wrong}")
    return None


@action(1)
def ask_for_the_status(world: World, random: Random) -> None:
    """Without a runner nothing is well, whatever else is said."""
    if world.headwater("status", "--json").code == 0:
        raise FaultError("status says that all is well, and no runner is at work")


@action(1)
def check_the_project(world: World, random: Random) -> None:
    world.command("check")


@action(1)
def set_up_again(world: World, random: Random) -> None:
    world.command("setup", random.choice(list(world.databases)))
