"""Transactions of librdkafka over partitions, groups and coordinators on three brokers."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.codec import encode
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.wire_client import WireClient
from tests.support.wire_requests import produce_body

PARTITIONS = 6
RECORDS = 30  # of each transaction
WAIT_SECONDS = 60
# What clients repeat a request after: its coordinator is loading, not known yet or another one; the
# transaction's coordinator has not answered the leader; the last transaction is still ending.
RETRIABLE = {14, 15, 16, 19, 51}
_names = count()


def create(cluster: ClusterProcess, *names: str) -> None:
    """Create topics, with leaders on all brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [NewTopic(name, PARTITIONS, replication_factor=1) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(WAIT_SECONDS)
    for name in names:
        cluster.wait_for_leaders(name, PARTITIONS)
        assert set(cluster.leaders(1, name).values()) == set(cluster.brokers)


def coordinated_by(cluster: ClusterProcess, broker_id: int, kind: int, prefix: str) -> str:
    """Return a transactional id (kind 1) or a group (0) whose coordinator is a broker."""
    with WireClient(cluster.brokers[1].listen, WAIT_SECONDS) as client:
        for number in count():
            name = f"{prefix}-{number}"
            answer = client.request("FindCoordinator", 1, {"key": name, "key_type": kind})
            if answer["node_id"] == broker_id:
                return name
    raise AssertionError


def consumer_of(cluster: ClusterProcess, group: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


def producer_of(cluster: ClusterProcess, transactional_id: str | None = None) -> Producer:
    settings: dict[str, str | int] = {"bootstrap.servers": cluster.bootstrap}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    if transactional_id is not None:
        producer.init_transactions(WAIT_SECONDS)
    return producer


def consume(consumer: Consumer, number: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < number:
        some = consumer.consume(number - len(found), WAIT_SECONDS)
        assert some, f"{len(found)} of {number} records in {WAIT_SECONDS} s"
        assert [each.error() for each in some if each.error()] == []
        found += some
    return found


def read_committed(cluster: ClusterProcess, topic: str, number: int) -> list[bytes | None]:
    """Return the committed records of a topic up to the ends of its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        found: list[bytes | None] = []
        ended: set[int | None] = set()
        while len(ended) < PARTITIONS or len(found) < number:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"{len(found)} of {number} records, ends of {ended}"
            if message.error() is None:
                found.append(message.value())
            else:
                ended.add(message.partition())
        return sorted(found, key=str)
    finally:
        consumer.close()


@pytest.fixture
def name() -> str:
    """A name of which nothing exists."""
    return f"n{next(_names)}"


@pytest.mark.parametrize("coordinator", [1, 2, 3])
def test_what_is_consumed_transformed_and_produced_in_transactions_is_there_exactly_once(
    three_brokers: ClusterProcess, name: str, coordinator: int
) -> None:
    source, target = f"{name}-in", f"{name}-out"
    create(three_brokers, source, target)
    plain = producer_of(three_brokers)
    for each in range(2 * RECORDS):
        plain.produce(source, str(each).encode(), partition=each % PARTITIONS)
    assert plain.flush(WAIT_SECONDS) == 0
    group = coordinated_by(three_brokers, coordinator % 3 + 1, 0, name)
    producer = producer_of(three_brokers, coordinated_by(three_brokers, coordinator, 1, name))

    def transform(*, is_commit: bool) -> None:
        consumer = consumer_of(three_brokers, group, source)
        try:
            producer.begin_transaction()
            for number, message in enumerate(consume(consumer, RECORDS)):
                value = b"%d: %b" % (is_commit, message.value() or b"")
                producer.produce(target, value, partition=number % PARTITIONS)
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), WAIT_SECONDS
            )
            if is_commit:
                producer.commit_transaction(WAIT_SECONDS)
            else:
                assert producer.flush(WAIT_SECONDS) == 0
                producer.abort_transaction(WAIT_SECONDS)
        finally:
            consumer.close()

    transform(is_commit=True)
    transform(is_commit=False)
    transform(is_commit=True)

    expected = sorted((b"1: %d" % each for each in range(2 * RECORDS)), key=str)
    assert read_committed(three_brokers, target, len(expected)) == expected


def test_a_newer_producer_adds_partitions_and_groups_of_other_brokers_by_writing(
    three_brokers: ClusterProcess, name: str
) -> None:
    """KIP-890: no AddPartitionsToTxn, and another epoch in each transaction."""
    create(three_brokers, name)
    transactional_id = coordinated_by(three_brokers, 1, 1, name)
    group = coordinated_by(three_brokers, 2, 0, name)
    leaders = three_brokers.leaders(1, name)
    with ExitStack() as stack:
        clients = {
            broker_id: stack.enter_context(WireClient(each.listen, WAIT_SECONDS))
            for broker_id, each in three_brokers.brokers.items()
        }
        wanted = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        taken = accepted(partial(clients[1].request, "InitProducerId", 5, wanted), itself)
        producer_id, epoch = taken["producer_id"], taken["producer_epoch"]

        def transaction(epoch: int, *, is_commit: bool) -> int:
            """Write to all partitions, commit an offset, end; return the next epoch."""
            for partition, leader in leaders.items():
                [records] = encode(
                    [(b"k", b"%d" % is_commit)],
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=0,
                    is_transactional=True,
                )
                body = produce_body(name, [(partition, records)])
                body["transactional_id"] = transactional_id
                accepted(partial(clients[leader].request, "Produce", 12, body), written)
            offsets = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1}
            body = {
                "transactional_id": transactional_id,
                "group_id": group,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": name, "partitions": [{**offsets, "committed_metadata": ""}]}],
            }
            accepted(partial(clients[2].request, "TxnOffsetCommit", 5, body), committed)
            end = {
                "transactional_id": transactional_id,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "committed": is_commit,
            }
            ended = accepted(partial(clients[1].request, "EndTxn", 5, end), itself)
            assert ended["producer_id"] == producer_id
            return int(ended["producer_epoch"])

        assert transaction(epoch, is_commit=True) == epoch + 1
        assert transaction(epoch + 1, is_commit=False) == epoch + 2
        assert transaction(epoch + 2, is_commit=True) == epoch + 3

    assert read_committed(three_brokers, name, 2 * PARTITIONS) == [b"1"] * 2 * PARTITIONS


def accepted(
    ask: Callable[[], dict[str, Any]], part: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Send a request again after each error that clients retry; `part` of an answer has it."""
    answers: list[dict[str, Any]] = []

    def is_accepted() -> bool:
        answers.append(ask())
        error = part(answers[-1])["error_code"]
        assert error in {0, *RETRIABLE}, answers[-1]
        return bool(error == 0)

    wait_until(is_accepted, "the request is accepted")
    return answers[-1]


def itself(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def written(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a Produce to one partition."""
    [topic] = answer["responses"]
    [partition] = topic["partition_responses"]
    return dict(partition)


def committed(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a TxnOffsetCommit of one partition."""
    [topic] = answer["topics"]
    [partition] = topic["partitions"]
    return dict(partition)


def test_a_commit_is_completed_by_the_next_coordinator_and_at_a_leader_that_was_away(
    three_brokers: ClusterProcess, name: str
) -> None:
    create(three_brokers, name)
    producer = producer_of(three_brokers, coordinated_by(three_brokers, 1, 1, name))
    producer.begin_transaction()
    expected = sorted((b"%d" % each for each in range(RECORDS)), key=str)
    for each in range(RECORDS):
        producer.produce(name, b"%d" % each, partition=each % PARTITIONS)
    assert producer.flush(WAIT_SECONDS) == 0

    three_brokers.pause(3)
    try:
        producer.commit_transaction(WAIT_SECONDS)  # is decided by broker 1 alone
        three_brokers.kill(1)
        three_brokers.brokers[1].start()
    finally:
        three_brokers.resume(3)
    three_brokers.wait_for_brokers()

    assert read_committed(three_brokers, name, RECORDS) == expected
