"""What can be wrong with shared objects, by kind, so that a program can tell them apart."""

from __future__ import annotations

from headwater.errors import HeadwaterError, InputError


class SharingError(HeadwaterError):
    """Something about shared objects is wrong; nothing has been applied."""


class PreconditionError(SharingError):
    """A rule was given objects to which it does not apply."""


class VersionGapError(SharingError):
    """There is no way from one version to another: an updategram is missing, or they overlap."""


class MissingBoosterError(SharingError):
    """Neither a booster nor a copy is at hand for a relation that a join needs."""


class MissingContentsError(SharingError):
    """Nobody has published the rows to start from."""


class NotFreshError(SharingError):
    """What is known is older than what was asked for."""


class MisfitError(SharingError):
    """An updategram does not fit the rows to which it is applied."""


class DamagedObjectError(SharingError):
    """A stored object is not what its address says, or cannot be read."""


class ForeignObjectError(SharingError):
    """An object belongs to another system, or to a node, relation or view that is not known."""


class UntrustedObjectError(SharingError):
    """An object is not signed by the node that it names, or nobody said that it be trusted."""


class PeerError(SharingError):
    """A peer is away, refuses, or is none."""


class ConflictError(SharingError):
    """Two objects say different things about one matter."""


class LackingError(ForeignObjectError):
    """An object is about something of which nothing is known here."""


class PastLifeError(ForeignObjectError):
    """An object is of an earlier life of a node, of which something else is known here."""


class UnknownNameError(SharingError, InputError):
    """The catalog has no relation or view of a name."""

    exit_code = 2
