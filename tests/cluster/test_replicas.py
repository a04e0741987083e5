"""Clients of every library on topics with three replicas, on brokers that fail in every way.

What the clients saw is judged as in test_clients.py: nothing acknowledged is lost, nothing of an
idempotent producer is stored twice, nothing is out of order. While one broker is gone the clients
go on. In the end all replicas have the same bytes.

    pytest tests/cluster/test_replicas.py --every-client          not only some, others in each run
    pytest tests/cluster/test_replicas.py --cluster-faults 20     more faults for each client
    python -m tests.cluster.drills --faults 100                   many faults, and a table of them
"""

from pathlib import Path
from random import Random

import pytest

from tests.cluster.loads.client_load import COPIED, PARTITIONS, SENT
from tests.cluster.loads.clients import CLIENTS
from tests.cluster.loads.replica_faults import faults_of_run
from tests.cluster.loads.running import Make, running_load
from tests.cluster.replica_files import differing
from tests.support.cluster_process import ClusterProcess
from tests.support.run_seed import seeds_of_run

REPLICAS = 3
CLIENTS_PER_RUN = 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the clients of this run."""
    if "client" not in metafunc.fixturenames:
        return
    names = list(CLIENTS)
    if not metafunc.config.getoption("--every-client"):
        choices = Random(seeds_of_run(metafunc.config, "replica clients"))
        names = choices.sample(names, CLIENTS_PER_RUN)
    metafunc.parametrize("client", names)


@pytest.mark.slow("brokers fail under load, --cluster-faults times for each client")
@pytest.mark.timeout(0)
def test_replicas_lose_and_repeat_nothing_while_brokers_fail(
    client: str,
    make: Make,
    own_three_brokers: ClusterProcess,
    tmp_path: Path,
    choices: Random,
    request: pytest.FixtureRequest,
) -> None:
    cluster = own_three_brokers
    order = Random(seeds_of_run(request.config, "replica faults"))  # the same for each client
    first, count = list(CLIENTS).index(client), request.config.getoption("--cluster-faults")
    with running_load(cluster, make, tmp_path, replicas=REPLICAS) as load:
        for fault in faults_of_run(order, first, count):
            with load.fault(fault.__name__):
                fault(cluster, load, choices)
    for each in cluster.brokers:
        cluster.drain(each)
    assert [
        found for topic in (SENT, COPIED) for found in differing(cluster, topic, PARTITIONS)
    ] == []
