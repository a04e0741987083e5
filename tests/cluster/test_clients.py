"""Clients of every library on three brokers that are drained, killed, restarted and paused.

The clients' requests and results are a history that the checker of tests/histories judges: nothing
acknowledged is lost, nothing of an idempotent producer is stored twice, each partition has the
order in which it was sent, committed offsets never go back, and transactions are atomic. An error
that a library does not retry ends its worker, and the test.

    pytest tests/cluster/test_clients.py --cluster-faults 20     more faults for each client
"""

from pathlib import Path
from random import Random

import pytest

from tests.cluster.loads.clients import CLIENTS
from tests.cluster.loads.faults import faults_of_run
from tests.cluster.loads.running import Make, running_load
from tests.support.cluster_process import ClusterProcess
from tests.support.run_seed import seeds_of_run


@pytest.mark.slow("brokers are killed under load, --cluster-faults times for each client")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_loses_and_repeats_nothing_while_brokers_come_and_go(
    client: str,
    make: Make,
    own_three_brokers: ClusterProcess,
    tmp_path: Path,
    choices: Random,
    request: pytest.FixtureRequest,
) -> None:
    cluster = own_three_brokers
    order = Random(seeds_of_run(request.config, "faults"))  # the same for each client
    first, count = list(CLIENTS).index(client), request.config.getoption("--cluster-faults")
    faults = faults_of_run(order, first, count)
    with running_load(cluster, make, tmp_path) as load:
        for fault in faults:
            with load.fault(fault.__name__):
                fault(cluster, choices)
