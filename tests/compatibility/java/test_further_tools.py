"""Apache Kafka's tools that are used now and then (newest release) against this broker."""

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
OFFSETS = f"{TOOLS}.GetOffsetShell"
FEW_PARTITIONS = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")


def at(broker: Broker) -> tuple[str, str]:
    """Return the option that names the broker."""
    return "--bootstrap-server", broker.address


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with two partitions, and three records in the first."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2)
        wire_requests.produce(client, topic, Batch([b"a", b"b", b"c"]).encode())
    return topic


def test_end_to_end_latency_is_measured(java: JavaTools, broker: Broker, made: str) -> None:
    measured = java.run(
        f"{TOOLS}.EndToEndLatency",
        *(*at(broker), "--topic", made, "--num-records", "20"),
        *("--producer-acks", "all", "--record-size", "100", "--num-headers", "1"),
    )

    assert re.search(r"Avg latency: [\d.]+ ms", measured)
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+", measured)


@pytest.mark.parametrize(
    ("which", "offsets"),
    [
        (["--time", "-1"], {0: 3, 1: 0}),
        (["--time", "earliest"], {0: 0, 1: 0}),
        (["--time", "max-timestamp"], {0: 0}),
        (["--time", "earliest-local"], {0: 0, 1: 0}),
        (["--time", "1"], {0: 0}),
        (["--partitions", "0"], {0: 3}),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
def test_get_offsets_finds_each_kind_of_offset(
    java: JavaTools, broker: Broker, made: str, which: list[str], offsets: dict[int, int]
) -> None:
    found = java.run(OFFSETS, *at(broker), "--topic", made, *which)

    lines = re.findall(rf"^{made}:(\d+):(\d+)$", found, re.MULTILINE)
    assert {int(place): int(offset) for place, offset in lines} == offsets


def test_get_offsets_takes_patterns_of_topics_and_partitions(
    java: JavaTools, broker: Broker, made: str
) -> None:
    by_pattern = java.run(OFFSETS, *at(broker), "--topic-partitions", f"{made[:-3]}.*:1-")

    assert re.findall(r"^\S+:\d+:\d+$", by_pattern, re.MULTILINE) == [f"{made}:1:0"]


def test_an_application_of_kafka_streams_is_reset(
    java: JavaTools, broker: Broker, made: str, name: str
) -> None:
    own = f"{name}-counts-changelog"
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, own)
    read(java, broker, made, "--group", name, "--max-messages", "3")

    done = java.run(
        f"{TOOLS}.StreamsResetter",
        *(*at(broker), "--application-id", name, "--input-topics", made, "--to-earliest"),
    )
    group = java.run(
        f"{TOOLS}.consumer.group.ConsumerGroupCommand",
        *(*at(broker), "--describe", "--group", name, "--offsets"),
    )
    topics = java.run(f"{TOOLS}.TopicCommand", *at(broker), "--list")

    assert f"Topic: {made} Partition: 0 Offset: 0" in done
    assert re.search(rf"^{name}\s+{made}\s+0\s+0\s+3\s+3\s", group, re.MULTILINE), group
    assert own not in topics.split()


def test_dump_log_segments_decodes_the_topics_of_coordinators(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker(*FEW_PARTITIONS)
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        assert wire_requests.find_coordinator(client, "readers") == 0
        assert wire_requests.commit_offset(client, "readers", topic, 3) == 0
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "writer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.commit_transaction(60)
    assert broker.stop() == 0

    offsets, transactions = (
        java.run(
            f"{TOOLS}.DumpLogSegments",
            *(f"--{decoder}-decoder", "--files"),
            *map(str, (broker.data_dir / f"{of}-0").glob("*.log")),
        )
        for of, decoder in (
            ("__consumer_offsets", "offsets"),
            ("__transaction_state", "transaction-log"),
        )
    )

    assert re.search(
        rf'"group":"readers","topic":"{topic}","partition":0\}}\}} payload:.*"offset":3,', offsets
    )
    states = re.findall(r'"transactionalId":"writer".*"transactionStatus":(\d),', transactions)
    assert (states[0], states[-1]) == ("0", "4"), "empty at first, and committed in the end"


@pytest.mark.parametrize(
    ("tool", "words", "reason"),
    [
        ("consumer.group.ShareGroupCommand", "--describe --group g", "SHARE_GROUP_DESCRIBE"),
        ("streams.StreamsGroupCommand", "--describe --group g", "STREAMS_GROUP_DESCRIBE"),
        ("ClientMetricsCommand", "--alter --name m --interval 10000", "has no configuration here"),
        ("FeatureCommand", "upgrade --release-version 4.3", "no feature is updated"),
        (
            "MetadataQuorumCommand",
            "remove-controller --controller-id 1 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
            "REMOVE_RAFT_VOTER",
        ),
    ],
)
def test_what_is_not_supported_is_refused_with_the_reason(
    java: JavaTools, broker: Broker, tool: str, words: str, reason: str
) -> None:
    try:
        said = java.run(f"{TOOLS}.{tool}", *at(broker), *words.split())
    except AssertionError as error:  # some of them exit with 0
        said = str(error)

    assert reason in said


@pytest.mark.parametrize(
    "tool", ["consumer.group.ShareGroupCommand", "streams.StreamsGroupCommand"]
)
def test_there_are_no_groups_of_kinds_that_are_not_supported(
    java: JavaTools, broker: Broker, tool: str
) -> None:
    assert java.run(f"{TOOLS}.{tool}", *at(broker), "--list") == ""


def read(java: JavaTools, broker: Broker, topic: str, *options: str) -> str:
    """Read a topic from its beginning with the console consumer, and return what it printed."""
    return java.run(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *(*at(broker), "--topic", topic, "--from-beginning", *options),
    )
