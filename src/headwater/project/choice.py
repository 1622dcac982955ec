"""Which algorithm maintains a view, and why.

Databases commit transactions of several updates, each at one source, so what counts is what an
algorithm promises for the scenario `single-source-local`, or `source-local` if the view has several
sources.

What each would cost is estimated from statistics (see `costs`). Until something was measured the
default is taken.

Choices: the default is `sweep` with batches for every level up to strong, since asking for less
would not make it cheaper, and `pvm-cc` for complete, since it keeps several transactions in work
and still shows every state in order. What is stored for a view is never chosen: it follows from
its file (`USING`, `KEEP KEYS`), or is what the view was loaded with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS, Algorithm, make_hosted
from headwater.check.levels import Level, parse_level
from headwater.costs.estimating import Estimator
from headwater.costs.expected import FromStatistics
from headwater.costs.statistics import Statistics
from headwater.costs.weighing import BUSIEST, LATE, LATE_S, UNMEASURED, Candidate, Weighed, weigh
from headwater.errors import InputError, UnsupportedViewError
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
_ONLY_BY_NAME = frozenset({Need.SILENCE, Need.COPIES, Need.MESSAGES})
"""Who needs one of these is never chosen without being named: it is wrong, or stores or runs more
than a view asks for by itself."""
_TOGETHER = ("batch", "every")
"""Parameters that say how many transactions are shown as one step."""


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
    statistics: Statistics | None = None,
    running: str | None = None,
) -> Choice:
    """The algorithm for a view at this level; ForcedError if the one forced will not do.

    `running` is the one by which it was maintained last.
    """
    run = run or RunSettings()
    can_use = partial(_can_use, level, view, keep_keys)
    chosen, settings = resolve(level, forced, parameters or {}, run, view.sources, can_use)
    if unsure := chosen.unsure(view):
        raise ForcedError("algorithm", f"{chosen.name} {unsure}.", can_use())
    by_cost = ""
    if not _asks(view):
        by_cost = "no join, so no source is asked anything"
    elif not forced and statistics and statistics.is_observed(view.sources):
        weighed = _weighed(view, level, run, statistics, running)
        chosen, settings = ALGORITHMS[weighed.taken.algorithm], dict(weighed.taken.parameters)
        by_cost = weighed.why
    elif not forced:
        by_cost = UNMEASURED
    parts = [_why(level, forced, chosen, promised(chosen, settings, view.sources), settings)]
    parts += [by_cost] if by_cost else []
    if running is not None and running != chosen.name:
        parts.append(f"its last commit was by {running}, and the next start takes {chosen.name}")
    if len(view.sources) > 1 and level > Level.NONE:
        parts.append(f"transactions across databases: {global_promise(chosen)}")
    if keep_keys and Need.KEYS not in chosen.needs:
        parts.append("KEEP KEYS is not needed: it works without keys")
    if view.copies and Need.COPIES not in chosen.needs:
        parts.append(f"questions about {', '.join(view.copies)} alone are answered from copies")
    expected = FromStatistics(view, statistics or Statistics())
    manager = make_hosted(chosen, view, settings, expected)
    return Choice(chosen.name, settings, manager, "; ".join(parts) + ".")


def costs(
    view: View,
    level: Level,
    run: RunSettings | None = None,
    statistics: Statistics | None = None,
    running: str | None = None,
) -> tuple[Candidate, ...]:
    """What each algorithm would cost a view, those that may be chosen first; nothing for a view
    that asks nothing whatever maintains it."""
    if not _asks(view):
        return ()
    run, statistics = run or RunSettings(), statistics or Statistics()
    return _weighed(view, level, run, statistics, running).candidates


def cost_of(choice: Choice, view: View, level: Level, statistics: Statistics) -> Candidate:
    """What the algorithm that was taken would cost, with its parameters; without an estimate where
    there is none, as of what nodes do."""
    chosen = ALGORITHMS[choice.algorithm]
    estimator = Estimator(view, statistics, level >= Level.COMPLETE)
    estimate = None
    if chosen.nodes is None:
        with suppress(Exception):  # what it costs is no reason to stop a view
            estimate = estimator.estimate(chosen, choice.parameters)
    return Candidate(chosen.name, choice.parameters, estimate)


def _asks(view: View) -> bool:
    return any(len(join.occurrences) > 1 for join in view.joins)


def _weighed(
    view: View, level: Level, run: RunSettings, statistics: Statistics, running: str | None
) -> Weighed:
    """Every algorithm, with what it would cost for the view or why it is out."""
    alike = replace(view, name="view", sql="")  # views that differ in nothing else cost the same
    spent = statistics.spent.get(view.name, {})
    late = max(
        ((s.time_s, n) for n, s in spent.items() if n in ALGORITHMS and ALGORITHMS[n].waits),
        default=(0.0, ""),
    )
    return _weighed_alike(alike, level, run, statistics, running, late)


@lru_cache(maxsize=256)
def _weighed_alike(
    view: View,
    level: Level,
    run: RunSettings,
    statistics: Statistics,
    running: str | None,
    late: tuple[float, str],
) -> Weighed:
    """`late` is after how many seconds one that waits for pauses showed changes when it ran, and
    which one: others that do would wait as long."""
    estimator = Estimator(view, statistics, level >= Level.COMPLETE)
    default, measured = _default(level), statistics.is_observed(view.sources)
    candidates = []
    for name, chosen in ALGORITHMS.items():
        settings = _ours(chosen, level, run)
        if out := _out(chosen, settings, view, level):
            candidates.append(Candidate(name, out=out))
        else:
            candidates += _tried(chosen, settings, estimator, measured, late)
    return weigh(candidates, default.name, running, measured)


def _tried(
    chosen: Algorithm,
    settings: Mapping[str, str],
    estimator: Estimator,
    measured: bool,
    late: tuple[float, str],
) -> list[Candidate]:
    """One algorithm with all parameters that are worth a try, once something was measured."""
    found = []
    for more in variants(chosen) if measured else [{}]:
        tried = {**settings, **more}
        try:
            estimate = estimator.estimate(chosen, tried)
        except Exception as error:  # what it costs is no reason to stop a view
            return [Candidate(chosen.name, out=f"cannot be estimated ({type(error).__name__})")]
        if not chosen.waits or estimator.busy(estimate) <= BUSIEST:
            found.append(Candidate(chosen.name, tried, estimate))
    most = LATE * max((each.estimate.time_s for each in found if each.estimate), default=math.inf)
    late_s, who = late
    if chosen.waits and late_s > max(LATE_S, most):
        it = "it" if who == chosen.name else who
        out = f"showed changes after {late_s:.1f} s when {it} ran last, for want of pauses"
        return [Candidate(chosen.name, out=out)]
    if found:
        return found
    out = "shows nothing while a question is unanswered, and the sources hardly pause"
    return [Candidate(chosen.name, out=out)]


def is_only_by_name(chosen: Algorithm) -> bool:
    """Whether it is taken only where USING names it, whatever it costs."""
    return chosen.slows_down or bool(chosen.needs & _ONLY_BY_NAME)


def variants(chosen: Algorithm) -> list[dict[str, str]]:
    """Parameters beside the usual ones that may make it cheaper."""
    found: list[dict[str, str]] = [{"fetch": "on"} if "fetch" in chosen.parameters else {}]
    if "local" in chosen.parameters:
        found.append({**found[0], "local": "on"})
    if "order" in chosen.parameters:
        found += [{**each, "order": "least"} for each in found]
    if "handle" in chosen.parameters:
        found.append({"handle": "posse", "policy": "adjacent"})
    elif "policy" in chosen.parameters:
        found += [{"policy": "adjacent"}, {"policy": "concurrent"}]
    return found


def _out(chosen: Algorithm, settings: Mapping[str, str], view: View, level: Level) -> str:
    """Why an algorithm cannot be chosen for a view; empty if it can."""
    if lacks := _lacking(chosen):
        return f"runs in the lab only: needs that {lacks[0].value}"
    if chosen.needs & _ONLY_BY_NAME:
        return "is taken only where USING names it"
    if Need.ONE_SOURCE in chosen.needs and len(view.sources) > 1:
        return f"needs that {Need.ONE_SOURCE.value}"
    kept = promised(chosen, settings, view.sources)
    if kept < level:
        return f"{kept} only"
    if unsure := chosen.unsure(view):
        return unsure
    if Need.BY_KEY in chosen.needs and view.compact is not None:
        return "needs rows, and sums are stored" + _by_keeping_keys(view)
    if chosen.slows_down:
        return "an event costs it more the more transactions wait, as after every stop"
    try:
        make_hosted(chosen, view, settings)
    except UnsupportedViewError:
        return "needs keys that the view does not show" + _by_keeping_keys(view)
    return ""


def _by_keeping_keys(view: View) -> str:
    kept = as_stored(view, None, keep_keys=True)
    return ": KEEP KEYS, and a reload" if kept != view else ""


def global_promise(chosen: Algorithm) -> str:
    """How a view shows global transactions whose parts are tagged."""
    return "whole" if chosen.is_given_wholes else f"as parts, {chosen.promises['global']}"


def as_stored(
    view: View, forced: str | None, keep_keys: bool, copied: Collection[str] = ()
) -> View:
    """The view with what its algorithm has to have stored: rows, where it looks them up by key, the
    keys, where these may be kept out of sight, and copies of relations: all of them, or those that
    are asked for."""
    chosen = ALGORITHMS.get(forced or "")
    if chosen is not None and Need.COPIES in chosen.needs:
        copied = view.joined
    return _with_rows(view, chosen, forced is None, keep_keys).with_copies(copied)


def _with_rows(view: View, chosen: Algorithm | None, is_free: bool, keep_keys: bool) -> View:
    if is_free:
        wider = view.with_keys() if keep_keys else view
        return wider.with_rows() if keep_keys and wider.shows_keys else view
    if chosen is None or Need.BY_KEY not in chosen.needs:
        return view
    if keep_keys and Need.KEYS in chosen.needs:
        view = view.with_keys()
    return view.with_rows()


def as_loaded(view: View, kept: str) -> View:
    """The view with what it was loaded with besides its own (see `View.kept`)."""
    match kept:
        case "keys":
            return view.with_keys()
        case "rows":
            return view.with_rows()
    return view


def resolve(
    level: Level,
    forced: str | None,
    parameters: Mapping[str, str],
    run: RunSettings,
    sources: Collection[str],
    can_use: Callable[[], str] | None = None,
) -> tuple[Algorithm, dict[str, str]]:
    """The algorithm and its parameters, for a view over these sources.

    `can_use` says which others would do, where the view itself is known.
    """
    can_use = can_use or partial(_may_use, level, sources)
    chosen = _forced(forced, level, can_use) if forced else _default(level)
    _check_parameters(chosen, parameters)
    _check_needs(chosen, parameters)
    settings = {**_ours(chosen, level, run), **parameters}
    _check_promise(chosen, settings, level, sources, can_use)
    if Need.EARLY in chosen.needs and (name := _lowering(settings)):
        raise ForcedError(
            f"parameter {name}",
            f"with {name} = {settings[name]} {chosen.name} would take a transaction that the view "
            "shows already together with one that it does not, after a crash.",
            f"Leave {name} out.",
        )
    return chosen, settings


def _ours(chosen: Algorithm, level: Level, run: RunSettings) -> dict[str, str]:
    """The parameters that the project's settings give, as far as the level allows them."""
    together = level < Level.COMPLETE and Need.EARLY not in chosen.needs
    ours = {"batch": str(run.batch) if together else "1", "p": str(run.in_work)}
    return {name: ours[name] for name in chosen.parameters if name in ours}


