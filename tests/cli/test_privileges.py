"""Commands under roles that have exactly the privileges which the documentation asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError, SourceError
from headwater.pipeline import life
from headwater.pipeline.runner import Runner
from headwater.pipeline.sessions import session_of
from headwater.project.project import Project
from tests.cli.commands import Result, quick
from tests.pipeline.small import supervised, wait_until

SETTINGS = """
[sources.shop]
kind = "postgres"
dsn = "${{SHOP_DSN}}"
relations = ["orders", "sales.lines"]
changes = "{changes}"
"""
VIEW = """
CREATE MATERIALIZED VIEW sold AS
SELECT o.id, o.customer, l.number, l.part FROM shop.orders o JOIN shop.lines l ON l.id = o.id
"""

ORDERS = "CREATE MATERIALIZED VIEW orders AS SELECT id FROM shop.orders"
LINES = "CREATE MATERIALIZED VIEW lines AS SELECT part FROM shop.lines"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.execute("CREATE ROLE owner LOGIN", "CREATE ROLE reader LOGIN")
    yield server
    server.stop()


@dataclass(frozen=True)
class Shop:
    """A project whose tables belong to one role, and which another follows."""

    server: PostgresServer
    folder: Path
    patch: pytest.MonkeyPatch

    def as_role(self, role: str, *arguments: str) -> Result:
        self.patch.setenv("SHOP_DSN", self.server.dsn("shop", role))
        return quick(*arguments, "-p", str(self.folder))

    def refused(self, role: str, *arguments: str) -> str:
        with pytest.raises(HeadwaterError) as caught:
            self.as_role(role, *arguments)
        return str(caught.value)

    def told(self, role: str, *arguments: str) -> str:
        """All that a command says, whether it fails or not."""
        try:
            result = self.as_role(role, *arguments)
        except HeadwaterError as error:
            return str(error)
        return result.out + result.err

    def sql(self, role: str, *statements: str) -> None:
        with psycopg.connect(self.server.dsn("shop", role), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def superuser(self, *statements: str) -> None:
        self.sql("postgres", *statements)


@pytest.fixture(params=["replication", "triggers"])
def shop(
    request: pytest.FixtureRequest,
    server: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    server.execute("CREATE DATABASE shop")
    found = Shop(server, tmp_path, monkeypatch)
    found.superuser(
        "GRANT CREATE ON DATABASE shop TO owner", "GRANT CREATE ON SCHEMA public TO owner"
    )
    found.sql(
        "owner",
        "CREATE SCHEMA sales",
        "CREATE TABLE orders (id int PRIMARY KEY, customer text)",
        "CREATE TABLE sales.lines (id int, number int, part text, PRIMARY KEY (id, number))",
        "INSERT INTO orders VALUES (1, 'Ada')",
        "INSERT INTO sales.lines VALUES (1, 1, 'bolt')",
        "GRANT USAGE ON SCHEMA sales TO reader",
        "GRANT SELECT ON orders, sales.lines TO reader",
    )
    wanted = "REPLICATION" if request.param == "replication" else "NOREPLICATION"
    found.superuser(f"ALTER ROLE reader {wanted} NOBYPASSRLS")
    (tmp_path / "headwater.toml").write_text(SETTINGS.format(changes=request.param))
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "sold.sql").write_text(VIEW)
    yield found
    server.execute(
        # Whoever read it last has closed the connection; the server may not have noticed yet.
        "SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots WHERE active",
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
        "DROP DATABASE shop WITH (FORCE)",
    )


only_replication = pytest.mark.parametrize("shop", ["replication"], indirect=True)
only_triggers = pytest.mark.parametrize("shop", ["triggers"], indirect=True)


def set_up(shop: Shop) -> None:
    """The owner runs what `--print` shows to the reader; the slot is the reader's own to make."""
    printed = shop.as_role("reader", "setup", "shop", "--print").out
    kept = [line for line in printed.splitlines() if "create_logical" not in line]
    shop.sql("owner", "\n".join(kept))
    assert shop.as_role("reader", "setup", "shop").code == 0


