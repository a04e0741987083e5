"""All protocols at once on one topic and one group: offsets, records and groups are shared."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.compatibility.clients import confluent_client
from tests.compatibility.clients.client import Record
from tests.compatibility.cursus.members import JavaMember
from tests.compatibility.protocol_clients import (
    PROTOCOL_CLIENTS,
    WAIT_S,
    CursusError,
    ProtocolClient,
)
from tests.compatibility.v1.sdks import PythonSdk, SdkError, python_sdk
from tests.support.broker_process import Broker, wait_until
from tests.support.cursus_client import CursusClient
from tests.support.rustlog_client import RefusedError, RustLogClient

BATCHES = 8
RECORDS = 50
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ODD_VALUES = [None, b"", b"a,b", b"0:x hw=9, y", b"line\nV1|1|OK|", b"\x00\xff", "größe €".encode()]

Connect = Callable[[str], ProtocolClient]


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Make clients that are closed at the end."""
    clients: list[ProtocolClient] = []

    def made(protocol: str) -> ProtocolClient:
        clients.append(PROTOCOL_CLIENTS[protocol](broker.address))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


@pytest.fixture
def one_partition(broker: Broker, topic: str) -> str:
    """A topic whose every record is written to partition 0 by any client."""
    with RustLogClient(broker.address) as client:
        client.create(topic)
    return topic


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def sdk(broker: Broker) -> Iterator[PythonSdk]:
    with python_sdk(broker.address) as client:
        yield client


# ---- records -------------------------------------------------------------------------------------


def written(client: ProtocolClient, topic: str, protocol: str) -> dict[int, bytes | None]:
    """Write batches through a protocol; return what was acknowledged by offset."""
    name = protocol.replace(" ", "-")
    acknowledged: dict[int, bytes | None] = {}
    for batch in range(BATCHES):
        values = [f"{name},{batch},{place}=".encode() for place in range(RECORDS)]
        offsets = client.write(topic, values)
        assert offsets == sorted(offsets)
        acknowledged |= zip(offsets, values, strict=True)
    return acknowledged


def test_clients_of_all_protocols_write_and_read_one_topic_at_once(
    connect: Connect, one_partition: str
) -> None:
    last = len(PROTOCOL_CLIENTS) * BATCHES * RECORDS - 1
    with ThreadPoolExecutor(2 * len(PROTOCOL_CLIENTS)) as pool:
        reading = {
            protocol: pool.submit(connect(protocol).read, one_partition, last)
            for protocol in PROTOCOL_CLIENTS
        }
        writing = [
            pool.submit(written, connect(protocol), one_partition, protocol)
            for protocol in PROTOCOL_CLIENTS
        ]
        acknowledged: dict[int, bytes | None] = {}
        for each in writing:
            acknowledged |= each.result()

    assert sorted(acknowledged) == list(range(last + 1)), "each offset was assigned once"
    for protocol, read in reading.items():
        assert read.result() == acknowledged, protocol


