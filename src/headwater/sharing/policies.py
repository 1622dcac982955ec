"""Policies: when a node takes changes into its views, and which boosters it publishes.

Plain data, kept with the node. The paper leaves policies to each node (sections 1 and 2.1):
eagerly at update time, lazily at query time, a hybrid of both, or by a schedule. What follows
from a policy is decided by `is_due` and `Boosters.wants`, and nowhere else.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal, TypeAlias

from headwater.errors import InputError

Moment: TypeAlias = Literal["update", "query", "tick"]
"""Something new was published or has arrived; a view is asked for; somebody looks at a clock."""


@dataclass(frozen=True)
class Eager:
    """Views follow as soon as updategrams are there."""


@dataclass(frozen=True)
class Lazy:
    """Views follow when they are asked for."""


@dataclass(frozen=True)
class Hybrid:
    """Up to so many waiting rows are taken in at once; more wait until the view is asked for."""

    most_rows: int = 1000

    def __post_init__(self) -> None:
        if type(self.most_rows) is not int or self.most_rows < 0:
            raise InputError(
                f"The policy 'hybrid' has {self.most_rows!r} rows.",
                "Up to how many waiting rows are taken in at once is a whole number from 0 on.",
            )


@dataclass(frozen=True)
class Periodic:
    """Views follow when they are so old, asked for or not; in between they are as they are."""

    every_s: float = 86_400.0

    def __post_init__(self) -> None:
        is_number = type(self.every_s) in (int, float)
        if not is_number or not 0 < self.every_s < inf:
            raise InputError(
                f"The policy 'periodic' has {self.every_s!r} seconds.",
                "How old a view becomes before it follows is a number of seconds above 0.",
            )


Propagation: TypeAlias = Eager | Lazy | Hybrid | Periodic


@dataclass(frozen=True)
class Boosters:
    """Which boosters a node publishes: for these views (`*` for all), up to a size.

    A node can make boosters of relations that it holds, for every updategram that it knows.
    """

    views: tuple[str, ...] = ()
    most_rows: int | None = None
    only_paying: bool = False
    """Of those that come about on the way, only what saves other views more than it costs."""
    volunteers: bool = False
    """Of relations of others too, whose rows have been published: for the views of whoever asks."""

    def wants(self, view: str) -> bool:
        return "*" in self.views or view in self.views

    def admits(self, rows: int) -> bool:
        return self.most_rows is None or rows <= self.most_rows


Granularity: TypeAlias = Literal["transaction", "run"]
"""Whether a warehouse publishes an updategram for each transaction, or one for each publication."""


@dataclass(frozen=True)
class Policy:
    """What a node does of its own accord."""

    propagation: Propagation = Lazy()
    boosters: Boosters = Boosters()
    granularity: Granularity = "run"
    only: tuple[str, ...] = ()
    """The views for which alone something is taken from others; none stands for everything."""


def is_due(propagation: Propagation, moment: Moment, waiting_rows: int, age_s: float) -> bool:
    """Whether a view is to take in what waits for it, at such a moment."""
    match propagation:
        case Eager():
            return True
        case Lazy():
            return moment == "query"
        case Hybrid(most_rows):
            return moment == "query" or waiting_rows <= most_rows
        case Periodic(every_s):
            return age_s >= every_s


# As JSON

_KINDS: dict[str, type[Propagation]] = {
    "eager": Eager,
    "lazy": Lazy,
    "hybrid": Hybrid,
    "periodic": Periodic,
}
PROPAGATIONS = tuple(_KINDS)
POLICIES = "eager, lazy, hybrid with a number of rows and periodic with a number of seconds"


def policy_to_json(policy: Policy) -> dict[str, Any]:
    kind = next(name for name, made in _KINDS.items() if isinstance(policy.propagation, made))
    return {
        "propagation": {"kind": kind, **asdict(policy.propagation)},
        "boosters": {
            "views": list(policy.boosters.views),
            "most_rows": policy.boosters.most_rows,
            "only_paying": policy.boosters.only_paying,
            "volunteers": policy.boosters.volunteers,
        },
        "granularity": policy.granularity,
        "only": list(policy.only),
    }


def policy_from_json(json: Any) -> Policy:
    """Read what `policy_to_json` writes; InputError in words when it is not that."""
    try:
        given = dict(json["propagation"])
        propagation = propagation_of(given.pop("kind"), **given)
        made = json["boosters"]
        most = made["most_rows"]
        if most is not None and (type(most) is not int or most < 0):
            raise ValueError(f"most_rows is {most!r}")
        paying = made.get("only_paying", False) is True
        volunteers = made.get("volunteers", False) is True
        boosters = Boosters(tuple(made["views"]), most, paying, volunteers)
        granularity = json["granularity"]
        if granularity not in ("transaction", "run"):
            raise ValueError(f"granularity is {granularity!r}")
        only = tuple(map(str, json.get("only", ())))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        lacks = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"The policy cannot be read: {lacks}.", f"Allowed are {POLICIES}."
        ) from None
    return Policy(propagation, boosters, granularity, only)


def propagation_of(kind: str, **values: Any) -> Propagation:
    """By its name; InputError names those that there are."""
    if kind not in _KINDS:
        raise InputError(
            f"There is no policy '{kind}'.", f"Choose one of {', '.join(PROPAGATIONS)}."
        )
    return _KINDS[kind](**values)