def test_a_role_that_may_only_read_runs_what_the_owner_has_set_up(shop: Shop) -> None:
    set_up(shop)
    assert shop.as_role("reader", "check").code == 0
    assert shop.as_role("reader", "run", "--once").code == 0
    shop.sql(
        "owner",
        "INSERT INTO orders VALUES (2, 'Bob')",
        "INSERT INTO sales.lines VALUES (2, 1, 'nut'), (1, 2, 'gear')",
        "UPDATE orders SET customer = 'Eve' WHERE id = 1",
        "DELETE FROM sales.lines WHERE part = 'bolt'",
    )
    assert shop.as_role("reader", "run", "--once").code == 0
    verified = shop.as_role("reader", "verify")
    assert verified.code == 0
    assert "2 rows" in verified.out


def test_teardown_tells_the_owner_what_is_left_to_do(shop: Shop) -> None:
    set_up(shop)
    assert shop.as_role("reader", "run", "--once").code == 0
    told = shop.refused("reader", "teardown", "shop")
    match = re.search("As a role that may, run: (.*)$", told, re.DOTALL)
    assert match is not None
    shop.sql("owner", match[1])
    assert shop.as_role("reader", "teardown", "shop").code == 0
    with psycopg.connect(shop.server.dsn("shop")) as connection:
        left = b"SELECT slot_name::text FROM pg_replication_slots UNION ALL SELECT pubname::text "
        left += b"FROM pg_publication UNION ALL SELECT tgname::text FROM pg_trigger"
        assert connection.execute(left).fetchall() == []
        kinds = b"SELECT DISTINCT relreplident::text FROM pg_class WHERE relname = 'orders'"
        assert connection.execute(kinds).fetchall() == [("d",)]