def promised(chosen: Algorithm, settings: Mapping[str, str], sources: Collection[str]) -> Level:
    """What it keeps with these parameters, for a view over these sources."""
    scenario = "single-source-local" if len(sources) == 1 else "source-local"
    level = parse_level(chosen.promises[scenario])
    return min(level, Level.STRONG) if _lowering(settings) else level


def _lowering(settings: Mapping[str, str]) -> str | None:
    """The parameter that makes it show several transactions as one step, if one does."""
    if together := [name for name in _TOGETHER if int(settings.get(name, "1")) > 1]:
        return together[0]
    return "handle" if settings.get("handle") == "nested-sweep" else None


def usable(level: Level, sources: Collection[str]) -> list[str]:
    """The algorithms that USING may name for a view at this level, over these sources."""
    return [
        name
        for name, algorithm in ALGORITHMS.items()
        if not (_needs_no_level(algorithm, level) or _lacking(algorithm))
        and not (Need.ONE_SOURCE in algorithm.needs and len(sources) > 1)
        and promised(algorithm, {}, sources) >= level
    ]


def _may_use(level: Level, sources: Collection[str]) -> str:
    """What is known of a view over these sources before its SELECT is read."""
    names = ", ".join(usable(level, sources))
    return f"For {level} the view can use, if its joins and keys allow it: {names}."