class Transactions:
    """Kafka's transactional producer, and the offsets of its records."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
        self._producer.init_transactions(WAIT_S)

    def write(self, topic: str, *values: bytes, commits: bool) -> dict[int, bytes | None]:
        """Write values in a transaction that is then committed or aborted."""
        acknowledged: dict[int, bytes | None] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            acknowledged[message.offset() or 0] = message.value()

        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, value, partition=0, on_delivery=delivered)
        assert self._producer.flush(WAIT_S) == 0
        if commits:
            self._producer.commit_transaction(WAIT_S)
        else:
            self._producer.abort_transaction(WAIT_S)
        return acknowledged


@pytest.mark.parametrize("protocol", PROTOCOL_CLIENTS)
def test_records_written_by_kafka_are_read_through_every_protocol(
    broker: Broker, connect: Connect, one_partition: str, protocol: str
) -> None:
    expected: dict[int, bytes | None] = {}
    client = confluent_client.connect(broker.address)
    # Kafka 0.8 does not have zstd: its readers get an error (KIP-110).
    for codec in CODECS[: -1 if protocol == "Kafka 0.8" else None]:
        records = [
            Record(value, b"key", headers=(("name", b"a,b"), ("none", None)))
            for value in ODD_VALUES
        ]
        offsets = client.produce(one_partition, records, compression=codec)
        expected |= zip(offsets, ODD_VALUES, strict=True)
    transactions = Transactions(broker, one_partition)
    expected |= transactions.write(one_partition, b"committed", b"with it", commits=True)
    aborted = transactions.write(one_partition, b"aborted", b"with it", commits=False)
    expected |= transactions.write(one_partition, b"committed, too", commits=True)
    [last] = connect("V1").write(one_partition, [b"last"])
    expected[last] = b"last"
    if protocol == "Kafka 0.8":
        expected |= aborted  # it reads uncommitted
    if not protocol.startswith("Kafka"):
        expected = {offset: value or b"" for offset, value in expected.items()}

    assert connect(protocol).read(one_partition, last) == expected


# ---- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOL_CLIENTS)
def test_an_offset_committed_through_one_protocol_is_seen_through_every_other(
    connect: Connect, one_partition: str, group: str, protocol: str
) -> None:
    connect("Kafka").write(one_partition, [b"a", b"b", b"c"])

    connect(protocol).commit(group, one_partition, 2)

    seen = {each: connect(each).committed(group, one_partition) for each in PROTOCOL_CLIENTS}
    assert seen == dict.fromkeys(PROTOCOL_CLIENTS, 2)


def consumer(broker: Broker, group: str, release: str | None = None) -> Consumer:
    """Return a member that can join, of the current client or of an old release."""
    old = {"api.version.request": False, "broker.version.fallback": release}
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **(old if release else {}),
        }
    )


def first_of(member: Consumer, topic: str) -> Message:
    """Join a group and return the first record that comes.

    Raises:
        KafkaException: the broker refuses.
    """
    member.subscribe([topic])
    found: list[Message] = []

    def has_one() -> bool:
        found.extend(member.consume(1, 0.1))
        return bool(found)

    wait_until(has_one, "a record of the group", WAIT_S)
    if found[0].error():
        raise KafkaException(found[0].error())
    return found[0]


def refuses_cursus(broker: Broker, connect: Connect, topic: str, group: str) -> None:
    """Check that no Cursus client can join the group or commit for it."""
    in_use = f'ERROR: group_in_use group={group} reason="it has live members of another protocol"'
    with CursusClient(broker.address) as client:
        assert client.ask(f"JOIN_GROUP topic={topic} group={group} member=c1") == in_use
    with pytest.raises(CursusError) as of_cursus:
        connect("Cursus").commit(group, topic, 0)
    assert str(of_cursus.value) == in_use


def test_a_v1_group_with_members_is_refused_to_other_protocols(
    broker: Broker, connect: Connect, sdk: PythonSdk, one_partition: str, group: str
) -> None:
    sdk.produce(one_partition, "key", "a")
    sdk.produce(one_partition, "key", "b")
    generation = sdk.join(group, one_partition, "c1").generation
    sdk.commit(group, one_partition, "c1", generation, 0, 1)

    for release in (None, "0.9.0.1"):
        with closing(consumer(broker, group, release)) as member:
            with pytest.raises(KafkaException) as of_kafka:
                first_of(member, one_partition)
            assert of_kafka.value.args[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    for protocol in ("RustLog", "RustLog JSON"):
        with pytest.raises(RefusedError) as of_rustlog:
            connect(protocol).commit(group, one_partition, 0)
        assert of_rustlog.value.code == 5
    refuses_cursus(broker, connect, one_partition, group)
    assert sdk.offset(group, one_partition, 0) == 1
    sdk.leave(group, one_partition, "c1", generation)

    with closing(consumer(broker, group)) as member:
        message = first_of(member, one_partition)
        assert (message.offset(), message.value()) == (1, b"b")


def test_a_kafka_group_with_members_is_refused_to_other_protocols(
    broker: Broker, connect: Connect, sdk: PythonSdk, one_partition: str, group: str
) -> None:
    sdk.produce(one_partition, "key", "a")
    with closing(consumer(broker, group)) as member:
        message = first_of(member, one_partition)

        with pytest.raises(SdkError) as of_v1:
            sdk.join(group, one_partition, "c1")
        assert str(of_v1.value) == "BAD_REQUEST: group has live members of another protocol"
        for protocol in ("RustLog", "RustLog JSON"):
            with pytest.raises(RefusedError) as of_rustlog:
                connect(protocol).commit(group, one_partition, 0)
            assert of_rustlog.value.code == 5
        refuses_cursus(broker, connect, one_partition, group)
        member.commit(message=message, asynchronous=False)

    assert sdk.join(group, one_partition, "c1").partitions == [0]
    assert sdk.offset(group, one_partition, 0) == 1


def test_a_cursus_group_with_members_is_refused_to_other_protocols(
    broker: Broker, connect: Connect, sdk: PythonSdk, one_partition: str, group: str
) -> None:
    sdk.produce(one_partition, "key", "a")
    sdk.produce(one_partition, "key", "b")
    cursus = JavaMember(broker.address, one_partition, group, "c1")
    cursus.join()

    for release in (None, "0.9.0.1"):
        with closing(consumer(broker, group, release)) as member:
            with pytest.raises(KafkaException) as of_kafka:
                first_of(member, one_partition)
            assert of_kafka.value.args[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    for protocol in ("RustLog", "RustLog JSON"):
        with pytest.raises(RefusedError) as of_rustlog:
            connect(protocol).commit(group, one_partition, 0)
        assert of_rustlog.value.code == 5
    with pytest.raises(SdkError) as of_v1:
        sdk.join(group, one_partition, "c1")
    assert str(of_v1.value) == "BAD_REQUEST: group has live members of another protocol"
    connect("Cursus").commit(group, one_partition, 1)
    assert cursus.beat()
    cursus.leave()

    with closing(consumer(broker, group)) as member:
        message = first_of(member, one_partition)
        assert (message.offset(), message.value()) == (1, b"b")


def test_an_empty_group_passes_from_v1_to_kafka_to_cursus_and_back_and_to_rustlog(
    broker: Broker, connect: Connect, sdk: PythonSdk, one_partition: str, group: str
) -> None:
    for value in ("a", "b", "c", "d"):
        sdk.produce(one_partition, "key", value)
    first = sdk.join(group, one_partition, "c1")
    sdk.commit(group, one_partition, "c1", first.generation, 0, 1)
    sdk.leave(group, one_partition, "c1", first.generation)
    with closing(consumer(broker, group)) as member:
        assert first_of(member, one_partition).value() == b"b"
        member.commit(offsets=[TopicPartition(one_partition, 0, 2)], asynchronous=False)
    cursus = connect("Cursus")
    assert cursus.committed(group, one_partition) == 2
    java = JavaMember(broker.address, one_partition, group, "c1")
    java.join()
    assert java.partitions == [0]
    cursus.commit(group, one_partition, 3)
    java.leave()
    again = sdk.join(group, one_partition, "c1")
    assert sdk.offset(group, one_partition, 0) == 3
    sdk.commit(group, one_partition, "c1", again.generation, 0, 4)
    sdk.leave(group, one_partition, "c1", again.generation)

    rustlog = connect("RustLog")
    assert rustlog.committed(group, one_partition) == 4
    rustlog.commit(group, one_partition, 1)
    assert sdk.offset(group, one_partition, 0) == 1
    assert cursus.committed(group, one_partition) == 1
