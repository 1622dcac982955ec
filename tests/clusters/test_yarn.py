"""The same project on YARN, where `make yarn` has put one; it takes some minutes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.embedded.postgres import PostgresServer
from tests.clusters.projects import follow_while_executors_are_killed
from tests.clusters.yarn import NoYarnError, YarnCluster


@pytest.fixture
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[YarnCluster]:
    try:
        found = YarnCluster.start()
    except NoYarnError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(found.folder))
    yield found
    found.stop()


@pytest.mark.stress
def test_a_project_runs_on_yarn_as_it_does_here_while_executors_are_killed(
    tmp_path: Path, servers: list[PostgresServer], cluster: YarnCluster
) -> None:
    follow_while_executors_are_killed(tmp_path / "shop", servers, cluster)