def _can_use(level: Level, view: View, keep_keys: bool) -> str:
    """Which algorithms would do for a view, now and if it kept its keys."""
    names = [name for name in usable(level, view.sources) if fits(name, view, keep_keys)]
    told = f"For {level} the view can use: {', '.join(names)}"
    others = [] if keep_keys else usable(level, view.sources)
    if more := [name for name in others if name not in names and fits(name, view, True)]:
        told += f"; with KEEP KEYS also: {', '.join(more)}"
    return f"{told}."


def fits(name: str, view: View, keep_keys: bool = True) -> bool:
    """Whether an algorithm can maintain a view."""
    try:
        make_hosted(ALGORITHMS[name], as_stored(view, name, keep_keys), {})
    except UnsupportedViewError:
        return False
    return not ALGORITHMS[name].unsure(view)


def _lacking(chosen: Algorithm, parameters: Mapping[str, str] | None = None) -> list[Need]:
    """What it needs and the pipeline does not provide."""
    needs = chosen.needs_with(parameters or {}) - {Need.SILENCE}
    return [need for need in Need if need in needs - _OF_VIEW - PROVIDES]


def _needs_no_level(chosen: Algorithm, level: Level) -> bool:
    """Whether it keeps no level on databases that never stand still, and one was asked for."""
    return Need.SILENCE in chosen.needs and level > Level.NONE


