from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headwater.embedded.postgres import shared_server
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.order import Order
from headwater.sources.postgres import connect as connecting
from headwater.sources.postgres import locks
from headwater.sources.postgres import setup as installing
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.ownership import Note
from headwater.sources.postgres.source import PostgresSource, default_name
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, answered, read_log, whole

MINE, OTHER = "0a1b2c3d", "ffffffff"


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    harness.create_table("a", LINES, ["id"])
    yield harness
    harness.close()


def owned(harness: PostgresHarness, owner: str, **settings: Any) -> PostgresSource:
    name = f"s{harness.name}"  # slots are the server's, so their names differ between tests
    return PostgresSource(name, harness.dsn, ["a"], owner=owner, **settings)


def identity(harness: PostgresHarness, table: str = "a") -> str:
    with psycopg.connect(harness.dsn) as connection:
        row = connection.execute(
            "SELECT relreplident::text FROM pg_class WHERE oid = %s::regclass", [table]
        ).fetchone()
    assert row is not None
    return str(row[0])


def test_two_warehouses_with_one_source_name_do_not_meet(harness: PostgresHarness) -> None:
    mine, other = owned(harness, MINE), owned(harness, OTHER)
    mine.setup()
    other.setup()
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    for source in (mine, other):
        monitor = source.open_monitor(None)
        (item,) = read_log(monitor, 1)
        monitor.acknowledge(item.position)
        monitor.close()
    (log,) = mine.other_logs()
    assert log.owner == OTHER
    assert log.size_bytes is not None
    assert log.size_bytes > 0


@pytest.mark.parametrize("named", [{"slot": "s", "publication": "p"}, {"slot": "s"}])
def test_what_belongs_to_another_warehouse_is_refused(
    harness: PostgresHarness, named: dict[str, str]
) -> None:
    names = {kind: f"{name}_{harness.name}" for kind, name in named.items()}
    mine, other = owned(harness, MINE, **names), owned(harness, OTHER, **names)
    mine.setup()
    assert mine.setup_statements() == []
    with pytest.raises(SourceError, match=r"headwater\.toml"):
        other.setup()
    with pytest.raises(SourceError):
        other.setup_statements()
    monitor = mine.open_monitor(None)
    if "publication" in named:
        for step in (lambda: other.open_monitor(None), other.teardown):
            with pytest.raises(SourceError, match=f"belongs to the warehouse {MINE}"):
                step()
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    assert len(read_log(monitor, 1)) == 1
    monitor.close()


def test_a_forgotten_log_is_listed_and_removed(harness: PostgresHarness) -> None:
    mine, forgotten = owned(harness, MINE), owned(harness, OTHER)
    mine.setup()
    forgotten.setup()
    mine.remove_log(OTHER)
    assert mine.other_logs() == []
    mine.open_monitor(None).close()
    with pytest.raises(SourceError, match="no replication slot"):
        forgotten.open_monitor(None)


def test_names_are_cut_in_front_of_the_owner() -> None:
    name = default_name("s" * 80, MINE)
    assert name.endswith(f"s_{MINE}")
    assert len(name) == 63


@pytest.mark.parametrize(
    ("before", "expected"),
    [("DEFAULT", "d"), ("NOTHING", "n"), ("USING INDEX a_pkey", "i"), ("FULL", "f")],
)
def test_teardown_gives_back_the_replica_identity(
    harness: PostgresHarness, before: str, expected: str
) -> None:
    harness.writer().execute(f"ALTER TABLE a REPLICA IDENTITY {before}")
    source = owned(harness, MINE)
    source.setup()
    source.setup()
    assert identity(harness) == "f"
    assert source.stays() == []
    source.teardown()
    assert identity(harness) == expected


