"""Which algorithm maintains a view, and why.

Databases commit transactions of several updates, each at one source, so what counts is what an
algorithm promises for the scenario `single-source-local`, or `source-local` if the view has several
sources.

Choices: `sweep` with batches for every level up to strong, since asking for less would not make
it cheaper; `pvm-cc` for complete, since it keeps several transactions in work and still shows
every state in order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS, Algorithm, make_hosted
from headwater.check.levels import Level, parse_level
from headwater.errors import InputError
from headwater.project.setting_values import did_you_mean
from headwater.project.settings import RunSettings
from headwater.protocol.managers import Need, ViewManager

PROVIDES: frozenset[Need] = frozenset(
    {
        Need.BY_KEY,
        Need.CONTENTS,
        Need.COPIES,
        Need.REPLACE,
        Need.EARLY,
        Need.IDLE,
        Need.MESSAGES,
    }
)
"""What the pipeline provides of what not every host does; the lab provides all of it."""
_OF_VIEW = frozenset({Need.ONE_SOURCE, Need.KEYS})
"""What a view has or has not, whoever maintains it. Managers refuse a view without its keys."""


@dataclass(frozen=True)
class Choice:
    """An algorithm for one view; `parameters` has those that are not left at their defaults."""

    algorithm: str
    parameters: Mapping[str, str]
    manager: ViewManager[Any]
    reason: str


class ForcedError(InputError):
    """USING asks for something that cannot be; `place` is the part of it that is wrong."""

    def __init__(self, place: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.place = place


def choose(
    view: View,
    level: Level,
    forced: str | None = None,
    parameters: Mapping[str, str] | None = None,
    run: RunSettings | None = None,
    keep_keys: bool = False,
) -> Choice:
    """The algorithm for a view at this level; ForcedError if the one forced will not do."""
    run = run or RunSettings()
    chosen, settings = resolve(level, forced, parameters or {}, run, view.sources)
    if unsure := chosen.unsure(view):
        raise ForcedError(
            "algorithm", f"{chosen.name} {unsure}.", _can_use(level, view.sources, view)
        )
    parts = [_why(level, forced, promised(chosen, settings, view.sources), settings)]
    if all(len(join.occurrences) == 1 for join in view.joins):
        parts.append("no join, so no source is asked anything")
    if len(view.sources) > 1 and level > Level.NONE:
        parts.append(f"transactions across databases: {global_promise(chosen)}")
    if keep_keys and Need.KEYS not in chosen.needs:
        parts.append("KEEP KEYS is not needed: it works without keys")
    if view.copies and Need.COPIES not in chosen.needs:
        parts.append(f"questions about {', '.join(view.copies)} alone are answered from copies")
    return Choice(
        chosen.name, settings, make_hosted(chosen, view, settings), "; ".join(parts) + "."
    )


def global_promise(chosen: Algorithm) -> str:
    """How a view shows global transactions whose parts are tagged."""
    return "whole" if chosen.joins_global else f"as parts, {chosen.promises['global']}"


def as_stored(
    view: View, forced: str | None, keep_keys: bool, copied: Collection[str] = ()
) -> View:
    """The view with what its algorithm has to have stored: rows, where it looks them up by key, the
    keys, where these may be kept out of sight, and copies of relations: all of them, or those that
    are asked for."""
    chosen = ALGORITHMS.get(forced or "")
    needs = chosen.needs if chosen is not None else frozenset()
    if Need.BY_KEY in needs:
        if keep_keys and Need.KEYS in needs:
            view = view.with_keys()
        view = view.with_rows()
    if Need.COPIES in needs:
        copied = view.joined
    return view.with_copies(copied)


def resolve(
    level: Level,
    forced: str | None,
    parameters: Mapping[str, str],
    run: RunSettings,
    sources: Collection[str],
) -> tuple[Algorithm, dict[str, str]]:
    """The algorithm and its parameters, for a view over these sources."""
    chosen = _forced(forced, sources, level) if forced else _default(level)
    _check_parameters(chosen, parameters)
    _check_needs(chosen, parameters)
    early = Need.EARLY in chosen.needs
    batch = str(run.batch) if level < Level.COMPLETE and not early else "1"
    ours = {"batch": batch, "p": str(run.in_work)}
    settings = {name: ours[name] for name in chosen.parameters if name in ours}
    settings.update(parameters)
    _check_promise(chosen, settings, level, sources)
    if early and (name := _lowering(settings)):
        raise ForcedError(
            f"parameter {name}",
            f"with {name} = {settings[name]} {chosen.name} would take a transaction that the view "
            "shows already together with one that it does not, after a crash.",
            f"Leave {name} out.",
        )
    return chosen, settings


def promised(chosen: Algorithm, settings: Mapping[str, str], sources: Collection[str]) -> Level:
    """What it keeps with these parameters, for a view over these sources."""
    scenario = "single-source-local" if len(sources) == 1 else "source-local"
    level = parse_level(chosen.promises[scenario])
    return min(level, Level.STRONG) if _lowering(settings) else level


def _lowering(settings: Mapping[str, str]) -> str | None:
    """The parameter that makes it show several transactions as one step, if one does."""
    if _batch(settings) > 1:
        return "batch"
    return "handle" if settings.get("handle") == "nested-sweep" else None


def usable(level: Level, sources: Collection[str]) -> list[str]:
    """The algorithms that USING may name for a view at this level, over these sources."""
    return [
        name
        for name, algorithm in ALGORITHMS.items()
        if not (_needs_no_level(algorithm, level) or _lacking(algorithm))
        and promised(algorithm, {}, sources) >= level
    ]


def _can_use(level: Level, sources: Collection[str], view: View | None = None) -> str:
    names = [n for n in usable(level, sources) if view is None or not ALGORITHMS[n].unsure(view)]
    return f"For {level} the view can use: {', '.join(names)}."


def _lacking(chosen: Algorithm, parameters: Mapping[str, str] | None = None) -> list[Need]:
    """What it needs and the pipeline does not provide."""
    needs = chosen.needs_with(parameters or {}) - {Need.SILENCE}
    return [need for need in Need if need in needs - _OF_VIEW - PROVIDES]


def _needs_no_level(chosen: Algorithm, level: Level) -> bool:
    """Whether it keeps no level on databases that never stand still, and one was asked for."""
    return Need.SILENCE in chosen.needs and level > Level.NONE


def _default(level: Level) -> Algorithm:
    return ALGORITHMS["sweep" if level < Level.COMPLETE else "pvm-cc"]


def _forced(name: str, sources: Collection[str], level: Level) -> Algorithm:
    can_use = f"The view can use: {', '.join(usable(Level.CONVERGENT, sources))}."
    if name not in ALGORITHMS:
        raise ForcedError(
            "algorithm",
            f"there is no algorithm '{name}'.",
            did_you_mean(name, ALGORITHMS) + can_use,
        )
    if lacks := _lacking(ALGORITHMS[name]):
        needs = ", and that ".join(need.value for need in lacks)
        raise ForcedError(
            "algorithm", f"{name} runs in the lab only: it needs that {needs}.", can_use
        )
    if _needs_no_level(ALGORITHMS[name], level):
        raise ForcedError(
            "algorithm",
            f"{name} keeps no level unless {Need.SILENCE.value}.",
            f"{can_use} To see what {name} does, write WITH NO CONSISTENCY.",
        )
    return ALGORITHMS[name]


def _check_parameters(chosen: Algorithm, parameters: Mapping[str, str]) -> None:
    for name, text in parameters.items():
        parameter = chosen.parameters.get(name)
        if parameter is None:
            known = ", ".join(chosen.parameters) or "none"
            raise ForcedError(
                f"parameter {name}",
                f"{chosen.name} has no parameter {name}.",
                f"Its parameters: {known}.",
            )
        try:
            parameter.parse(text)
        except ValueError as error:
            raise ForcedError(
                f"parameter {name}", f"{name} = {text}: {error}.", f"It means: {parameter.meaning}."
            ) from None


def _check_needs(chosen: Algorithm, parameters: Mapping[str, str]) -> None:
    for name, text in parameters.items():
        if lacks := _lacking(chosen, {name: text}):
            raise ForcedError(
                f"parameter {name}",
                f"with {name} = {text} {chosen.name} runs in the lab only: it needs that "
                f"{lacks[0].value}.",
                f"Leave {name} out.",
            )


def _check_promise(
    chosen: Algorithm, settings: Mapping[str, str], level: Level, sources: Collection[str]
) -> None:
    hint = _can_use(level, sources)
    if Need.ONE_SOURCE in chosen.needs and len(sources) > 1:
        raise ForcedError(
            "algorithm",
            f"{chosen.name} needs that {Need.ONE_SOURCE.value}; they are at {', '.join(sources)}.",
            hint,
        )
    kept = promised(chosen, settings, sources)
    if kept >= level:
        return
    if promised(chosen, {}, sources) >= level and (name := _lowering(settings)):
        raise ForcedError(
            f"parameter {name}",
            f"with {name} = {settings[name]} {chosen.name} is {kept}, and {level} was asked for.",
            f"Leave {name} out, or write WITH {str(kept).upper()} CONSISTENCY.",
        )
    raise ForcedError("algorithm", f"{chosen.name} is {kept}, and {level} was asked for.", hint)


def _batch(settings: Mapping[str, str]) -> int:
    return int(settings.get("batch", "1"))


def _why(level: Level, forced: str | None, kept: Level, settings: Mapping[str, str]) -> str:
    if forced and kept == Level.NONE:
        return "USING names it; it promises nothing, and is for demonstrations"
    if forced:
        return f"USING names it; it is {kept}"
    if level == Level.COMPLETE:
        return (
            "complete: shows the state after every transaction, in order, with up to "
            f"{settings['p']} in work at once"
        )
    together = f"takes up to {_batch(settings):,} waiting transactions together and asks only "
    together += "about what they change"
    if level == Level.STRONG:
        return f"strong: {together}"
    return f"strong, which costs no more than {level}: {together}"
