"""Clusters of real brokers on a real etcd; everything in this folder is marked `client`, `etcd`.

A test must leave the brokers of `three_brokers` running: the next one uses them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.loads.clients import CLIENTS
from tests.cluster.loads.running import Make
from tests.compatibility.programs import UnavailableError
from tests.conftest import TEST_SETTINGS
from tests.support.cluster_process import ClusterProcess, running_cluster
from tests.support.faulty_broker import FaultyBroker

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, so that `-m "not client"` deselects them."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.client)
            item.add_marker(pytest.mark.etcd)


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers that the tests of a module share, or a skip where there is no etcd."""
    with running_cluster(
        tmp_path_factory.mktemp("cluster"), TEST_SETTINGS, FaultyBroker
    ) as cluster:
        yield cluster


@pytest.fixture
def own_three_brokers(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers of one test."""
    with running_cluster(tmp_path / "cluster", TEST_SETTINGS, FaultyBroker) as cluster:
        yield cluster


@pytest.fixture
def make(client: str) -> Make:
    """Return what makes the load of a client, or skip with the reason why it cannot be had."""
    try:
        return CLIENTS[client]()
    except UnavailableError as error:
        pytest.skip(str(error))