def _default(level: Level) -> Algorithm:
    return ALGORITHMS["sweep" if level < Level.COMPLETE else "pvm-cc"]


def _forced(name: str, level: Level, can_use: Callable[[], str]) -> Algorithm:
    if name not in ALGORITHMS:
        raise ForcedError(
            "algorithm",
            f"there is no algorithm '{name}'.",
            did_you_mean(name, ALGORITHMS) + can_use(),
        )
    if lacks := _lacking(ALGORITHMS[name]):
        needs = ", and that ".join(need.value for need in lacks)
        raise ForcedError(
            "algorithm", f"{name} runs in the lab only: it needs that {needs}.", can_use()
        )
    if _needs_no_level(ALGORITHMS[name], level):
        raise ForcedError(
            "algorithm",
            f"{name} keeps no level unless {Need.SILENCE.value}.",
            f"{can_use()} To see what {name} does, write WITH NO CONSISTENCY.",
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
    chosen: Algorithm,
    settings: Mapping[str, str],
    level: Level,
    sources: Collection[str],
    can_use: Callable[[], str],
) -> None:
    if Need.ONE_SOURCE in chosen.needs and len(sources) > 1:
        raise ForcedError(
            "algorithm",
            f"{chosen.name} needs that {Need.ONE_SOURCE.value}; they are at {', '.join(sources)}.",
            can_use(),
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
    raise ForcedError(
        "algorithm", f"{chosen.name} is {kept}, and {level} was asked for.", can_use()
    )


def _batch(settings: Mapping[str, str]) -> int:
    return int(settings.get("batch", "1"))


def _why(
    level: Level, forced: str | None, chosen: Algorithm, kept: Level, settings: Mapping[str, str]
) -> str:
    if forced and kept == Level.NONE:
        return "USING names it; it promises nothing, and is for demonstrations"
    if forced:
        return f"USING names it; it is {kept}"
    if chosen.name == "pvm-cc":
        return (
            f"{kept}: shows the state after every transaction, in order, with up to "
            f"{settings['p']} in work at once"
        )
    told = chosen.summary
    if chosen.name == "sweep":
        told = f"takes up to {_batch(settings):,} waiting transactions together and asks only "
        told += "about what they change"
    if kept > level:
        return f"{kept}, which costs no more than {level}: {told}"
    return f"{kept}: {told}"
