"""Clients of every library on three brokers that are drained, killed, restarted and paused.

The clients' requests and results are a history that the checker of tests/histories judges: nothing
acknowledged is lost, nothing of an idempotent producer is stored twice, each partition has the
order in which it was sent, committed offsets never go back, and transactions are atomic. An error
that a library does not retry ends its worker, and the test.

    pytest tests/cluster/test_clients.py --cluster-faults 20     more faults for each client
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.cluster.loads import aiokafka_load, confluent_load, program_load
from tests.cluster.loads.faults import faults_of_run
from tests.cluster.loads.running import Make, running_load
from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.java.tools import find as find_java
from tests.compatibility.programs import UnavailableError
from tests.support.cluster_process import ClusterProcess
from tests.support.run_seed import seeds_of_run

CLASSIC_JAVA = ("group.protocol=classic", "session.timeout.ms=6000", "heartbeat.interval.ms=300")


def java(*options: str) -> Callable[[], Make]:
    """Return what finds a Java client; the options are of its consumers."""

    def find() -> Make:
        tools = find_java()

        def command(*arguments: str) -> list[str]:
            return tools.command("Load.java", *arguments, *options)

        return partial(program_load.load, name="java", command=command)

    return find


def go(library: str) -> Callable[[], Make]:
    """Return what finds a client in Go."""

    def find() -> Make:
        program = str(compiled())

        def command(*arguments: str) -> list[str]:
            return [program, library, "load", *arguments]

        return partial(program_load.load, name=library, command=command)

    return find


def python(make: Make) -> Callable[[], Make]:
    """Return what finds a client that is installed with the tests."""
    return lambda: make


# What finds each client; UnavailableError where it cannot be had.
CLIENTS: dict[str, Callable[[], Make]] = {
    "librdkafka": python(partial(confluent_load.load, protocol="classic")),
    "librdkafka-consumer": python(partial(confluent_load.load, protocol="consumer")),
    "aiokafka": python(aiokafka_load.load),
    "java": java(*CLASSIC_JAVA),
    "java-consumer": java("group.protocol=consumer"),
    "franz-go": go("franz-go"),
    "sarama": go("sarama"),
}


@pytest.fixture
def make(client: str) -> Make:
    """Return what makes the load of a client, or skip with the reason why it cannot be had."""
    try:
        return CLIENTS[client]()
    except UnavailableError as error:
        pytest.skip(str(error))


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
