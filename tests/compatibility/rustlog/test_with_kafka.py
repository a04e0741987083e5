"""RustLog's and Kafka's clients at once on the same topics, which are one log."""

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.codec import encode
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, wait_until
from tests.support.rustlog_client import Fetched, RefusedError, RustLogClient
from tests.support.segment_files import restore_batch
from tests.support.wire_client import WireClient

WAIT_S = 20
WRITERS = 3
BATCHES = 30
RECORDS = 200


@pytest.fixture
def client(broker: Broker, topic: str) -> Iterator[RustLogClient]:
    """One connection, and a topic made through it."""
    with RustLogClient(broker.address) as client:
        client.create(topic)
        yield client


def producer(broker: Broker, **settings: str) -> Producer:
    """Return a Kafka producer."""
    return Producer({"bootstrap.servers": broker.address, **settings})


def send(kafka: Producer, topic: str, *values: bytes | None) -> None:
    """Produce values, each acknowledged."""
    for value in values:
        kafka.produce(topic, value, b"key", partition=0, headers=[("name", b"header")])
    assert kafka.flush(WAIT_S) == 0


def consumer(broker: Broker, group: str) -> Consumer:
    """Return a Kafka consumer."""
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def read(kafka: Consumer, topic: str, count: int) -> list[tuple[int, bytes | None]]:
    """Read that many records from the beginning."""
    kafka.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes | None]] = []
    while len(found) < count:
        message = kafka.poll(WAIT_S)
        assert message is not None, f"only {len(found)} of {count}"
        assert message.error() is None
        found.append((message.offset() or 0, message.value()))
    return found