def test_an_application_may_change_a_table_without_a_key_at_every_moment_of_setup_and_teardown(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE bag (n int); INSERT INTO bag VALUES (1)")
    run_steps = locks.run_steps

    def one_by_one(
        access: Access, connection: Connection, steps: list[list[str]], tables: list[int]
    ) -> None:
        for step in steps:
            run_steps(access, connection, [step], tables)
            writer.execute("UPDATE bag SET n = n + 1")

    monkeypatch.setattr(installing, "run_steps", one_by_one)
    source = PostgresSource(f"s{harness.name}", harness.dsn, ["bag"], owner=MINE)
    source.setup()
    assert identity(harness, "bag") == "f"
    assert source.setup_statements() == []
    source.teardown()
    assert identity(harness, "bag") == "d"


def test_setup_makes_nothing_if_the_role_does_not_own_a_table(harness: PostgresHarness) -> None:
    maker = f"maker_{harness.name}"
    harness.writer().execute(
        f'CREATE ROLE "{maker}" LOGIN; GRANT SELECT ON a TO "{maker}"; '
        f'GRANT CREATE ON DATABASE "{harness.name}" TO "{maker}"'
    )
    source = PostgresSource("pg", shared_server().dsn(harness.name, maker), ["a"], owner=MINE)
    before = source.setup_statements()
    with pytest.raises(SourceError, match=r"does not own public\.a, .* run: CREATE PUBLICATION"):
        source.setup()
    assert source.setup_statements() == before
    harness.writer().execute(f'DROP OWNED BY "{maker}"; DROP ROLE "{maker}"')


def test_what_another_publication_needs_stays_and_is_told(harness: PostgresHarness) -> None:
    mine, other = owned(harness, MINE), owned(harness, OTHER)
    mine.setup()
    other.setup()
    (told,) = mine.stays()
    assert re.search(r"public\.a keeps REPLICA IDENTITY FULL.*REPLICA IDENTITY DEFAULT;", told)
    mine.teardown()
    assert identity(harness) == "f"


def test_a_publication_of_somebody_else_that_leaves_changes_out_is_told_with_what_mends_it(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE PUBLICATION mine FOR TABLE a WITH (publish = 'insert')")
    with pytest.raises(SourceError, match="leaves out some rows") as told:
        owned(harness, MINE, publication="mine").setup()
    (statement,) = re.findall(r"ALTER PUBLICATION [^;]*", str(told.value))
    writer.execute(statement)
    owned(harness, MINE, publication="mine").setup()


def test_a_publication_and_a_comment_of_somebody_else_are_left_as_they_were(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE PUBLICATION p FOR TABLE a; COMMENT ON PUBLICATION p IS 'ours'")
    source = owned(harness, MINE, publication="p")
    source.setup()
    source.open_monitor(None).close()
    assert source.stays() == ["The publication p stays: setup did not make it."]
    source.teardown()
    with psycopg.connect(harness.dsn) as connection:
        found = connection.execute(
            "SELECT obj_description(oid, 'pg_publication') FROM pg_publication"
        ).fetchall()
    assert found == [("ours",)]


def test_setup_lets_others_pass_while_it_waits_for_a_lock(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_LIMIT_MS", 100)
    monkeypatch.setattr(locks, "_TRIES", 3)
    source = owned(harness, MINE)
    with psycopg.connect(harness.dsn, application_name="idle reader") as reader:
        reader.execute("SELECT FROM a")
        with pytest.raises(SourceError, match=r"could not be had in 3 tries.*idle reader"):
            source.setup()
        with psycopg.connect(harness.dsn) as later:
            later.execute("SET statement_timeout = '60s'")
            later.execute("SELECT FROM a")
    source.setup()
    assert source.setup_statements() == []


def test_setup_goes_on_when_the_lock_is_free(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_LIMIT_MS", 50)
    monkeypatch.setattr(locks, "_TRIES", 1000)
    monkeypatch.setattr(locks, "_PAUSE_S", 0.05)
    reader = psycopg.connect(harness.dsn)
    reader.execute("SELECT FROM a")
    release = threading.Timer(1.0, reader.close)
    release.start()
    source = owned(harness, MINE)
    source.setup()
    release.join()
    assert identity(harness) == "f"


_TRAP = """
CREATE TABLE public.caught (what text);
CREATE FUNCTION public.pg_partition_ancestors(oid) RETURNS TABLE (relid regclass)
LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.caught VALUES ('ancestors'); END$$
"""
"""Its argument fits better than that of the catalog's function, so that it is preferred."""


def test_nothing_that_others_put_into_public_is_run(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute(_TRAP)
    writer.execute("INSERT INTO a VALUES (1, 'x')")
    source = owned(harness, MINE)
    source.setup()
    source.setup()
    monitor = source.open_monitor(None)
    wrapper = source.open_wrapper()
    wrapper.ask([whole(source.relations(), "a")])
    load = source.open_load(["a"], 1)
    list(load.read("a", 0))
    load.close()
    wrapper.close()
    monitor.close()
    source.teardown()
    with psycopg.connect(harness.dsn) as connection:
        assert connection.execute("SELECT * FROM public.caught").fetchall() == []


def test_no_query_is_compiled_which_takes_seconds_where_it_runs_for_milliseconds(
    harness: PostgresHarness,
) -> None:
    with Access("pg", harness.dsn).connect() as connection:
        assert connection.execute("SHOW jit").fetchone() == ("off",)


def test_no_session_ends_a_load_by_a_limit_of_the_database() -> None:
    harness = PostgresHarness(shared_server(18))
    harness.server.execute(f"ALTER DATABASE {harness.name} SET transaction_timeout = '1s'")
    with Access("pg", harness.dsn).connect() as connection:
        assert connection.execute("SHOW transaction_timeout").fetchone() == ("0",)
    harness.close()


def test_every_session_has_an_empty_search_path_from_the_start(harness: PostgresHarness) -> None:
    access = Access("pg", harness.dsn)
    with access.connect() as connection:
        assert connection.execute("SHOW search_path").fetchone() == ('""',)
    pgconn = access.connect_replication()
    result = pgconn.exec_(b"SHOW search_path")
    assert result.get_value(0, 0) == b'""'
    pgconn.finish()


def test_a_table_without_a_schema_is_found_by_the_roles_own_search_path(
    harness: PostgresHarness,
) -> None:
    harness.create_table("sales.c", LINES)
    harness.create_table("c", LINES)
    server = shared_server()
    server.execute(f'ALTER DATABASE "{harness.name}" SET search_path = sales, public')
    assert '"sales"."c"' in str(harness.source(["c"]).setup_statements())
    assert '"public"."c"' in str(harness.source(["public.c"]).setup_statements())


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("53100", "could not extend file: No space left on device"),
        ("53200", "out of memory"),
        ("53300", "sorry, too many clients already"),
        ("55P03", "canceling statement due to lock timeout"),
        ("57014", "canceling statement due to user request"),
        ("57P01", "terminating connection due to administrator command"),
        ("40001", "could not serialize access"),
    ],
)
def test_a_refusal_that_passes_is_worth_another_try(state: str, text: str) -> None:
    error = Access("pg", "").failure(state, text, "answer a question")
    assert isinstance(error, LostConnectionError)
    assert text in error.message


def test_a_role_whose_sessions_are_read_only_is_told_what_to_set() -> None:
    text = "cannot execute CREATE PUBLICATION in a read-only transaction"
    error = Access("pg", "").failure("25006", text, "set it up")
    assert "sessions of this role are read-only" in str(error)
    assert "default_transaction_read_only = off" in str(error)


def test_a_log_that_is_gone_is_told_with_the_command_that_begins_it_anew() -> None:
    error = Access("pg", "").failure("3F000", 'schema "x" does not exist', "read the log")
    assert "headwater repair pg" in error.hint


def test_other_threads_run_while_a_question_waits(harness: PostgresHarness) -> None:
    source = harness.source(["a"])
    source.setup()
    query = whole(source.relations(), "a")
    wrapper = source.open_wrapper()
    with psycopg.connect(harness.dsn) as blocking:
        blocking.execute("LOCK TABLE a")
        letting_go = threading.Timer(0.3, blocking.rollback)
        letting_go.start()  # never comes to it if this thread keeps all others from running
        assert len(wrapper.ask([query]).results) == 1
        letting_go.join()
    wrapper.close()


def test_a_question_that_an_administrator_cancels_is_worth_another_try(
    harness: PostgresHarness,
) -> None:
    source = harness.source(["a"])
    source.setup()
    query = whole(source.relations(), "a")
    wrapper = source.open_wrapper()
    with (
        psycopg.connect(harness.dsn) as blocking,
        psycopg.connect(harness.dsn, autocommit=True) as administrator,  # sees who waits anew
    ):
        blocking.execute("LOCK TABLE a")
        stop = threading.Event()
        cancelling = threading.Thread(target=cancel_waiting, args=(administrator, stop))
        cancelling.start()
        with pytest.raises(LostConnectionError, match="due to user request"):
            wrapper.ask([query])
        stop.set()
        cancelling.join()
    assert len(wrapper.ask([query]).results) == 1
    wrapper.close()


def cancel_waiting(administrator: psycopg.Connection[tuple[object]], stop: threading.Event) -> None:
    while not stop.wait(0.05):
        administrator.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )


@pytest.mark.parametrize(
    ("dsn", "warned"),
    [
        ("host=db.example.org", True),
        ("postgresql://u@db.example.org/x?sslmode=verify-full", False),
        ("host=/run/postgresql", False),
        ("host=localhost", False),
        ("dbname=x", False),
    ],
)
def test_an_unset_sslmode_is_noticed(
    dsn: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    assert Access("pg", dsn).is_unprotected == warned


def test_the_log_that_the_server_keeps_is_told(harness: PostgresHarness) -> None:
    source = harness.source(["a"])
    assert source.retained() is None
    source.setup()
    before = source.retained()
    assert before is not None
    assert not before.is_read
    assert before.left_bytes is None
    harness.writer().execute(
        "INSERT INTO a SELECT n, repeat('x', 1000) FROM generate_series(1, 1000) n"
    )
    after = source.retained()
    assert after is not None
    assert before.size_bytes is not None
    assert after.size_bytes is not None
    assert after.size_bytes > before.size_bytes + 1_000_000


@pytest.mark.parametrize("changes", ["replication", "triggers"])
def test_a_table_from_which_others_inherit_is_refused_in_words(
    harness: PostgresHarness, changes: str
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE heir (more int) INHERITS (a)")
    writer.execute("INSERT INTO heir VALUES (1, 'x', 2)")
    assert harness.contents("a") == {(1, "x"): 1}, "in SQL the heir's rows are the parent's too"
    refused = owned(harness, MINE, changes=changes)
    for ask in (refused.relations, refused.setup):
        with pytest.raises(SourceError, match=r"\.a has tables that inherit from it \(.*heir\)"):
            ask()


def test_a_table_that_another_publication_sends_in_part_is_refused_in_words(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE PUBLICATION others FOR TABLE a (id)")
    source = harness.source(["a"])
    with pytest.raises(SourceError, match=r"others sends only some columns of public\.a"):
        source.setup()
    writer.execute("INSERT INTO a VALUES (1, 'x'); DELETE FROM a")
    by_triggers = harness.source(["a"], changes="triggers")
    by_triggers.setup()
    writer.execute("INSERT INTO a VALUES (1, 'x'); DELETE FROM a")
    by_triggers.teardown()
    writer.execute("ALTER PUBLICATION others SET TABLE a")
    harness.source(["a"]).setup()


def test_a_table_that_inherits_is_followed_like_any_other(harness: PostgresHarness) -> None:
    harness.writer().execute("CREATE TABLE heir (more int) INHERITS (a)")
    name = f"s{harness.name}"
    source = PostgresSource(name, harness.dsn, ["heir"], owner=MINE)
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute("INSERT INTO heir VALUES (1, 'x', 2)")
    writer.execute("UPDATE a SET part = 'y'")
    inserted, updated = read_log(monitor, 2)
    heir = f"{name}.heir"
    assert list(inserted.transaction.deltas[heir].items()) == [((1, "x", 2), 1)]
    assert dict(updated.transaction.deltas[heir].items()) == {(1, "x", 2): -1, (1, "y", 2): 1}
    monitor.close()


# Somebody puts something else under a table's name


@pytest.fixture(params=["replication", "triggers"])
def swapped(request: pytest.FixtureRequest) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(changes=request.param)
    harness.create_table("a", LINES, ["id"])
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    harness.writer().execute("CREATE SEQUENCE ran")  # counts even in what is rolled back
    harness.writer().execute(
        "CREATE FUNCTION evil() RETURNS text LANGUAGE sql AS "
        "$$ SELECT pg_logical_emit_message(false, 'evil', 'x')::text $$"
    )
    yield harness
    harness.close()


SWAP = (
    "ALTER TABLE a RENAME TO b",
    "CREATE VIEW a AS SELECT id, public.evil() || nextval('public.ran')::text AS part FROM b",
)


def behind_a_lock(harness: PostgresHarness, step: Any, *statements: str) -> BaseException | None:
    """Take the table's place while a step waits for the table; what the step raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            raised.append(error)

    writer = harness.writer()
    with writer.transaction():
        writer.execute("LOCK TABLE a IN ACCESS EXCLUSIVE MODE")
        thread = threading.Thread(target=run)
        thread.start()
        with psycopg.connect(harness.dsn, autocommit=True) as connection:
            waiting = b"SELECT FROM pg_locks WHERE NOT granted AND relation = 'a'::regclass::oid"
            while connection.execute(waiting).fetchone() is None and thread.is_alive():
                pass
        for statement in statements:
            writer.execute(statement)
    thread.join(60)
    assert not thread.is_alive()
    return raised[0] if raised else None


def has_run(harness: PostgresHarness) -> bool:
    with psycopg.connect(harness.dsn) as connection:
        row = connection.execute("SELECT is_called FROM ran").fetchone()
    assert row is not None
    return bool(row[0])


@pytest.mark.parametrize("is_restricted", [True, False])
def test_a_view_that_takes_a_tables_place_is_never_asked(
    swapped: PostgresHarness, is_restricted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrestrict(monkeypatch, is_restricted)
    source = swapped.source(["a"])
    source.setup()
    query = whole(source.relations(), "a")
    wrapper = source.open_wrapper()
    error = behind_a_lock(swapped, lambda: wrapper.ask([query]), *SWAP)
    wrapper.close()
    assert isinstance(error, LostConnectionError)
    assert not has_run(swapped)
    with pytest.raises(SourceError, match="is a view, not a table"):
        answered(source, query)
    assert not has_run(swapped)


@pytest.mark.parametrize("is_restricted", [True, False])
def test_a_view_that_takes_a_tables_place_is_never_loaded(
    swapped: PostgresHarness, is_restricted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrestrict(monkeypatch, is_restricted)
    source = swapped.source(["a"])
    source.setup()
    load = source.open_load(["a"], 1)
    error = behind_a_lock(swapped, lambda: list(load.read("a", 0)), *SWAP)
    load.close()
    assert isinstance(error, LostConnectionError)
    assert not has_run(swapped)


def unrestrict(monkeypatch: pytest.MonkeyPatch, is_restricted: bool) -> None:
    """As servers are that do not know restrict_nonsystem_relation_kind."""
    if not is_restricted:
        settings = connecting._SETTINGS.replace("view, foreign-table", "")
        monkeypatch.setattr(connecting, "_SETTINGS", settings)


def test_a_view_is_never_read_by_a_session_of_ours(harness: PostgresHarness) -> None:
    harness.writer().execute("CREATE VIEW v AS SELECT 1 AS n")
    with Access("pg", harness.dsn).connect() as connection, pytest.raises(psycopg.Error):
        connection.execute("SELECT * FROM public.v")


# What somebody else writes about publications


@pytest.fixture
def eve(harness: PostgresHarness) -> Iterator[psycopg.Connection[Any]]:
    """A session of a role that may make objects in the database, and no more."""
    admin = harness.writer()
    admin.execute("DROP ROLE IF EXISTS eve; CREATE ROLE eve LOGIN")
    admin.execute(f'GRANT CREATE ON DATABASE "{harness.name}" TO eve')
    with psycopg.connect(harness.server.dsn(harness.name, "eve"), autocommit=True) as session:
        yield session
    admin.execute("DROP OWNED BY eve CASCADE; DROP ROLE eve")


def comment_on(session: psycopg.Connection[Any], publication: str, comment: str) -> None:
    session.execute(
        sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(publication), comment)
    )


@pytest.mark.parametrize(
    "note",
    [
        "[" * 100_000,
        '{"owner": 7, "slot": "s", "made": true, "identities": {}}',
        '{"owner": "ffffffff", "slot": "s", "made": true, "identities": {"x": "d"}}',
        '{"owner": "ffffffff", "slot": "s", "made": true, "identities": {"99999999999": "d"}}',
        '{"owner": "x; rm", "slot": "s", "made": true, "identities": {}}',
        "1" * 5000,
    ],
    ids=["deep", "a number", "no number", "too large", "no owner", "digits"],
)
def test_a_note_that_cannot_be_ours_is_nobodys(
    harness: PostgresHarness, eve: psycopg.Connection[Any], note: str
) -> None:
    eve.execute("CREATE PUBLICATION hers")
    comment_on(eve, "hers", f"headwater: {note}")
    mine = owned(harness, MINE)
    mine.setup()
    assert mine.other_logs() == []
    mine.remove_log(OTHER)
    mine.open_monitor(None).close()
    mine.teardown()


def test_what_a_dba_has_made_stays_and_is_not_read(harness: PostgresHarness) -> None:
    theirs = f"billing_{harness.name}"
    writer = harness.writer()
    writer.execute("CREATE PUBLICATION headwater_billing FOR TABLE a")
    writer.execute(f"SELECT pg_create_logical_replication_slot('{theirs}', 'pgoutput')")
    names = {"slot": theirs, "publication": "headwater_billing", "owner": MINE}
    source = harness.source(["a"], **names)
    for command in (source.setup, source.set_up_again, lambda: source.open_monitor(None)):
        with pytest.raises(SourceError, match="which was not made for this warehouse"):
            command()
    assert source.stays() == [
        "The publication headwater_billing stays: setup did not make it.",
        f"The replication slot {theirs} stays: setup did not make it.",
    ]
    source.teardown()
    left = "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name = %s"
    left += " UNION ALL SELECT pubname::text FROM pg_publication"
    found = writer.connection.execute(left.encode(), [theirs]).fetchall()
    assert found == [(theirs,), ("headwater_billing",)]
    writer.execute(f"SELECT pg_drop_replication_slot('{theirs}')")


def test_a_slot_is_known_by_its_name_when_its_note_is_lost(harness: PostgresHarness) -> None:
    source = owned(harness, MINE)
    source.setup()
    name = default_name(source.name, MINE)
    harness.writer().execute(f"COMMENT ON PUBLICATION {name} IS 'rewritten'")
    assert source.stays() == []
    source.set_up_again()
    source.open_monitor(None).close()
    source.teardown()
    rows = harness.writer().connection.execute("SELECT pubname FROM pg_publication").fetchall()
    assert rows == []


def test_nobody_has_the_slot_or_the_tables_of_others_removed_by_a_note(
    harness: PostgresHarness, eve: psycopg.Connection[Any]
) -> None:
    mine, others = owned(harness, MINE), f"billing_{harness.name}"
    mine.setup()
    writer = harness.writer()
    writer.execute("ALTER TABLE a REPLICA IDENTITY FULL")
    writer.execute(f"SELECT pg_create_logical_replication_slot('{others}', 'pgoutput')")
    row = writer.connection.execute("SELECT 'a'::regclass::oid::text").fetchone()
    assert row is not None
    eve.execute("CREATE PUBLICATION hers; CREATE PUBLICATION also_hers")
    comment_on(eve, "hers", str(Note(OTHER, others, True, {row[0]: "n"})))
    taken = f"headwater_x_{OTHER}"
    comment_on(eve, "also_hers", str(Note(OTHER, taken, True, {row[0]: "n"})))
    assert mine.other_logs() == []
    mine.remove_log(OTHER)
    assert identity(harness) == "f"
    slots = writer.connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall()
    assert (others,) in slots
    mine.teardown()


def test_forged_marks_do_not_hold_up_an_answer(
    harness: PostgresHarness, eve: psycopg.Connection[Any]
) -> None:
    source = owned(harness, MINE)
    source.setup()
    query = whole(source.relations(), "a")
    monitor = source.open_monitor(None)
    wrapper = source.open_wrapper()
    reply = wrapper.ask([query])
    eve.execute(
        "SELECT pg_logical_emit_message(true, 'headwater', %s || n) "
        "FROM generate_series(1, 20000) n",
        [f"{default_name(source.name, MINE)}/"],
    )
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    order = Order()
    while order.end == 0:
        order.take(monitor.read(0.2))
    assert order.has_passed(reply.marker)
    assert not order.has_passed(f"{default_name(source.name, MINE)}/20000")
    wrapper.close()
    monitor.close()


@pytest.mark.parametrize("changes", ["replication", "triggers"])
def test_a_database_without_an_encoding_is_refused_in_words(
    harness: PostgresHarness, changes: str
) -> None:
    name = f"{harness.name}_ascii"
    harness.server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
    )
    dsn = harness.server.dsn(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY, part text)")
    source = harness.source(["a"], dsn=dsn, slot=name, changes=changes)
    for step in (source.relations, source.setup, source.setup_statements):
        with pytest.raises(SourceError, match=r"SQL_ASCII.* ENCODING 'UTF8'"):
            step()
    source.teardown()
    harness.server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_question_notices_an_index_that_would_run_somebody_elses_function(
    harness: PostgresHarness, eve: psycopg.Connection[Any]
) -> None:
    source = owned(harness, MINE)
    source.setup()
    query = whole(source.relations(), "a")
    wrapper = source.open_wrapper()
    wrapper.ask([query])
    eve.execute("CREATE SCHEMA hers")
    eve.execute("CREATE FUNCTION hers.f(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true'")
    harness.writer().execute("CREATE INDEX odd ON a (part) WHERE hers.f(1)")
    with pytest.raises(SourceError, match=r"odd, an index or statistics of public\.a"):
        wrapper.ask([query])
    wrapper.close()
    with pytest.raises(SourceError, match=r"odd, an index or statistics of public\.a"):
        answered(source, query)
    harness.writer().execute("DROP INDEX odd")
    answered(source, query)
