"""Producing and polling as Cursus's own clients do, also where that fails on their own broker."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from tests.compatibility.cursus.members import GoMember
from tests.compatibility.cursus.sdks import (
    GZIP,
    SNAPPY,
    Compress,
    EndedError,
    GaveUpError,
    JavaProducer,
    PythonProducer,
    go_ack,
    go_connection,
    go_offsets,
    go_ok,
    go_without_reading,
    java_polls,
)
from tests.support.broker_process import Broker, wait_until
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch
from tests.support.wire_client import WireClient

METADATA = '{"id":"e-1"}'
COMPRESSORS = pytest.mark.parametrize("compress", [None, GZIP, SNAPPY])


@pytest.fixture
def topic(broker: Broker) -> Iterator[str]:
    """The name of a topic that a client creates."""
    name = f"sdk-{uuid.uuid4().hex[:8]}"
    yield name
    with CursusClient(broker.address) as client:
        client.ask(f"DELETE topic={name}")


def stored(address: str, topic: str, partition: int = 0) -> list[bytes]:
    """Return every record of a partition."""
    with CursusClient(address) as client:
        found = client.consume(f"CONSUME topic={topic} partition={partition} offset=0")
    return [message.payload for message in found.messages]


@COMPRESSORS
def test_java_produces_and_polls(broker: Broker, topic: str, compress: Compress | None) -> None:
    producer = JavaProducer(broker.address, topic, 2, compress)
    assert producer.partitions == 2
    for partition in (0, 1):
        bodies = [producer.body(partition, [b"%d" % n] * 3) for n in range(5)]
        producer.send(partition, *bodies)
    producer.close()

    polls = list(islice(java_polls(broker.address, topic, 1, "g"), 3))

    assert polls == [[b"%d" % n for n in range(5) for _ in range(3)], [], []]


def test_the_java_consumer_keeps_its_position_when_a_lower_offset_is_committed(
    broker: Broker, topic: str
) -> None:
    producer = JavaProducer(broker.address, topic, 1)
    producer.send(0, producer.body(0, [b"%d" % n for n in range(45)]))
    polls = java_polls(broker.address, topic, 0, "g")
    assert len(next(polls)) == 45
    with CursusClient(broker.address) as client:
        assert client.ask(f"COMMIT {topic} g 0 10") == "OK"

    assert [next(polls) for _ in range(3)] == [[], [], []]
    assert len(next(java_polls(broker.address, topic, 0, "g"))) == 35, "another one begins there"
    producer.close()


def test_batches_of_the_java_producer_that_arrive_out_of_order_are_stored_once_each(
    broker: Broker, topic: str
) -> None:
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
    producer = JavaProducer(broker.address, topic, 1)
    bodies = [producer.body(0, [b"%d" % n] * (4 if n < 4 else 1)) for n in range(5)]

    producer.send(0, *(bodies[n] for n in (4, 0, 1, 3, 2)))
    producer.send(0, *bodies)

    assert sorted(stored(broker.address, topic)) == sorted([b"0", b"1", b"2", b"3"] * 4 + [b"4"])
    producer.close()


def test_the_java_producer_closes_itself_when_it_is_fenced(broker: Broker, topic: str) -> None:
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
        client.answer(batch(topic, 0, [Message(b"", 1, b"java-1", epoch=1_800_000_000)]))
    producer = JavaProducer(broker.address, topic, 1)

    with pytest.raises(GaveUpError, match="stale_producer_epoch"):
        producer.send(0, producer.body(0, [b"late"]))
    producer.close()


@pytest.mark.parametrize("make", ["java", "python"])
def test_a_batch_with_acks_0_is_sent_once(broker: Broker, topic: str, make: str) -> None:
    if make == "java":
        java = JavaProducer(broker.address, topic, 1)
        java.send(0, java.body(0, [b"m"], acks=b"0"))
        java.close()
    else:
        python = PythonProducer(broker.address, topic)
        python.send([b"m"], acks=b"0")
        assert python.sent == 1

    wait_until(lambda: stored(broker.address, topic) == [b"m"], "it can be read")
    time.sleep(0.1)
    assert stored(broker.address, topic) == [b"m"]


def test_the_go_producer_sends_acks_0_and_never_reads(broker: Broker, topic: str) -> None:
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE {topic} 1")

    with CursusClient(broker.address) as deaf:
        go_without_reading(deaf, [batch(topic, 0, [Message(b"m")], acks=b"0")] * 500)
        wait_until(lambda: len(stored(broker.address, topic)) == 500, "all records can be read")


@pytest.mark.parametrize("compress", [None, GZIP])
def test_python_produces(broker: Broker, topic: str, compress: Compress | None) -> None:
    producer = PythonProducer(broker.address, topic, compress)

    producer.send([b"a", b"b"])
    producer.send([b"c"])

    assert producer.sent == 2
    assert stored(broker.address, topic) == [b"a", b"b", b"c"]


def test_a_message_that_is_too_large_ends_pythons_producer_and_is_given_up_by_javas(
    broker: Broker, topic: str
) -> None:
    """Python's would send it again for ever, and nothing behind it; Java's goes on."""
    large = b"x" * (16 << 20)
    python, java = PythonProducer(broker.address, topic), JavaProducer(broker.address, topic, 1)

    with pytest.raises(EndedError, match="message 0 takes 16777268 bytes in a frame"):
        python.send([large], tries=3)
    assert python.sent == 1
    with pytest.raises(GaveUpError, match="dropped: "):
        java.send(0, java.body(0, [large]))
    java.send(0, java.body(0, [b"behind"]))
    java.close()

    assert stored(broker.address, topic) == [b"behind"]


def test_the_python_producer_reads_the_json_error_of_a_refused_batch(
    broker: Broker, topic: str
) -> None:
    producer = PythonProducer(broker.address, topic)
    with CursusClient(broker.address) as client:
        client.ask(f"DELETE topic={topic}")

    with pytest.raises(GaveUpError, match='"error":"topic_not_found topic='):
        producer.send([b"a"], tries=1)
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE {topic}")


@COMPRESSORS
def test_go_produces_and_polls(broker: Broker, topic: str, compress: Compress | None) -> None:
    with go_connection(broker.address) as client:
        created = client.ask(
            envelope(f"CREATE topic={topic} partitions=1 idempotent=true", "admin")
        )
        go_ok(created, "topic", "partitions")
        go_ok(client.ask(envelope("FIND_COORDINATOR group=g")), "host", "port", "coordinator_id")
        go_ok(client.ask(envelope(f"METADATA topic={topic}")), "leaders", "epochs")
        body = batch(topic, 0, [Message(b"%d" % n, n, b"go-p0", epoch=7) for n in range(1, 4)])
        for _ in range(2):
            assert go_ack(client.answer(compress(body) if compress else body), 7) == 2
        offsets = go_offsets(client.ask(envelope(f"LIST_OFFSETS topic={topic}")))
        assert offsets == {0: {"earliest": 0, "latest": 3, "leo": 3, "hwm": 3}}
        fetched = client.ask(envelope(f"FETCH_OFFSET topic={topic} partition=0 group=g"))
        assert go_ok(fetched, "offset") == {"offset": "0"}
        consume = f"CONSUME topic={topic} partition=0 offset=1 member=m isolation=read_committed"
        found = read_batch(client.answer(envelope(f"{consume} autoOffsetReset=earliest batch=100")))
        assert [each.payload for each in found.messages] == [b"2", b"3"]
        found = read_batch(client.answer(envelope(consume, topic)))
        assert len(found.messages) == 2


def test_go_appends_events_replays_them_and_gets_them_again_until_it_commits(
    broker: Broker, topic: str
) -> None:
    """Its aggregates say which version they expect, its sagas commit what they have handled."""
    with go_connection(broker.address) as client:

        def append(expected: int) -> str:
            return client.ask(
                envelope(
                    f"APPEND_STREAM topic={topic} key=order-1 version={expected + 1}"
                    f" event_type=Placed schema_version=2 metadata={METADATA}"
                    f" message=event-{expected + 1}"
                )
            )

        create = f"CREATE topic={topic} partitions=1 event_sourcing=true cleanup_policy=delete"
        go_ok(client.ask(envelope(create, "admin")), "topic", "partitions")
        for expected in range(3):
            fields = go_ok(append(expected), "version", "offset", "partition")
            assert fields["version"] == str(expected + 1)
        conflict = append(1)
        assert conflict.startswith("ERROR: version_conflict class=conflict retryable=false ")
        assert " current=3 " in conflict

        client.send(envelope(f"READ_STREAM topic={topic} key=order-1 from_version=2"))
        described = json.loads(client.frame() or b"")
        assert (described["status"], described["count"]) == ("OK", 2)
        replayed = read_batch(client.frame() or b"").messages
        assert [each.aggregate_version for each in replayed] == [2, 3]
        assert {each[5:7] for each in replayed} == {(b"Placed", 2)}
        assert {each.metadata for each in replayed} == {METADATA.encode()}

        member = GoMember(broker.address, topic, f"saga-{topic}", "saga")
        member.join()
        here = f"topic={topic} partition=0 group=saga-{topic} member={member.member_id}"
        consume = envelope(
            f"CONSUME {here} generation={member.generation} offset=0 autoOffsetReset=earliest",
            topic,
        )
        for _ in range(2):
            found = read_batch(client.answer(consume)).messages
            assert [each.payload for each in found] == [b"event-1", b"event-2", b"event-3"]
        commit = f"COMMIT_OFFSET {here} generation={member.generation} offset=2"
        assert client.ask(envelope(commit)).startswith("OK")
        found = read_batch(client.answer(consume)).messages
        assert [(each.offset, each.payload) for each in found] == [(2, b"event-3")]
        member.leave()


def test_an_idle_connection_is_not_closed_as_one_of_kafka_is(
    start_broker: Callable[..., Broker],
) -> None:
    broker = start_broker("connections.max.idle.ms=1000")
    with CursusClient(broker.address) as client, WireClient(broker.address) as kafka:
        client.ask("LIST")
        kafka.request("ApiVersions", 0, {})
        time.sleep(3)
        assert client.ask("LIST").startswith("OK ")
        kafka.expect_closed()