def test_rustlog_and_kafka_clients_read_each_others_records(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    assert client.produce(topic, [b"from rustlog", b""]) == 0
    send(producer(broker, **{"compression.type": "zstd"}), topic, b"from kafka" * 20, None)
    assert client.produce(topic, [b"again"]) == 4

    expected = {0: b"from rustlog", 1: b"", 2: b"from kafka" * 20, 3: b"", 4: b"again"}
    assert client.read_all(topic) == expected
    kafka = consumer(broker, f"of-{topic}")
    assert read(kafka, topic, 5) == [(i, v if i != 3 else None) for i, v in expected.items()]
    kafka.close()


def test_a_highly_compressed_batch_is_read(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    values = [bytes(1 << 20)] * 20
    batches = encode(values, compression="zstd", timestamp_ms=0, batch_bytes_max=1 << 30)
    with WireClient(broker.address) as kafka:
        assert wire_requests.produce(kafka, topic, b"".join(batches)) == (0, 0)

    assert client.read_all(topic) == dict(enumerate(values))


def test_a_batch_that_decompresses_above_the_limit_is_reported_with_its_offset(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    broker.expected_complaints.append("segments changed since the clean stop")
    with RustLogClient(broker.address) as client:
        client.create("t")
        client.produce("t", [b"a"])
    bomb = [bytes(1 << 20)] * 65
    [batch] = encode(bomb, compression="zstd", timestamp_ms=0, batch_bytes_max=1 << 30)
    broker.stop()
    restore_batch(broker.data_dir / "t-0", batch)
    broker.start()

    with RustLogClient(broker.address) as client:
        assert client.fetch("t", 0).records == [b"a"]
        with pytest.raises(
            RefusedError, match="the batch at offset 3 decompresses to too many bytes"
        ):
            client.fetch("t", 3)


def test_concurrent_rustlog_and_kafka_writers_find_their_records_at_the_returned_offsets(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    acknowledged: dict[int, bytes] = {}
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            with RustLogClient(broker.address) as writer:
                for batch in range(BATCHES):
                    values = [b"%s %d %d" % (name.encode(), batch, i) for i in range(RECORDS)]
                    acknowledged.update(enumerate(values, writer.produce(topic, values)))
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(WRITERS)]
    for thread in threads:
        thread.start()
    kafka = producer(broker)
    for number in range(2_000):
        kafka.produce(topic, b"kafka %d" % number, partition=0)
    assert kafka.flush(WAIT_S) == 0
    for thread in threads:
        thread.join(WAIT_S)
    assert not failures

    found = client.read_all(topic)
    assert len(acknowledged) == WRITERS * BATCHES * RECORDS
    assert {offset: found[offset] for offset in acknowledged} == acknowledged
    assert len(found) == len(acknowledged) + 2_000
    reader = consumer(broker, f"of-{topic}")
    assert dict(read(reader, topic, len(found))) == found
    reader.close()


def test_committed_offsets_are_shared_between_rustlog_and_kafka(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    client.produce(topic, [b"a", b"b", b"c"])
    group = f"of-{topic}"
    client.commit(group, topic, 1)

    kafka = consumer(broker, group)
    [committed] = kafka.committed([TopicPartition(topic, 0)], WAIT_S)
    assert committed.offset == 1
    kafka.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    kafka.close()

    assert client.committed(group, topic) == 2
    assert client.fetch(topic, 0, group=group) == Fetched([b"c"], 3)


def test_committed_offsets_survive_kill_9(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker("polylog.durability=group-commit")
    with RustLogClient(broker.address) as client:
        client.create(topic, 2)
        client.commit("g", topic, 1)
        fields = {"topic": topic, "partition": 1, "group_id": "g", "offset": 2}
        assert client.ask_json({"OffsetCommit": fields}) == {"OffsetCommit": {"success": True}}

    broker.kill()
    broker.start()

    with RustLogClient(broker.address) as client:
        assert [client.committed("g", topic, partition) for partition in (0, 1)] == [1, 2]


def test_a_kafka_group_with_members_refuses_rustlog_commits(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    client.produce(topic, [b"a", b"b"])
    group = f"of-{topic}"
    kafka = consumer(broker, group)
    kafka.subscribe([topic])
    message = kafka.poll(WAIT_S)
    assert message is not None

    with pytest.raises(RefusedError, match="live members of another protocol") as caught:
        client.commit(group, topic, 1)
    assert caught.value.code == 5
    fields = {"topic": topic, "partition": 0, "group_id": group, "offset": 1}
    assert client.ask_json({"OffsetCommit": fields}) == {"OffsetCommit": {"success": False}}

    kafka.commit(message=message, asynchronous=False)
    assert client.committed(group, topic) == 1
    kafka.close()
    client.commit(group, topic, 2)
    assert client.committed(group, topic) == 2


def test_records_of_open_and_aborted_transactions_are_not_read(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    client.produce(topic, [b"before"])
    kafka = producer(broker, **{"transactional.id": topic})
    kafka.init_transactions(WAIT_S)
    kafka.begin_transaction()
    send(kafka, topic, b"aborted")
    client.produce(topic, [b"behind"])

    assert client.fetch(topic, 0) == Fetched([b"before"], 1)
    assert client.fetch(topic, 1) == Fetched([], 1)
    assert client.high_watermark(topic) == 1
    kafka.abort_transaction(WAIT_S)
    wait_until(lambda: client.high_watermark(topic) == 4, "the transaction has ended")

    # A gap in place of the aborted record; the marker after the last one is another.
    assert client.read_all(topic) == {0: b"before", 2: b"behind"}
    kafka.begin_transaction()
    send(kafka, topic, b"committed")
    kafka.commit_transaction(WAIT_S)
    wait_until(lambda: client.high_watermark(topic) == 6, "its marker is written")
    assert client.read_all(topic) == {0: b"before", 2: b"behind", 4: b"committed"}


def test_deleted_records_are_skipped(broker: Broker, client: RustLogClient, topic: str) -> None:
    client.produce(topic, [b"%d" % number for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.address})
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 7)]).values()
    assert deleted.result(WAIT_S).low_watermark == 7

    assert client.fetch(topic, 0) == Fetched([], 7)
    assert client.fetch(topic, 7) == Fetched([b"7", b"8", b"9"], 10)
    request = {"topic": topic, "partition": 0, "offset": 6, "max_bytes": 9}
    assert client.ask_json({"Fetch": request}) == {"Error": {"message": "offset out of range"}}


def test_topics_created_by_kafka_or_rustlog_are_visible_to_both(
    broker: Broker, client: RustLogClient, topic: str
) -> None:
    send(producer(broker), f"{topic}-kafka", b"made by writing")
    client.commit(f"of-{topic}", topic, 3)

    assert client.read_all(f"{topic}-kafka") == {0: b"made by writing"}
    admin = AdminClient({"bootstrap.servers": broker.address})
    assert admin.list_topics(topic, WAIT_S).topics[topic].partitions.keys() == {0}
    request = ConsumerGroupTopicPartitions(f"of-{topic}", [TopicPartition(topic, 0)])
    [offsets] = admin.list_consumer_group_offsets([request]).values()
    assert [each.offset for each in offsets.result(WAIT_S).topic_partitions] == [3]
