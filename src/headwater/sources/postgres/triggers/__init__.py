"""PostgreSQL without logical replication: triggers write changes into a table that is polled.

For servers where no slot can be had. `functions` is what runs inside the application's
transactions, `setup` makes and removes it, `watch` notices what was changed behind its back,
`units` finds the order of what was logged, and `monitor` reads it.
"""

from headwater.sources.postgres.triggers.monitor import TriggerMonitor, marker_statement
from headwater.sources.postgres.triggers.setup import TriggerInstallation
from headwater.sources.postgres.triggers.units import MERGED

__all__ = ["MERGED", "TriggerInstallation", "TriggerMonitor", "marker_statement"]
