"""Quotas with Apache Kafka's own tool (kafka-configs.sh, newest release) and its clients."""

import re
from collections.abc import Callable

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support import quotas
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

CONFIG = "kafka.admin.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker of this test alone."""
    return start_broker("quota.window.num=2")


@pytest.mark.parametrize(
    ("names", "quota", "described"),
    [
        (
            ("--entity-type", "users", "--entity-name", "alice"),
            "producer_byte_rate=1024,consumer_byte_rate=2048",
            "Quota configs for user-principal 'alice' are",
        ),
        (
            ("--entity-type", "users", "--entity-default"),
            "request_percentage=12.5",
            "Quota configs for the default user-principal are",
        ),
        (
            ("--entity-type", "clients", "--entity-name", "reports"),
            "controller_mutation_rate=0.5",
            "Quota configs for client-id 'reports' are",
        ),
        (
            ("--entity-type", "clients", "--entity-default"),
            "producer_byte_rate=1024",
            "Quota configs for the default client-id are",
        ),
        (
            (
                *("--entity-type", "users", "--entity-name", "alice"),
                *("--entity-type", "clients", "--entity-default"),
            ),
            "consumer_byte_rate=2048",
            "Quota configs for user-principal 'alice', the default client-id are",
        ),
        (
            ("--entity-type", "ips", "--entity-name", "127.0.0.1"),
            "connection_creation_rate=1000",
            "Quota configs for ip '127.0.0.1' are",
        ),
        (
            ("--entity-type", "ips", "--entity-default"),
            "connection_creation_rate=1000",
            "Quota configs for the default ip are",
        ),
    ],
)
def test_config_command_sets_describes_and_removes_a_quota(
    java: JavaTools, broker: BrokerProcess, names: tuple[str, ...], quota: str, described: str
) -> None:
    of = ("--bootstrap-server", broker.address, *names)

    java.run(CONFIG, *of, "--alter", "--add-config", quota)
    found = java.run(CONFIG, *of, "--describe")
    keys = re.sub("=[^,]*", "", quota)
    java.run(CONFIG, *of, "--alter", "--delete-config", keys)
    after = java.run(CONFIG, *of, "--describe")

    assert described in found
    for each in quota.split(","):
        key, _, value = each.partition("=")
        assert re.search(rf"{key}={value}(\.0)?\b", found), found
        assert key not in after


def test_config_command_shows_why_a_quota_is_refused(
    java: JavaTools, broker: BrokerProcess
) -> None:
    of = ("--bootstrap-server", broker.address, "--entity-type", "users", "--entity-name", "alice")

    with pytest.raises(AssertionError, match=r"producer_byte_rate"):
        java.run(CONFIG, *of, "--alter", "--add-config", "producer_byte_rate=0")


def test_javas_producer_gets_its_quota(java: JavaTools, broker: BrokerProcess, topic: str) -> None:
    """4 MB at 500 kB/s take eight seconds, of which the first one's worth passes at once."""
    with WireClient(broker.address) as client:
        assert quotas.alter(client, {"client-id": "slow"}, producer_byte_rate=500_000.0) == [0]

    printed = java.run(
        PERFORMANCE,
        *("--topic", topic, "--num-records", "4000", "--record-size", "1000"),
        *("--throughput", "-1", "--bootstrap-server", broker.address),
        *("--command-property", "client.id=slow", "batch.size=16384"),
    )

    assert "4000 records sent" in printed
    rate = float(re.findall(r"\(([0-9.]+) MB/sec\)", printed)[-1]) * (1 << 20)
    assert 0.8 < rate / 500_000 < 1.25, printed
