"""How much log a server keeps, for this warehouse and for others that may be forgotten.

Other warehouses may capture their changes in another way than this one.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sources.contract import OtherLog, Retained
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.ownership import named_for, publications
from headwater.sources.postgres.setup import SlotInstallation
from headwater.sources.postgres.triggers.setup import TriggerInstallation

_RETAINED = """
SELECT slot_name::text, active,
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::int8,
       safe_wal_size
FROM pg_catalog.pg_replication_slots
WHERE slot_type = 'logical' AND database = pg_catalog.current_database()
"""


def retained(access: Access, connection: Connection, slot: str) -> Retained | None:
    return _slots(access, connection).get(slot)


def other_logs(
    access: Access, connection: Connection, own: str, relations: Sequence[str]
) -> list[OtherLog]:
    """What the slots of other warehouses keep, and the logs that their triggers write."""
    owned = _owned_slots(access, connection)
    found: dict[str, int] = {}
    for slot, kept in _slots(access, connection).items():
        if slot != own and slot in owned:
            found[owned[slot]] = found.get(owned[slot], 0) + (kept.size_bytes or 0)
    found |= TriggerInstallation(access, own, relations=relations).other_logs(connection)
    return [OtherLog(owner, size_bytes) for owner, size_bytes in found.items()]


def remove_log(
    access: Access, connection: Connection, own: str, relations: Sequence[str], owner: str
) -> None:
    """Remove the slots, publications and triggers of an owner, as its teardown would."""
    for found in publications(access, connection).values():
        if found.note is not None and found.note.owner == owner and found.slot is not None:
            SlotInstallation(access, found.name, found.slot, owner).remove(connection)
    for slot, of in _owned_slots(access, connection).items():
        if of == owner:
            SlotInstallation(access, "", slot, owner).remove(connection)
    TriggerInstallation(access, own, relations=relations).remove_log(connection, owner)


def _owned_slots(access: Access, connection: Connection) -> dict[str, str]:
    """The slots of which their name, or a publication's note, says whose they are."""
    named = {
        slot: owner for slot in _slots(access, connection) if (owner := named_for(slot)) is not None
    }
    noted = {
        found.slot: found.note.owner
        for found in publications(access, connection).values()
        if found.note is not None and found.note.owner and found.slot is not None
    }
    return {**noted, **named}


def _slots(access: Access, connection: Connection) -> dict[str, Retained]:
    with access.errors("read the slots"):
        rows = connection.execute(_RETAINED.encode()).fetchall()
    return {
        slot: Retained(int(size or 0), is_read=active, left_bytes=left)
        for slot, active, size, left in rows
    }


def is_unbounded(access: Access, connection: Connection) -> bool:
    """Whether a slot that nobody reads makes the server keep its log without a limit."""
    with access.errors("read the settings"):
        row = connection.execute("SHOW max_slot_wal_keep_size").fetchone()
    return row is not None and row[0] == "-1"
