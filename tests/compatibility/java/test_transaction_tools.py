"""Kafka's own programs around transactions, and the verifiable consumer."""

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.compatibility.committed import committed_values
from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TIMEOUT_S = 60.0


def transactions(java: JavaTools, broker: Broker, *arguments: str) -> list[dict[str, str]]:
    """Run a command of kafka-transactions and return its table as rows by column."""
    printed = java.run(TRANSACTIONS, "--bootstrap-server", broker.address, *arguments)
    lines = [line.split("\t") for line in printed.splitlines() if "\t" in line]
    head, *rows = [[field.strip() for field in line] for line in lines] or [[]]
    return [dict(zip(head, row, strict=False)) for row in rows]


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with a record."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        wire_requests.produce(client, topic, Batch([b"before"]).encode())
    return topic


@pytest.fixture
def open_producer(broker: Broker, made: str) -> Iterator[Producer]:
    """A producer with an open transaction of one record; its id is the topic's name."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": made})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(made, b"in the transaction", partition=0)
    producer.flush(TIMEOUT_S)
    yield producer
    producer.purge()


def test_an_open_transaction_is_listed_and_described(
    java: JavaTools, broker: Broker, made: str, open_producer: Producer
) -> None:
    listed = transactions(java, broker, "list")
    described = transactions(java, broker, "describe", "--transactional-id", made)
    producers = transactions(
        java, broker, "describe-producers", "--topic", made, "--partition", "0"
    )
    open_producer.commit_transaction(TIMEOUT_S)
    after = transactions(java, broker, "describe", "--transactional-id", made)

    states = {row["TransactionalId"]: row["TransactionState"] for row in listed}
    assert states[made] == "Ongoing"
    [row] = described
    assert row["TransactionState"] == "Ongoing"
    assert row["TopicPartitions"] == f"{made}-0"
    [of_partition] = [row for row in producers if row["CurrentTransactionStartOffset"] == "1"]
    assert of_partition["ProducerId"] == row["ProducerId"]
    assert after[0]["TransactionState"] == "CompleteCommit"
    assert committed_values(broker.address, made, at_least=2) == ["before", "in the transaction"]


def test_a_transaction_is_aborted_by_its_start_offset_in_a_partition(
    java: JavaTools, broker: Broker, made: str, open_producer: Producer
) -> None:
    of = ("--topic", made, "--partition", "0")
    transactions(java, broker, "abort", *of, "--start-offset", "1")
    producers = transactions(java, broker, "describe-producers", *of)
    with WireClient(broker.address) as client:
        wire_requests.produce(client, made, Batch([b"after"]).encode())

    assert [row["CurrentTransactionStartOffset"] for row in producers] == ["None"]
    assert committed_values(broker.address, made, at_least=2) == ["before", "after"]


def test_find_hanging_finds_no_hanging_transaction(
    java: JavaTools, broker: Broker, made: str, open_producer: Producer
) -> None:
    found = transactions(java, broker, "find-hanging", "--topic", made, "--partition", "0")

    assert found == []


def test_kafkas_transactional_message_copier_copies_every_record_once(
    java: JavaTools, broker: Broker, made: str
) -> None:
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, f"{made}-copy")
        wire_requests.produce(client, made, Batch([b"%d" % n for n in range(99)]).encode())

    said = java.run(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", broker.address, "--transactional-id", f"{made}-copier"),
        *("--consumer-group", f"{made}-group", "--input-topic", made, "--input-partition", "0"),
        *("--output-topic", f"{made}-copy", "--max-messages", "100"),
        *("--transaction-size", "10", "--enable-random-aborts"),
    )
    copied = committed_values(broker.address, f"{made}-copy", at_least=100)

    assert '"consumed":100' in said
    assert copied == ["before", *map(str, range(99))]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_consumer_reads_and_commits_the_verifiable_producers_records(
    java: JavaTools, broker: Broker, made: str, protocol: str
) -> None:
    java.run_alone(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--topic", made, "--max-messages", "200", "--bootstrap-server", broker.address),
    )

    said = java.run_alone(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--topic", made, "--max-messages", "201", "--bootstrap-server", broker.address),
        *("--group-id", f"{made}-group", "--reset-policy", "earliest"),
        *("--group-protocol", protocol),
    )

    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    consumed = sum(e["count"] for e in events if e["name"] == "records_consumed")
    commits = [e for e in events if e["name"] == "offsets_committed"]
    assert consumed == 201
    assert all(commit["success"] for commit in commits)
    assert commits[-1]["offsets"][0]["offset"] == 201


def test_the_console_consumer_reads_in_a_group_of_the_consumer_protocol(
    java: JavaTools, broker: Broker, made: str
) -> None:
    printed = java.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--topic", made, "--from-beginning", "--max-messages", "1"),
        *("--bootstrap-server", broker.address, "--group", f"{made}-group"),
        *("--command-property", "group.protocol=consumer"),
    )

    assert re.search(r"^before$", printed, re.MULTILINE)
