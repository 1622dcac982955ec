"""A view that promises nothing, for demonstrations: it goes wrong, says so, and is mended."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headwater import Project
from headwater.embedded.postgres import PostgresServer
from headwater.errors import InputError
from headwater.pipeline.runner import Runner
from headwater.pipeline.status import describe, troubles
from headwater.pipeline.verify import verify_view
from tests.pipeline.world import wait_for
from tests.warehouse.test_small import no_spark

SELECT = "SELECT r1.a FROM src.r1 JOIN src.r2 ON r1.b = r2.b"
CONVENTIONAL = f"CREATE MATERIALIZED VIEW v WITH NO CONSISTENCY USING conventional AS {SELECT}"
ECA = f"CREATE MATERIALIZED VIEW v USING eca AS {SELECT}"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.stop()


class Demonstration:
    """The ECA paper's Example 2 in a real database."""

    def __init__(self, folder: Path, server: PostgresServer | None) -> None:
        self.folder, self.server = folder, server
        if server is None:
            kind = 'kind = "sqlite"\npath = "src.db"'
        else:
            kind = f'kind = "postgres"\ndsn = "{server.dsn()}"'
        (folder / "headwater.toml").write_text(
            f'[warehouse]\npath = "warehouse"\n[sources.src]\n{kind}\nrelations = ["r1", "r2"]\n'
        )
        (folder / "views").mkdir()
        self.write("CREATE TABLE r1 (a INT, b INT)", "CREATE TABLE r2 (b INT, c INT)")
        self.write("INSERT INTO r1 VALUES (1, 2)")
        self.use(CONVENTIONAL)
        self.project.sources["src"].setup()

    def use(self, view: str) -> None:
        (self.folder / "views" / "v.sql").write_text(view)
        self.project = Project.open(self.folder)

    def write(self, *statements: str) -> None:
        """Each statement as a transaction."""
        if self.server is None:
            with sqlite3.connect(self.folder / "src.db") as opened:
                for statement in statements:
                    opened.execute(statement)
                    opened.commit()
            opened.close()
        else:
            with psycopg.connect(self.server.dsn(), autocommit=True) as shop:
                for statement in statements:
                    shop.execute(statement.encode())

    def run(self, anew: tuple[str, ...] = ()) -> None:
        """Until everything that the source has committed is shown."""
        runner = Runner(self.project, no_spark, anew=anew)
        runner.start()
        try:
            wait_for(runner, lambda: runner.views["v"].state in ("running", "stopped"))
            if runner.views["v"].state == "stopped":
                raise InputError(runner.views["v"].message)
            targets = runner.targets()
            wait_for(runner, lambda: runner.reach(targets))
        finally:
            runner.stop()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_conventional_algorithm_shows_the_anomaly_and_a_reload_by_another_mends_it(
    tmp_path: Path, server: PostgresServer, kind: str
) -> None:
    world = Demonstration(tmp_path, server if kind == "postgres" else None)
    try:
        world.run()
        world.write("INSERT INTO r2 VALUES (2, 3)", "INSERT INTO r1 VALUES (4, 2)")
        world.run()
        found = verify_view(world.project, "v", no_spark)
        assert dict(found.extra.items()) == {(4,): 1}  # both answers have it, as in the paper
        assert (found.promises_nothing, bool(found.missing)) == (True, False)
        assert any("NO CONSISTENCY" in told for told in troubles(describe(world.project)))
        world.use(ECA)
        with pytest.raises(InputError, match="may be wrong"):
            world.run()
        world.run(anew=("v",))
        assert verify_view(world.project, "v", no_spark).holds
    finally:
        world.project.sources["src"].teardown()
