"""Commands that are imported when they are called, so that none waits for what others need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
import typer.core
import typer.main

from headwater.terminal.failures import Commands

BARE = {"--serve": "127.0.0.1:7460"}
"""Options that may stand without a value, with the one that they then have."""


class WithBareOptions(typer.core.TyperCommand):
    """A command that gives options which stand bare their values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for each in self.params for name in each.opts}
        for at, word in enumerate(args):
            if word == "--":
                break
            if word in BARE and word in known and (at + 1 == len(args) or args[at + 1][:1] == "-"):
                args[at] = f"{word}={BARE[word]}"
        return super().parse_args(ctx, args)


class Later(NamedTuple):
    """A command, or a group of some, that is not imported yet."""

    where: str
    """`module:attribute`, from `headwater` on: a function, or a Typer of several."""
    about: str
    """The line about it among others."""

    def load(self, name: str) -> Any:
        module, _, attribute = self.where.partition(":")
        found = getattr(import_module(f"headwater.{module}"), attribute)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
        else:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(cls=WithBareOptions)(found)
            command = typer.main.get_command(app)
        command.name = name
        return command


class _Loading(Mapping[str, Any]):
    """Each is loaded once, when somebody asks for it."""

    def __init__(self, listed: Mapping[str, Later]) -> None:
        self.listed = listed
        self.loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            self.loaded[name] = self.listed[name].load(name)
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)


def commands_of(listed: Mapping[str, Later]) -> type[Commands]:
    """A kind of group that has these commands, and tells of them without loading any."""

    class LaterCommands(Commands):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.commands = _Loading(listed)  # type: ignore[assignment]  # only read from

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, later.about) for name, later in listed.items()])

    return LaterCommands
