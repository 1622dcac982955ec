"""What the owner of tables, or of the log, tries to have run with somebody else's rights."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, query_of
from headwater.embedded.postgres import shared_server
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.fetch import Fetch
from headwater.sources.postgres.reading import Reading
from headwater.sources.postgres.source import PostgresSource
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import answered, loaded, read_log, whole

EVIL = (
    "CREATE SEQUENCE ran; GRANT USAGE ON SEQUENCE ran TO PUBLIC",
    # Counts even in what is rolled back; where nothing may be written it is an error.
    "CREATE FUNCTION deed() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN "
    "IF current_user <> 'shopkeeper' THEN PERFORM nextval('public.ran'); END IF; "
    "RETURN true; END $$",
    "CREATE FUNCTION evil(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS "
    "'BEGIN RETURN public.deed(); END'",
    "CREATE FUNCTION evil(date, timestamptz) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS "
    "'BEGIN RETURN public.deed(); END'",
    # The operator's own function is the catalog's; that of its negator is not.
    "CREATE OPERATOR !== (FUNCTION = evil, LEFTARG = date, RIGHTARG = timestamptz)",
    "CREATE OPERATOR === (FUNCTION = date_eq_timestamptz, LEFTARG = date, RIGHTARG = timestamptz, "
    "NEGATOR = !==)",
)
TURNED = "NOT ('2020-01-01'::date === '2020-01-01 00:00+00'::timestamptz)"
SNEAKY = f"lpad(CASE WHEN {TURNED} THEN 'a' ELSE 'b' END, 1)"


@dataclass(frozen=True)
class Shop:
    """Tables that belong to one role, shopkeeper, and are followed by another, onlooker."""

    harness: PostgresHarness

    def sql(self, role: str, *statements: str) -> None:
        dsn = self.harness.server.dsn(self.harness.name, role)
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def source(self, role: str, **settings: object) -> PostgresSource:
        dsn = self.harness.server.dsn(self.harness.name, role)
        return self.harness.source(["a", "b"], dsn=dsn, watch_s=0, **settings)

    def set_up(self, role: str = "shopkeeper", **settings: object) -> PostgresSource:
        """What the shopkeeper, or somebody else, sets up for the onlooker."""
        self.source(role, **settings).setup()
        for statement in self.source("onlooker", **settings).setup_statements():
            self.sql(role, statement)
        return self.source("onlooker", **settings)

    def has_run(self) -> bool:
        with psycopg.connect(self.harness.dsn) as connection:
            row = connection.execute("SELECT is_called FROM ran").fetchone()
        assert row is not None
        return bool(row[0])

    def behind_a_lock(
        self, table: str, step: Callable[[], object], *statements: str
    ) -> BaseException | None:
        """The shopkeeper alters a table while a step waits for it; what the step raised."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                step()
            except BaseException as error:
                raised.append(error)

        dsn = self.harness.server.dsn(self.harness.name, "shopkeeper")
        waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = %s::regclass::oid"
        with psycopg.connect(dsn) as shopkeeper, psycopg.connect(dsn, autocommit=True) as watching:
            shopkeeper.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
            thread = threading.Thread(target=run)
            thread.start()
            while watching.execute(waiting, [table]).fetchone() is None and thread.is_alive():
                pass
            for statement in statements:
                shopkeeper.execute(statement.encode())
        thread.join(60)
        assert not thread.is_alive()
        return raised[0] if raised else None


def opened(major: int, replication: bool) -> Shop:
    server = shared_server(major)
    for role in ("shopkeeper", "onlooker"):
        with suppress(psycopg.errors.DuplicateObject):
            server.execute(f"CREATE ROLE {role} LOGIN REPLICATION")
    changes = "replication" if replication else "triggers"
    shop = Shop(PostgresHarness(server, changes))
    server.execute(f'ALTER DATABASE "{shop.harness.name}" OWNER TO shopkeeper')
    shop.sql(
        "shopkeeper",
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, part text)" for name in ("a", "b")),
        "INSERT INTO a SELECT n, 'x' FROM generate_series(1, 3) n",
        "GRANT SELECT ON a, b TO onlooker",
        *EVIL,
    )
    return shop