@only_replication
def test_a_lost_slot_is_repaired_without_the_owner(shop: Shop) -> None:
    set_up(shop)
    assert shop.as_role("reader", "run", "--once").code == 0
    shop.superuser("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    shop.sql("owner", "INSERT INTO sales.lines VALUES (1, 9, 'missed')")
    assert "headwater repair shop" in shop.refused("reader", "run", "--once")
    assert shop.as_role("reader", "repair", "shop").code == 0
    assert "2 rows" in shop.as_role("reader", "verify").out


# What a role lacks


def test_rows_that_policies_hide_are_refused_by_every_command(shop: Shop) -> None:
    set_up(shop)
    shop.sql("owner", "ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    checked = shop.as_role("reader", "check")
    assert checked.code == 2
    assert "row-level security hides rows of public.orders from the role reader" in checked.err
    for command in (["setup", "shop"], ["setup", "shop", "--print"], ["run", "--once"]):
        assert 'ALTER ROLE "reader" BYPASSRLS' in shop.refused("reader", *command)
    shop.superuser("ALTER ROLE reader BYPASSRLS")
    assert shop.as_role("reader", "check").code == 0
    assert shop.as_role("reader", "run", "--once").code == 0
    assert "1 rows" in shop.as_role("reader", "verify").out


def test_policies_that_hide_no_rows_from_the_role_are_no_obstacle(shop: Shop) -> None:
    shop.sql("owner", "ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    assert "row-level" not in shop.as_role("owner", "check").err
    shop.sql("owner", "ALTER TABLE orders FORCE ROW LEVEL SECURITY")
    assert "row-level security hides" in shop.as_role("owner", "check").err
    assert "row-level" not in shop.as_role("postgres", "check").err


def test_policies_that_come_while_views_run_never_make_them_wrong(shop: Shop) -> None:
    set_up(shop)
    assert shop.as_role("reader", "run", "--once").code == 0
    shop.sql(
        "owner",
        "ALTER TABLE sales.lines ENABLE ROW LEVEL SECURITY",
        "INSERT INTO orders VALUES (2, 'Bob')",
        "INSERT INTO sales.lines VALUES (2, 1, 'nut')",
    )
    assert "row-level security" in shop.refused("reader", "run", "--once")
    shop.superuser("ALTER ROLE reader BYPASSRLS")
    assert shop.as_role("reader", "run", "--once").code == 0
    assert "2 rows" in shop.as_role("reader", "verify").out


@pytest.mark.parametrize(
    ("taken", "remedy"),
    [
        ("REVOKE SELECT ON orders FROM reader", 'GRANT SELECT ON "public"."orders" TO "reader"'),
        ("REVOKE USAGE ON SCHEMA sales FROM reader", 'GRANT USAGE ON SCHEMA "sales" TO "reader"'),
    ],
)
def test_a_table_that_may_not_be_read_is_told_with_the_statement(
    shop: Shop, taken: str, remedy: str
) -> None:
    set_up(shop)
    shop.sql("owner", taken)
    checked = shop.as_role("reader", "check")
    assert checked.code == 2
    assert remedy in checked.err
    shop.sql("owner", remedy)
    assert shop.as_role("reader", "check").code == 0
    assert shop.as_role("reader", "run", "--once").code == 0


def test_rights_to_some_columns_are_told_not_to_be_enough(shop: Shop) -> None:
    shop.sql("owner", "REVOKE SELECT ON orders FROM reader")
    shop.sql("owner", "GRANT SELECT (id) ON orders TO reader")
    checked = shop.as_role("reader", "check")
    assert checked.code == 2
    assert "rights to some of its columns are not enough" in checked.err
    assert 'GRANT SELECT ON "public"."orders" TO "reader"' in checked.err


@pytest.mark.parametrize(
    ("taken", "remedy"),
    [
        ("REVOKE SELECT ON orders FROM reader", 'GRANT SELECT ON "public"."orders" TO "reader"'),
        (
            "REVOKE USAGE ON SCHEMA public FROM public",
            'GRANT USAGE ON SCHEMA "public" TO "reader"',
        ),
    ],
)
def test_rights_that_are_taken_and_given_back_while_views_run_cost_no_load(
    shop: Shop, taken: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "RETRY_S", 0.2)
    set_up(shop)
    project = Project.open(shop.folder)
    with supervised(Runner(project, session_of(project))) as runner:
        wait_until(lambda: runner.views["sold"].state == "running", runner.describe)
        loaded = runner.warehouse.view("sold").latest().number
        shop.superuser(taken)
        shop.superuser("INSERT INTO orders VALUES (2, 'Bob')")
        shop.superuser("INSERT INTO sales.lines VALUES (2, 1, 'nut')")
        wait_until(lambda: remedy in runner.views["sold"].message, runner.describe)
        assert runner.views["sold"].state == "waiting"
        shop.superuser(remedy)
        wait_until(lambda: len(runner.warehouse.view("sold").rows()) == 2, runner.describe)
        kinds = [c.kind for c in runner.warehouse.view("sold").commits() if c.number > loaded]
        assert "load" not in kinds


def test_a_view_is_told_of_its_own_tables_when_no_table_can_be_used(shop: Shop) -> None:
    set_up(shop)
    (shop.folder / "views" / "orders.sql").write_text(ORDERS)
    (shop.folder / "views" / "lines.sql").write_text(LINES)
    assert shop.as_role("reader", "run", "--once").code == 0
    shop.sql("owner", "REVOKE SELECT ON orders, sales.lines FROM reader")
    told = shop.told("reader", "run", "--once", "--json")
    assert "\\n" not in told
    views = json.loads(shop.as_role("reader", "status", "--json").out)["views"]
    assert '"orders"' in views["orders"]["message"]
    assert '"lines"' not in views["orders"]["message"]
    assert '"orders"' not in views["lines"]["message"]
    assert '"orders"' in views["sold"]["message"]
    assert '"lines"' in views["sold"]["message"]


@only_replication
def test_check_says_that_the_role_may_not_read_the_log(shop: Shop) -> None:
    shop.superuser("ALTER ROLE reader NOREPLICATION")
    checked = shop.as_role("reader", "check")
    assert checked.code == 2
    assert 'ALTER ROLE "reader" REPLICATION;' in checked.err


@only_triggers
def test_a_log_that_another_role_has_made_is_granted_by_what_check_says(shop: Shop) -> None:
    assert shop.as_role("owner", "setup", "shop").code == 0
    checked = shop.as_role("reader", "check")
    assert checked.code == 2
    assert "the role reader may not read and clean the log" in checked.err
    told = shop.refused("reader", "run", "--once")
    match = re.search("As the role that ran setup, run: (.*)$", told, re.DOTALL)
    assert match is not None
    shop.sql("owner", match[1])
    assert shop.as_role("reader", "check").code == 0
    assert shop.as_role("reader", "run", "--once").code == 0


@only_triggers
def test_check_says_that_sessions_which_may_only_read_cannot_follow_triggers(shop: Shop) -> None:
    set_up(shop)
    shop.superuser("ALTER ROLE reader SET default_transaction_read_only = on")
    try:
        checked = shop.as_role("reader", "check")
        assert checked.code == 2
        assert "sessions of this role are read-only" in checked.err
        with pytest.raises(SourceError, match="read-only"):
            shop.as_role("reader", "run", "--once")
    finally:
        shop.superuser("ALTER ROLE reader RESET default_transaction_read_only")


@only_triggers
@pytest.mark.parametrize("command", [("check",), ("setup", "shop"), ("status",), ("run", "--once")])
@pytest.mark.parametrize("disguise", ["a view", "a table with an index"])
def test_nothing_is_read_of_a_log_that_somebody_else_has_put_there(
    shop: Shop, command: tuple[str, ...], disguise: str
) -> None:
    shop.superuser("DROP ROLE IF EXISTS eve", "CREATE ROLE eve LOGIN")
    shop.superuser("GRANT CREATE ON DATABASE shop TO eve")
    assert shop.as_role("owner", "setup", "shop").code == 0
    with psycopg.connect(shop.server.dsn("shop")) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname ~ '^headwater_'"
        ).fetchone()
    assert found is not None
    (name,) = found
    assert shop.as_role("owner", "teardown", "shop").code == 0
    shop.sql(
        "eve",
        f"CREATE SCHEMA {name} CREATE TABLE loot (who text)",
        f"GRANT ALL ON SCHEMA {name} TO PUBLIC; GRANT ALL ON {name}.loot TO PUBLIC",
        f"CREATE FUNCTION {name}.evil(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
        f"IF current_user <> 'eve' THEN EXECUTE 'INSERT INTO {name}.loot VALUES (current_user)'; "
        "END IF; RETURN 'x'; END $$",
        f"CREATE VIEW {name}.state AS SELECT 2 AS version, {name}.evil(1) AS owner, 1 AS log, "
        "1 AS acknowledged"
        if disguise == "a view"
        else f"CREATE TABLE {name}.state (version int, owner text, log oid, acknowledged text)",
        f"GRANT ALL ON {name}.state TO PUBLIC",
    )
    if disguise != "a view":
        shop.sql("eve", f"CREATE INDEX ON {name}.state (owner) WHERE {name}.evil(1) = 'x'")
    told = shop.told("owner", *command)
    with psycopg.connect(shop.server.dsn("shop")) as connection:
        assert connection.execute(f"SELECT * FROM {name}.loot".encode()).fetchall() == []
    shop.sql("eve", f"DROP SCHEMA {name} CASCADE")
    shop.superuser("REVOKE ALL ON DATABASE shop FROM eve", "DROP ROLE eve")
    assert "eve owns the schema" in told or command == ("status",)


EXPRESSIONS = {
    "predicate": "CREATE INDEX odd ON orders (customer) WHERE {f}(1)",
    "expression": "CREATE INDEX odd ON orders ((customer IS NULL OR {f}(1)))",
    "operator": "CREATE INDEX odd ON orders (customer) WHERE 1 OPERATOR(evil.%) 1",
    "statistics": "CREATE STATISTICS odd ON (customer IS NULL OR {f}(1)), id FROM orders",
}


def plant(shop: Shop, kind: str) -> None:
    """The owner of a table lets the server run a function of hers to plan a question."""
    shop.sql("owner", EXPRESSIONS[kind].format(f="evil.f"))


def loot(shop: Shop) -> list[tuple[str]]:
    with psycopg.connect(shop.server.dsn("shop")) as connection:
        return connection.execute("SELECT who FROM evil.loot").fetchall()


@pytest.fixture
def deed(shop: Shop) -> None:
    """A function of the tables' owner that writes down for whom it ran."""
    shop.sql(
        "owner",
        "CREATE SCHEMA evil CREATE TABLE loot (who text)",
        "GRANT USAGE ON SCHEMA evil TO PUBLIC; GRANT ALL ON evil.loot TO PUBLIC",
        "CREATE FUNCTION evil.f(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
        "IF current_user <> 'owner' THEN EXECUTE 'INSERT INTO evil.loot VALUES (current_user)'; "
        "END IF; RETURN true; END $$",
        "CREATE FUNCTION evil.g(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS "
        "'SELECT evil.f($1)'",
        "CREATE OPERATOR evil.% (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.g)",
    )


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_a_table_whose_planning_runs_a_function_of_its_owner_is_refused(
    shop: Shop, deed: None, kind: str
) -> None:
    set_up(shop)
    plant(shop, kind)
    for command in (("check",), ("setup", "shop"), ("run", "--once")):
        told = " ".join(shop.told("reader", *command).split())
        assert "odd, an index or statistics of public.orders" in told
    assert loot(shop) == []
    assert "statistics of" not in shop.told("owner", "check")  # it is the owner's own
    shop.superuser("ALTER FUNCTION evil.f(int) OWNER TO postgres")
    shop.superuser("ALTER FUNCTION evil.g(int, int) OWNER TO postgres")
    shop.superuser("ALTER OPERATOR evil.% (int, int) OWNER TO postgres")
    assert shop.as_role("reader", "check").code == 0


@only_triggers
@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_truncate_runs_no_function_of_a_tables_owner_with_the_rights_of_setup(
    shop: Shop, deed: None, kind: str
) -> None:
    assert shop.as_role("postgres", "setup", "shop").code == 0
    plant(shop, kind)
    shop.sql("owner", "SET constraint_exclusion = on", "TRUNCATE orders")
    assert loot(shop) == []
    with psycopg.connect(shop.server.dsn("shop")) as connection:
        (log,) = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relname = 'log'"
        ).fetchone() or ("",)
        notes = connection.execute(f"SELECT note FROM {log}".encode()).fetchall()
    assert notes == [("the log does not hold the rows",)]  # a gap


@only_triggers
def test_a_role_that_may_not_set_up_is_told_who_may_and_how_to_see_the_statements(
    shop: Shop,
) -> None:
    shop.superuser("GRANT CREATE ON DATABASE shop TO reader")
    shop.sql("owner", "GRANT TRIGGER ON orders, sales.lines TO reader")
    told = " ".join(shop.told("reader", "check").split())
    assert "setup needs a role that owns public.orders, sales.lines" in told
    told = shop.refused("reader", "setup", "shop")
    assert "'headwater setup shop --print' shows the statements" in told
    assert len(told) < 2000
    assert "\n" not in told
    shop.superuser("REVOKE CREATE ON DATABASE shop FROM reader")
    set_up(shop)  # nothing was begun
    assert "setup needs" not in shop.told("reader", "check")
