"""Sharing changes: updategrams and boosters as objects that nodes publish and exchange.

After P. Mork, S. Gribble and A. Halevy, Managing Change in Large-Scale Data Sharing Systems, 2003.
`SharingNode` is what a program uses; `rules` has the paper's rules A1 to A11, `grouping` and
`windows` those of section 4, `plans` and `optimizer` what section 5 is about. Nothing here needs
Spark; `headwater.sharing.publishing` reads a warehouse.
"""

from headwater.sharing import rules as rules
from headwater.sharing.booster import Booster as Booster
from headwater.sharing.catalog import Catalog as Catalog
from headwater.sharing.coalescing import coalesce as coalesce
from headwater.sharing.containment import is_contained as is_contained
from headwater.sharing.contents import Contents as Contents
from headwater.sharing.errors import ConflictError as ConflictError
from headwater.sharing.errors import DamagedObjectError as DamagedObjectError
from headwater.sharing.errors import ForeignObjectError as ForeignObjectError
from headwater.sharing.errors import MisfitError as MisfitError
from headwater.sharing.errors import MissingBoosterError as MissingBoosterError
from headwater.sharing.errors import MissingContentsError as MissingContentsError
from headwater.sharing.errors import NotFreshError as NotFreshError
from headwater.sharing.errors import PeerError as PeerError
from headwater.sharing.errors import PreconditionError as PreconditionError
from headwater.sharing.errors import SharingError as SharingError
from headwater.sharing.errors import UntrustedObjectError as UntrustedObjectError
from headwater.sharing.errors import VersionGapError as VersionGapError
from headwater.sharing.following import catch_up as catch_up
from headwater.sharing.limits import Limits as Limits
from headwater.sharing.node import Advanced as Advanced
from headwater.sharing.node import SharingNode as SharingNode
from headwater.sharing.peers import Peer as Peer
from headwater.sharing.policies import Boosters as Boosters
from headwater.sharing.policies import Eager as Eager
from headwater.sharing.policies import Hybrid as Hybrid
from headwater.sharing.policies import Lazy as Lazy
from headwater.sharing.policies import Periodic as Periodic
from headwater.sharing.policies import Policy as Policy
from headwater.sharing.remote import HttpPeer as HttpPeer
from headwater.sharing.shared_views import SharedView as SharedView
from headwater.sharing.stores import StorePeer as StorePeer
from headwater.sharing.stores import mirror as mirror
from headwater.sharing.updategram import Updategram as Updategram
from headwater.sharing.versions import Interval as Interval
from headwater.sharing.versions import Versions as Versions