@pytest.fixture(params=[True, False], ids=["replication", "triggers"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    shop = opened(16, request.param)
    yield shop
    shop.harness.close()


@pytest.fixture(params=[16, 18])
def triggers(request: pytest.FixtureRequest) -> Iterator[Shop]:
    shop = opened(request.param, False)
    yield shop
    shop.harness.close()


@pytest.fixture
def newest() -> Iterator[Shop]:
    """At a server that computes generated columns when they are read."""
    shop = opened(18, False)
    yield shop
    shop.harness.close()


def a_question(source: PostgresSource) -> Query:
    return whole(source.relations(), "a")


# What planning evaluates

HIDDEN = {
    "a negator": f"CREATE INDEX odd ON a (id) WHERE {SNEAKY} = 'a'",
    "a negator in statistics": f"CREATE STATISTICS odd ON ({SNEAKY}), id FROM a",
    "an operator": "CREATE INDEX odd ON a (id) WHERE 1 <<>> id",
    "a commutator": "CREATE INDEX odd ON a (id) WHERE 1 <<< id::bigint",
    "a composite": "CREATE INDEX odd ON a (id) WHERE ROW(id, part)::pair IS NOT NULL",
    "an array of a domain": "CREATE INDEX odd ON a (id) WHERE ARRAY[id]::whole[] IS NOT NULL",
}


@pytest.mark.parametrize("hidden", HIDDEN)
def test_nothing_is_planned_behind_which_there_is_something_of_its_owner(
    newest: Shop, hidden: str
) -> None:
    newest.sql(
        "shopkeeper",
        "CREATE OPERATOR <<>> (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int)",
        "CREATE FUNCTION more(bigint, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true'",
        "CREATE OPERATOR >>> (FUNCTION = more, LEFTARG = bigint, RIGHTARG = int)",
        "CREATE OPERATOR <<< (FUNCTION = int48lt, LEFTARG = int, RIGHTARG = bigint, "
        "COMMUTATOR = >>>)",
        "CREATE TYPE pair AS (n int, t text); CREATE DOMAIN whole AS int CHECK (evil(1))",
    )
    newest.sql("postgres", "ALTER OPERATOR <<< (int, bigint) OWNER TO postgres")
    newest.sql("shopkeeper", HIDDEN[hidden])
    assert set(newest.source("onlooker").relations()) == {"b"}
    (problem,) = newest.source("onlooker").problems()
    assert "odd, an index or statistics of public.a" in str(problem)
    assert "a" in newest.source("shopkeeper").relations()  # it is the shopkeeper's own
    assert not newest.has_run()


def test_an_index_may_use_enumerated_types_and_what_belongs_to_superusers(newest: Shop) -> None:
    newest.sql("postgres", "CREATE FUNCTION good(int) RETURNS bool IMMUTABLE RETURN true")
    newest.sql(
        "shopkeeper",
        "CREATE TYPE kind AS ENUM ('new', 'old'); ALTER TABLE a ADD COLUMN kind kind",
        "CREATE INDEX ON a (id) WHERE kind = 'new' AND kind = ANY ('{new,old}') AND good(1)",
        "CREATE INDEX ON a (lower(part) text_pattern_ops)",
    )
    assert "a" in newest.source("onlooker").relations()


def test_an_index_that_comes_while_a_load_waits_is_not_planned(shop: Shop) -> None:
    source = shop.set_up()
    load = source.open_load(["a"], 1)
    error = shop.behind_a_lock(
        "a", lambda: list(load.read("a", 0)), "CREATE INDEX odd ON a (id) WHERE evil(1)"
    )
    load.close()
    assert isinstance(error, SourceError)
    assert "odd, an index or statistics of public.a" in str(error)
    assert not shop.has_run()


GENERATED = f"GENERATED ALWAYS AS ({SNEAKY}) VIRTUAL"


def test_a_column_that_is_computed_now_is_not_loaded(newest: Shop) -> None:
    load = newest.set_up().open_load(["a"], 1)
    error = newest.behind_a_lock(
        "a",
        lambda: list(load.read("a", 0)),
        f"ALTER TABLE a DROP COLUMN part, ADD COLUMN part text {GENERATED}",
    )
    load.close()
    assert isinstance(error, LostConnectionError)
    assert "its columns were altered" in str(error)
    assert not newest.has_run()


def test_a_column_that_is_computed_now_is_not_asked_for(newest: Shop) -> None:
    source = newest.set_up()
    question, wrapper = a_question(source), source.open_wrapper()
    newest.sql("shopkeeper", f"ALTER TABLE a DROP COLUMN part, ADD COLUMN part text {GENERATED}")
    with pytest.raises(LostConnectionError, match="was altered"):
        wrapper.ask([question])
    wrapper.close()
    assert not newest.has_run()


def test_an_index_that_comes_during_a_question_is_named_behind_the_answer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = shop.set_up()
    question, wrapper = a_question(source), source.open_wrapper()
    answer = Reading.run
    wrapper.ask([question])
    shop.sql("shopkeeper", "CREATE FUNCTION calm(int) RETURNS bool IMMUTABLE RETURN true")

    def slow(self: Reading, fetch: Fetch) -> object:
        shop.sql("shopkeeper", "CREATE INDEX odd ON a (id) WHERE calm(1)")
        return answer(self, fetch)

    monkeypatch.setattr(Reading, "run", slow)
    with pytest.raises(SourceError, match=r"odd, an index or statistics of public\.a"):
        wrapper.ask([question])
    wrapper.close()


def test_indexes_that_take_each_others_place_are_noticed(shop: Shop) -> None:
    """Two that go and one that comes must not look like no change at all."""
    shop.sql("shopkeeper", *(f"CREATE INDEX i{n} ON a (id) WHERE id > {n}" for n in range(2)))
    source = shop.set_up()
    question, wrapper = a_question(source), source.open_wrapper()
    wrapper.ask([question])
    shop.sql("shopkeeper", "DROP INDEX i0, i1", "CREATE INDEX ON a (id) WHERE id > 5")
    with pytest.raises(LostConnectionError, match="was altered"):
        wrapper.ask([question])
    wrapper.close()


# What triggers run with the rights of setup


def test_truncate_reads_nothing_with_the_rights_of_setup(triggers: Shop) -> None:
    triggers.set_up("postgres")
    triggers.sql("shopkeeper", HIDDEN["a negator"], "TRUNCATE a")
    assert not triggers.has_run()


def test_triggers_compute_no_column_with_the_rights_of_setup(newest: Shop) -> None:
    newest.set_up("postgres")
    newest.sql(
        "shopkeeper",
        f"ALTER TABLE a DROP COLUMN part, ADD COLUMN part text {GENERATED}",
        "INSERT INTO a VALUES (7)",
        "UPDATE a SET id = 8 WHERE id = 7",
        "DELETE FROM a WHERE id = 8",
        "TRUNCATE a",
    )
    assert not newest.has_run()


# What the owner of the log makes of it

RUNS_SQL = "ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery WHERE public.deed()')"
ALTERED = {
    "a partition": (
        "CREATE FUNCTION sly(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN PERFORM public.deed(); RETURN ''x''; END'",
        "CREATE TABLE parent (LIKE {log} INCLUDING DEFAULTS) PARTITION BY LIST (sly(note))",
        "ALTER TABLE parent ATTACH PARTITION {log} FOR VALUES IN ('x')",
    ),
    "a default": (
        "ALTER TABLE {log} ADD x text",
        f"ALTER TABLE {{log}} ALTER x SET DEFAULT {RUNS_SQL}::text",
    ),
    "another default": (f"ALTER TABLE {{log}} ALTER note SET DEFAULT {RUNS_SQL}::text",),
    "a trigger": (
        "CREATE FUNCTION sly() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM public.deed(); RETURN NEW; END'",
        "CREATE TRIGGER t BEFORE INSERT ON {log} FOR EACH ROW EXECUTE FUNCTION sly()",
    ),
    "a rule": ("CREATE RULE r AS ON INSERT TO {log} DO ALSO SELECT public.deed()",),
    "an index": ("CREATE INDEX ON {log} (shape) WHERE evil(1)",),
    "an index of the catalog's": (f"CREATE INDEX ON {{log}} (shape) WHERE {SNEAKY} = 'a'",),
    "statistics": ("CREATE STATISTICS s ON (shape IS NULL OR evil(1)), note FROM {log}",),
    "a constraint": ("ALTER TABLE {log} ADD CHECK (evil(1)) NOT VALID",),
    "a child": (
        "CREATE TABLE child () INHERITS ({log})",
        "CREATE INDEX ON child (shape) WHERE evil(1)",
    ),
    "a generated column": (
        f"ALTER TABLE {{log}} ADD x text GENERATED ALWAYS AS ({SNEAKY}) STORED",
    ),
}


def altering(shop: Shop, kind: str) -> list[str]:
    return [statement.format(log=f"{shop.harness.name}.log") for statement in ALTERED[kind]]


@pytest.mark.parametrize("kind", ALTERED)
def test_a_log_that_its_owner_has_altered_is_neither_read_nor_written(
    triggers: Shop, kind: str
) -> None:
    source = triggers.set_up()
    triggers.sql("shopkeeper", *altering(triggers, kind))
    steps: Sequence[Callable[[], object]] = (
        lambda: source.open_monitor(None),
        source.open_wrapper,
        source.retained,
        source.setup_statements,
        lambda: source.open_load(["a"], 1),
    )
    for step in steps:
        with pytest.raises(SourceError, match=r"log in the .* is not one that setup made"):
            step()
    assert not triggers.has_run()


@pytest.mark.parametrize("kind", ALTERED)
def test_a_log_that_is_altered_while_it_is_followed_runs_nothing(triggers: Shop, kind: str) -> None:
    source = triggers.set_up()
    question, monitor, wrapper = (
        a_question(source),
        source.open_monitor(None),
        source.open_wrapper(),
    )
    wrapper.ask([question])
    triggers.sql("shopkeeper", "INSERT INTO a VALUES (4, 'y')")
    (item,) = read_log(monitor, 1)
    triggers.sql("shopkeeper", *altering(triggers, kind))
    with pytest.raises(SourceError, match="is not one that setup made"):
        wrapper.ask([question])
    with pytest.raises(SourceError, match="is not one that setup made"):
        monitor.read(0)
    monitor.acknowledge(item.position)
    monitor.close()  # cleans up, and writes for that
    wrapper.close()
    assert not triggers.has_run()


@pytest.mark.parametrize("table", ["state", "tables", "shapes", "bodies"])
def test_what_the_log_says_of_itself_is_read_only_while_it_is_as_it_was(
    triggers: Shop, table: str
) -> None:
    source, name = triggers.set_up(), f"{triggers.harness.name}.{table}"
    error = triggers.behind_a_lock(
        name,
        lambda: source.open_monitor(None),
        f"CREATE INDEX ON {name} ((1)) WHERE evil(1)",
    )
    assert isinstance(error, SourceError)
    assert f"the table {table} in the schema" in str(error)
    assert not triggers.has_run()


def test_a_log_is_begun_anew_only_if_it_is_what_setup_makes(triggers: Shop) -> None:
    source = triggers.set_up()
    triggers.sql(
        "shopkeeper",
        "CREATE FUNCTION sly() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM public.deed(); RETURN NULL; END'",
        f"CREATE TRIGGER t BEFORE TRUNCATE ON {triggers.harness.name}.log EXECUTE FUNCTION sly()",
    )
    with pytest.raises(SourceError, match="is not one that setup made"):
        source.set_up_again()
    assert not triggers.has_run()


# What anybody may write into the server's own log


def test_a_message_of_somebody_else_is_not_copied() -> None:
    size = 32 << 20
    shop = opened(16, True)
    source = shop.set_up()
    monitor = source.open_monitor(None)
    try:
        for prefix in ("x", "headwater"):
            shop.sql(
                "shopkeeper",
                f"SELECT pg_logical_emit_message(false, '{prefix}', repeat('x', {size}))",
                f"INSERT INTO b VALUES ({len(prefix)}, 'y')",
            )
            tracemalloc.start()
            read_log(monitor, 1)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert most < 1.5 * size  # what the driver has handed over, once
    finally:
        monitor.close()
        shop.harness.close()


# Types and partitions that belong to others


def test_a_value_becomes_text_without_the_cast_that_its_types_owner_has_made(shop: Shop) -> None:
    for kind in ("pair AS (n int)", "kind AS ENUM ('k')"):
        name = kind.split()[0]
        shop.sql(
            "shopkeeper",
            f"CREATE TYPE {kind}",
            f"CREATE FUNCTION shown({name}) RETURNS text LANGUAGE plpgsql IMMUTABLE AS "
            "'BEGIN PERFORM public.deed(); RETURN 1; END'",
            f"CREATE CAST ({name} AS text) WITH FUNCTION shown({name}) AS IMPLICIT",
            f"ALTER TABLE a ADD COLUMN {name} {name}",
        )
    shop.sql("shopkeeper", "UPDATE a SET pair = '(1)', kind = 'k'")
    source = shop.set_up(as_text={"a": ["pair"]})
    shop.sql("shopkeeper", "INSERT INTO a VALUES (9, '(1)', '(1)', 'k')")
    relations = source.relations()
    load = source.open_load(["a"], 1)
    assert len(loaded(load, "a", relations["a"].schema)) == 4
    load.close()
    joined = "SELECT x.id, y.id AS other FROM a x JOIN b y ON x.pair = y.part AND x.kind = y.part"
    view = parse_view(joined, relations)
    assert answered(source, a_question(source), query_of(view))[1] == {}
    assert not shop.has_run()


def test_what_is_planned_with_a_partition_is_looked_at_too(newest: Shop) -> None:
    newest.sql(
        "shopkeeper",
        "CREATE TABLE p (id int, at int PRIMARY KEY) PARTITION BY RANGE (at)",
        "CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "GRANT SELECT ON p, p0 TO onlooker",
    )
    dsn = newest.harness.server.dsn(newest.harness.name, "onlooker")
    source = newest.harness.source(["p"], dsn=dsn, changes="replication")
    query = whole(source.relations(), "p")
    wrapper = source.open_wrapper()
    assert wrapper.ask([query]).results
    newest.sql(
        "shopkeeper",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        f"CREATE INDEX odd ON p1 (id) WHERE {SNEAKY} = 'a'",
    )
    with pytest.raises(SourceError, match=r"odd, an index or statistics of public\.p"):
        wrapper.ask([query])
    wrapper.close()
    with pytest.raises(SourceError, match=r"odd, an index or statistics of public\.p"):
        newest.harness.source(["p"], dsn=dsn, changes="replication").relations()
    assert not newest.has_run()
