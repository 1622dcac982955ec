"""How much log a server keeps, for this warehouse and for others that may be forgotten."""

from __future__ import annotations

from headwater.sources.contract import Retained
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.ownership import named_for, publications
from headwater.sources.postgres.setup import Installation

_RETAINED = """
SELECT slot_name::text, active,
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::int8,
       safe_wal_size
FROM pg_catalog.pg_replication_slots
WHERE slot_type = 'logical' AND database = pg_catalog.current_database()
"""


def retained(access: Access, connection: Connection, slot: str) -> Retained | None:
    return _slots(access, connection).get(slot)


def other_logs(access: Access, connection: Connection, own_slot: str) -> dict[str, int]:
    """What the slots of other warehouses keep, in bytes, by their owner."""
    owned = _owned_slots(access, connection)
    found: dict[str, int] = {}
    for slot, kept in _slots(access, connection).items():
        if slot != own_slot and slot in owned:
            found[owned[slot]] = found.get(owned[slot], 0) + (kept.size_bytes or 0)
    return found


def remove_log(access: Access, connection: Connection, owner: str) -> None:
    """Remove the slots and publications of an owner, as its teardown would."""
    for found in publications(access, connection).values():
        if found.note is not None and found.note.owner == owner and found.slot is not None:
            Installation(access, found.name, found.slot, owner).remove(connection)
    for slot, of in _owned_slots(access, connection).items():
        if of == owner:
            Installation(access, "", slot, owner).remove(connection)


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
