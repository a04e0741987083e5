"""Cursus's transactional clients, and what Kafka's clients and tools see of their transactions."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.compatibility.committed import committed, committed_values
from tests.compatibility.cursus.transactional import (
    FencedError,
    GoTransactions,
    JavaTransactions,
    PythonTransactions,
    TransactionalProducer,
)
from tests.compatibility.cursus.transactions import begun, joined, seen
from tests.support.broker_process import Broker
from tests.support.cursus_client import CursusClient
from tests.support.wire_client import WireClient

TIMEOUT_S = 30.0
TRANSACTIONAL_ID_NOT_FOUND = 105
CLIENTS = pytest.mark.parametrize("client", [JavaTransactions, PythonTransactions, GoTransactions])


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of two partitions."""
    return cursus_topic(2)


def test_kafka_consumers_see_committed_or_all_records_by_isolation_level(
    broker: Broker, cursus: CursusClient, topic: str, name: str
) -> None:
    for number, result in enumerate(("commit", "abort", "commit")):
        who = begun(cursus, name)
        for partition in (0, 1):
            message = f"topic={topic} partition={partition} seqNum=1 key=k message={result}{number}"
            assert cursus.ask(f"TXN_PUBLISH {who} {message}").startswith("OK ")
        cursus.ask(f"END_TXN {who} result={result}")
    who = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message=open")

    read = committed(broker.address, topic, at_least=4, partitions=2)
    everything = committed_values(
        broker.address, topic, at_least=7, partitions=2, isolation="uncommitted"
    )

    assert sorted((each.value() or b"") for each in read) == [b"commit0"] * 2 + [b"commit2"] * 2
    assert {each.key() for each in read} == {b"k"}
    assert sorted(everything) == ["abort1"] * 2 + ["commit0"] * 2 + ["commit2"] * 2 + ["open"]
    assert seen(cursus, topic) == ["commit0", "commit2"], "up to the last stable offset"
    assert seen(cursus, topic, isolation="uncommitted") == ["commit0", "abort1", "commit2", "open"]


def test_the_same_transactional_id_in_kafka_is_a_different_id(
    broker: Broker, cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message=cursus")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"kafka", partition=0)
    producer.commit_transaction()

    assert seen(cursus, topic) == []
    assert cursus.ask(f"END_TXN {who}").endswith(" state=committed messages=1 offsets=0")
    assert seen(cursus, topic) == ["cursus", "kafka"]
    reserved = {"bootstrap.servers": broker.address, "transactional.id": f"polylog-cursus:{name}"}
    with pytest.raises(KafkaException) as refused:
        Producer(reserved).init_transactions(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_kafka_tools_see_a_cursus_transaction_under_a_prefixed_id(
    broker: Broker, cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=1 seqNum=1 message=x")
    number = int(who.split("txn-")[1].split()[0], 16)
    inner = f"polylog-cursus:{name}"

    with WireClient(broker.address) as wire:
        listed = wire.request("ListTransactions", 0, {"producer_id_filters": [number]})
        described = wire.request("DescribeTransactions", 0, {"transactional_ids": [name, inner]})

    [found] = listed["transaction_states"]
    assert (found["transactional_id"], found["transaction_state"]) == (inner, "Ongoing")
    stranger, ours = described["transaction_states"]
    assert stranger["error_code"] == TRANSACTIONAL_ID_NOT_FOUND
    assert (ours["transaction_timeout_ms"], ours["producer_id"]) == (60_000, number)
    assert ours["topics"] == [{"topic": topic, "partitions": [1]}]


@CLIENTS
def test_a_client_has_two_transactions_with_one_producer_object(
    broker: Broker, cursus: CursusClient, topic: str, name: str, client: type[TransactionalProducer]
) -> None:
    member = joined(cursus, topic, name)
    producer = client(broker.address, name, " principal=bob auth_token=s3cr3t")
    for number in range(3):
        producer.begin()
        for message in "ab":
            producer.publish(topic, f"{message}{number}", 0)
        producer.publish(topic, f"routed{number}", key="k")
        producer.send_offsets(topic, name, member, 1, {0: 3 * number + 3})
        assert producer.status() == ("open", 3, 1)
        if number == 1:
            producer.abort()
            producer.abort()
        else:
            producer.commit()
            producer.commit()
            assert producer.status() == ("committed", 3, 1)

    both = seen(cursus, topic) + seen(cursus, topic, 1)
    assert sorted(both) == ["a0", "a2", "b0", "b2", "routed0", "routed2"]
    assert cursus.ask(f"FETCH_OFFSET topic={topic} group={name} partition=0") == "OK offset=9"


@CLIENTS
def test_a_client_is_notified_that_it_is_fenced(
    broker: Broker, cursus: CursusClient, topic: str, name: str, client: type[TransactionalProducer]
) -> None:
    producer = client(broker.address, name)
    producer.begin()
    other = client(broker.address, name)
    other.begin()

    with pytest.raises(FencedError):
        producer.publish(topic, "late")
    with pytest.raises(FencedError):
        producer.commit()
    other.publish(topic, "mine", 0)
    other.commit()
    assert seen(cursus, topic) == ["mine"]


@CLIENTS
def test_a_transactional_client_that_repeats_a_message_after_a_lost_response_stores_it_once(
    broker: Broker, cursus: CursusClient, topic: str, name: str, client: type[TransactionalProducer]
) -> None:
    producer = client(broker.address, name)
    producer.begin()
    for _ in range(2):
        sent = producer.publish(topic, "same")
        producer.command(sent)
    producer.commit()

    assert seen(cursus, topic) + seen(cursus, topic, 1) == ["same", "same"]
