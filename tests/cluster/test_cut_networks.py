"""Brokers that do not reach each other, although everybody else reaches them.

pytest tests/cluster/test_cut_networks.py --cluster-faults 4     each kind of cut
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.cluster.loads.client_load import COPIED, PARTITIONS, SENT
from tests.cluster.loads.clients import CLIENTS
from tests.cluster.loads.network_faults import CUTS, LAG_MS
from tests.cluster.loads.running import running_load
from tests.cluster.replica_files import differing
from tests.conftest import TEST_SETTINGS
from tests.support.broker_network import broker_network
from tests.support.cluster_process import ClusterProcess


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers in a network that can be cut."""
    settings = (*TEST_SETTINGS, f"replica.lag.time.max.ms={LAG_MS}")
    with broker_network() as network:
        cluster = ClusterProcess(tmp_path / "cluster", settings=settings, network=network)
        try:
            cluster.start()
            yield cluster
            cluster.check()
        finally:
            cluster.close()


@pytest.mark.slow("cuts that last longer than a session, --cluster-faults of them")
@pytest.mark.timeout(0)
def test_nothing_is_lost_and_replicas_catch_up_after_a_cut(
    cluster: ClusterProcess, tmp_path: Path, choices: Random, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--cluster-faults")
    order = choices.sample(CUTS, len(CUTS))
    with running_load(cluster, CLIENTS["librdkafka"](), tmp_path, replicas=3) as load:
        for number in range(count):
            fault = order[number % len(order)]
            with load.fault(fault.__name__):
                fault(cluster, load, choices)
    for each in cluster.brokers:
        cluster.drain(each)
    found = [each for topic in (SENT, COPIED) for each in differing(cluster, topic, PARTITIONS)]
    assert found == []
