"""V1 by clients that parse responses as its libraries do, alone and beside Kafka's clients."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compatibility.v1.sdks import (
    PythonSdk,
    SdkError,
    TypeScriptSdk,
    python_sdk,
    restored,
    typescript_sdk,
)
from tests.support.broker_process import Broker, BrokerProcess, wait_until

TIMEOUT_S = 60.0
ODD_VALUES = [
    b"plain",
    b"a,b",
    b'{"user": 1, "total": 2}',
    b"x,7:y",
    b"50% off, today",
    b"line\nV1|1|OK|break",
    b"\x00\x01\xff",
    "größe\u2003€ 😀".encode(),
    b"",
    None,
    b" hw=9",
    b"%2C",
]


@pytest.fixture
def sdk(broker: Broker) -> Iterator[PythonSdk]:
    with python_sdk(broker.address) as client:
        yield client


@pytest.fixture
def typescript(broker: Broker) -> Iterator[TypeScriptSdk]:
    with typescript_sdk(broker.address) as client:
        yield client


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def kafka_producer(broker: Broker, **settings: str | int) -> Producer:
    return Producer({"bootstrap.servers": broker.address, **settings})


def written(producer: Producer, topic: str, partition: int, values: list[bytes | None]) -> None:
    for value in values:
        producer.produce(topic, value, key=b"key", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def read_by_kafka(
    broker: Broker, topic: str, partition: int, count: int
) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[bytes | None, bytes | None]] = []

    def has_all() -> bool:
        found.extend((each.key(), each.value()) for each in consumer.consume(100, 0.1))
        return len(found) >= count

    wait_until(has_all, f"{count} records", TIMEOUT_S)
    consumer.close()
    return found


def test_kafka_reads_keys_and_values_written_by_v1(
    broker: Broker, sdk: PythonSdk, topic: str
) -> None:
    for value in ("a", "b,c", "größe", ""):
        sdk.produce(topic, "user1", value)

    assert read_by_kafka(broker, topic, 2, 4) == [
        (b"user1", value.encode()) for value in ("a", "b,c", "größe", "")
    ]
    sdk.produce(topic, "", "v")
    assert read_by_kafka(broker, topic, 1, 1) == [(b"", b"v")]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_v1_reads_any_record_written_by_kafka(
    broker: Broker, sdk: PythonSdk, topic: str, compression: str
) -> None:
    sdk.produce(topic, "user1", "first")
    producer = kafka_producer(broker, **{"compression.type": compression})

    written(producer, topic, 2, ODD_VALUES)

    consumed = sdk.consume(topic, 2, 0)
    assert [offset for offset, _ in consumed.messages] == list(range(len(ODD_VALUES) + 1))
    assert consumed.high_watermark == len(ODD_VALUES)
    exact = restored(sdk.send("CONSUME", f"{topic} 2 1"))
    assert list(exact.values()) == [value or b"" for value in ODD_VALUES]


def test_the_python_and_the_typescript_library_read_the_same(
    broker: Broker, sdk: PythonSdk, typescript: TypeScriptSdk, topic: str
) -> None:
    sdk.produce(topic, "user1", "first")
    written(kafka_producer(broker), topic, 2, ODD_VALUES)

    [payload] = typescript.send_all([f"CONSUME|{topic} 2 0"])

    data = payload[payload.index("messages=") + 9 : payload.index(" hw=")]
    items = [tuple(each.split(":", 1)) for each in data.split(",")]
    assert [(int(offset), value) for offset, value in items] == sdk.consume(topic, 2, 0).messages
    assert typescript.field(payload, "hw") == str(len(ODD_VALUES))


def test_pipelined_requests_are_matched_with_their_responses(
    typescript: TypeScriptSdk, topic: str
) -> None:
    answers = typescript.send_all([f"PRODUCE|{topic} user1:{number}" for number in range(500)])

    assert [typescript.field(each, "offset") for each in answers] == [
        str(number) for number in range(500)
    ]


def test_v1_reads_committed_records_and_skips_aborted_ones(
    broker: Broker, sdk: PythonSdk, topic: str
) -> None:
    sdk.produce(topic, "user1", "before")
    producer = kafka_producer(broker, **{"transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    written(producer, topic, 2, [b"aborted"] * 3)

    # An open transaction holds back later records, also for its own writer.
    assert sdk.consume(topic, 2, 0) == ([(0, "before")], 0)
    assert sdk.produce(topic, "user1", "behind") == (2, 4, 0)
    assert sdk.consume(topic, 2, 0) == ([(0, "before")], 0)
    producer.abort_transaction(TIMEOUT_S)
    wait_until(lambda: sdk.consume(topic, 2, 0).high_watermark == 5, "the abort is visible")
    assert sdk.consume(topic, 2, 0).messages == [(0, "before"), (4, "behind")]
    assert sdk.consume(topic, 2, 1).messages == [(4, "behind")]

    producer.begin_transaction()
    written(producer, topic, 2, [b"committed"])
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: sdk.consume(topic, 2, 0).high_watermark == 7, "the commit is visible")
    assert sdk.consume(topic, 2, 5).messages == [(6, "committed")]
    assert sdk.consume(topic, 2, 7) == ([], 7)


def test_members_share_a_topic_and_resume_where_they_were(
    broker: Broker, sdk: PythonSdk, topic: str, group: str
) -> None:
    with python_sdk(broker.address) as other:
        for number in range(30):
            sdk.produce(topic, f"user{number}", str(number))
        first = sdk.join(group, topic, "c1")
        second = other.join(group, topic, "c2")
        with pytest.raises(SdkError) as stale:
            sdk.heartbeat(group, topic, "c1", first.generation)
        assert stale.value.code == "GENERATION_MISMATCH"
        first = sdk.join(group, topic, "c1")
        assert sorted(first.partitions + second.partitions) == [0, 1, 2]

        read = []
        for client, member, has in ((sdk, "c1", first), (other, "c2", second)):
            for partition in has.partitions:
                start = client.offset(group, topic, partition)
                messages, high_watermark = client.consume(topic, partition, start)
                read += [value for _, value in messages]
                client.commit(group, topic, member, has.generation, partition, high_watermark + 1)
                assert (
                    client.consume(
                        topic, partition, client.offset(group, topic, partition)
                    ).messages
                    == []
                )
        assert sorted(map(int, read)) == list(range(30))


def test_an_offset_committed_by_v1_is_seen_by_kafka(
    broker: Broker, sdk: PythonSdk, topic: str, group: str
) -> None:
    sdk.produce(topic, "user1", "a")
    member = sdk.join(group, topic, "c1")
    sdk.commit(group, topic, "c1", member.generation, 2, 1)

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    [committed] = consumer.committed([TopicPartition(topic, 2)], TIMEOUT_S)
    assert committed.offset == 1

    # No other client commits for a group with members, nor joins it.
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition(topic, 2, 0)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    sdk.leave(group, topic, "c1", member.generation)
    consumer.commit(offsets=[TopicPartition(topic, 2, 7)], asynchronous=False)
    assert sdk.offset(group, topic, 2) == 7
    consumer.close()


def joined(consumer: Consumer, topic: str) -> None:
    consumer.subscribe([topic])

    def has_partitions() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error():
            raise KafkaException(message.error())
        return bool(consumer.assignment())

    wait_until(has_partitions, "partitions are assigned", TIMEOUT_S)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_passes_from_v1_to_kafka_and_back(
    broker: Broker, sdk: PythonSdk, topic: str, group: str, protocol: str
) -> None:
    sdk.produce(topic, "user1", "a")
    sdk.produce(topic, "user1", "b")
    member = sdk.join(group, topic, "c1")
    sdk.commit(group, topic, "c1", member.generation, 2, 1)
    sdk.leave(group, topic, "c1", member.generation)

    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
        }
    )
    consumer.subscribe([topic])
    read: list[bytes | None] = []

    def has_read() -> bool:
        read.extend(each.value() for each in consumer.consume(10, 0.1))
        return bool(read)

    wait_until(has_read, "it continues at V1's offset", TIMEOUT_S)
    assert read == [b"b"]
    with pytest.raises(SdkError, match="group has live members of another protocol") as refused:
        sdk.join(group, topic, "c1")
    assert refused.value.code == "BAD_REQUEST"

    consumer.commit(offsets=[TopicPartition(topic, 2, 2)], asynchronous=False)
    consumer.close()
    assert sdk.join(group, topic, "c1").partitions == [0, 1, 2]
    assert sdk.offset(group, topic, 2) == 2


def test_a_kafka_client_is_refused_a_group_that_v1_owns(
    broker: Broker, sdk: PythonSdk, topic: str, group: str
) -> None:
    sdk.produce(topic, "user1", "a")
    sdk.join(group, topic, "c1")
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})

    with pytest.raises(KafkaException) as refused:
        joined(consumer, topic)
    consumer.close()

    assert refused.value.args[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL


def test_v1_groups_offsets_and_roles_survive_a_restart(
    start_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = start_broker()
    with python_sdk(broker.address) as sdk:
        sdk.produce(topic, "user1", "a")
        member = sdk.join(group, topic, "c1")
        sdk.commit(group, topic, "c1", member.generation, 2, 1)
        sdk.send("SET_PARTITION_ROLE", f"{topic} 2 follower")

    broker.restart()

    with python_sdk(broker.address) as sdk:
        assert sdk.consume(topic, 2, 0) == ([(0, "a")], 0)
        wait_until(lambda: _is_served(sdk, group, topic), "the coordinator has loaded")
        assert sdk.offset(group, topic, 2) == 1
        sdk.heartbeat(group, topic, "c1", member.generation)
        assert sdk.produce(topic, "user1", "b").offset == 1, "roles are not kept"
        assert sdk.metadata() == ([topic], [1])


def _is_served(sdk: PythonSdk, group: str, topic: str) -> bool:
    try:
        sdk.offset(group, topic, 2)
    except SdkError as error:
        if error.code != "NOT_LEADER":
            raise
        return False
    return True


def test_a_listener_can_be_limited_to_v1(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    broker.stop()
    broker.listen = f"v1://{broker.address}"

    broker.start()

    with python_sdk(broker.address) as sdk:
        assert sdk.produce("t", "user1", "a") == (2, 0, 0)
