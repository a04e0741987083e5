"""Cursus's batches, PUBLISH and CONSUME on a real broker: golden responses, records, limits."""

import bz2
import json
import lzma
import re
import struct
import time
import zlib
from collections.abc import Callable

import pytest

from broker.codec import records
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.cursus_client import (
    Batch,
    ConnectionEndedError,
    CursusClient,
    Message,
    batch,
    envelope,
    read_batch,
    short,
)
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch as KafkaBatch
from tests.unit.protocols.cursus.test_bodies import COMPRESSORS

MIB = 1 << 20
FULL = Message(b"\x00\xffpayload", 9, b"pid", b"key", -5, b"made", 3, 1 << 63, b"{}")
EMPTY_REPLY = bytes.fromhex("ba7c00017400000002013100") + bytes(20)


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of three partitions."""
    return cursus_topic(3)


@pytest.fixture
def checked(cursus_topic: Callable[..., str]) -> str:
    """A topic of one partition whose producers are idempotent."""
    return cursus_topic(1, " idempotent=true")


def ack(body: bytes) -> tuple[str, int, str]:
    """Return status, last offset and error of a response, which has all eight keys in order."""
    fields = json.loads(body)
    assert list(fields) == [
        "status",
        "last_offset",
        "producer_epoch",
        "producer_id",
        "seq_start",
        "seq_end",
        "leader",
        "error",
    ]
    return fields["status"], fields["last_offset"], fields["error"]


def payloads(found: Batch) -> list[bytes]:
    return [message.payload for message in found.messages]


# ---- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [b"1", b"-1", b"all", b"ALL", b""])
@pytest.mark.parametrize("is_original", [False, True])
def test_a_batch_is_acknowledged(
    broker: Broker, cursus: CursusClient, topic: str, acks: bytes, is_original: bool
) -> None:
    messages = [Message(b"hi", n, b"p1", b"k", 7) for n in (1, 2, 3)]

    assert cursus.answer(batch(topic, 2, messages, acks=acks, is_original=is_original)) == (
        b'{"status":"OK","last_offset":2,"producer_epoch":7,"producer_id":"p1","seq_start":1,'
        b'"seq_end":3,"leader":"%b","error":""}' % broker.address.encode()
    )


@pytest.mark.parametrize("acks", [b"-1", b"all"])
def test_acks_all_requires_no_more_replicas_than_there_are(
    cursus: CursusClient, wire: WireClient, topic: str, acks: bytes
) -> None:
    wire_requests.alter_topic(wire, topic, {"min.insync.replicas": "3"})

    assert ack(cursus.answer(batch(topic, 0, [Message(b"m")], acks=acks))) == ("OK", 0, "")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (batch("{}", 3, [Message(b"")]), "partition_not_found partition=3"),
        (batch("{}", -1, [Message(b"")]), "partition_not_found partition=-1"),
        (batch("nope", 0, [Message(b"")]), "topic_not_found topic=nope"),
        (batch("{}", 0, [Message(b"")], acks=b"2"), "invalid_acks value=2"),
        (batch("{}", 0, []), "broker_error reason='empty batch messages'"),
        (
            batch("__consumer_offsets", 0, [Message(b"")]),
            "internal_topic_write_forbidden topic=__consumer_offsets",
        ),
        (
            batch("{}", 0, [Message(b"x" * (16 * MIB))]),
            "broker_error reason='message 0 takes 16777264 bytes in a frame, ",
        ),
        (
            batch("{}", 0, [Message(b"xy")])[:-1],
            "batch_decode_failed reason='the batch ends within a record'",
        ),
        (
            batch("{}", 0, [Message(b"")]) + b"x",
            "batch_decode_failed reason='something follows the last record of the batch'",
        ),
        (
            batch("{}", 0, [Message(b"")], count=2),
            "batch_decode_failed reason='a count of 2 records does not fit the batch'",
        ),
        (
            b"\xba\x7c",
            "batch_decode_failed reason='the batch ends within its header, or ",
        ),
    ],
)
def test_a_refused_batch_is_reported_in_json_and_nothing_is_stored(
    cursus: CursusClient, topic: str, body: bytes, error: str
) -> None:
    cursus.ask(f"FETCH_OFFSET topic={topic} partition=0 group=g")  # their topic exists
    body = body.replace(short(b"{}"), short(topic.encode()))

    status, last_offset, said = ack(cursus.answer(body))

    assert (status, last_offset) == ("ERROR", 0)
    assert said.startswith(error) if error.endswith(" ") else said == error
    assert "P0:earliest=0:latest=0:leo=0:hwm=0" in cursus.ask(f"LIST_OFFSETS topic={topic}")


def test_what_a_frame_of_the_original_holds_is_stored_and_read_in_such_a_frame(
    cursus: CursusClient, topic: str
) -> None:
    empty = len(batch(topic, 0, [Message(b"")]))
    largest = b"x" * (16 * MIB - empty)

    assert ack(cursus.answer(batch(topic, 0, [Message(largest + b"x")])))[0] == "ERROR"
    assert ack(cursus.answer(batch(topic, 0, [Message(largest)]))) == ("OK", 0, "")

    answer = cursus.answer(f"CONSUME topic={topic} partition=0 offset=0")
    assert len(answer) == 16 * MIB
    assert [each.payload for each in read_batch(answer).messages] == [largest]


def test_a_published_message_that_no_response_can_carry_is_refused(
    cursus: CursusClient, topic: str
) -> None:
    largest = b"x" * (16 * MIB - len(batch(topic, 0, [Message(b"", producer_id=b"p")])))
    head = f"PUBLISH topic={topic} producerId=p partition=0 message=".encode()

    assert cursus.answer(head + largest + b"x").startswith(b"ERROR: command_failed reason=")
    assert json.loads(cursus.answer(head + largest))["last_offset"] == 0

    read = cursus.consume(f"CONSUME topic={topic} partition=0 offset=0")
    assert [each.payload for each in read.messages] == [largest]


def test_a_frame_of_many_records_is_stored_and_read_in_several_batches(
    cursus: CursusClient, topic: str
) -> None:
    sent = [Message(bytes([65 + n % 26]) * (MIB - 100)) for n in range(60)]
    assert json.loads(cursus.answer(batch(topic, 0, sent)))["last_offset"] == len(sent) - 1

    found: list[bytes] = []
    while len(found) < len(sent):
        read = cursus.consume(f"CONSUME topic={topic} partition=0 offset={len(found)}")
        found += [each.payload for each in read.messages]

    assert found == [each.payload for each in sent]


@pytest.mark.parametrize("codec", COMPRESSORS)
def test_a_batch_may_be_compressed(cursus: CursusClient, topic: str, codec: str) -> None:
    messages = [Message(b"hi" * 100, n) for n in (1, 2, 3)]

    answer = cursus.answer(COMPRESSORS[codec](batch(topic, 0, messages)))

    assert ack(answer) == ("OK", 2, "")
    assert len(payloads(cursus.consume(f"CONSUME topic={topic} partition=0 offset=0"))) == 3


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress, zlib.compress])
def test_a_batch_that_is_compressed_by_another_algorithm_is_refused(
    broker: Broker, cursus: CursusClient, topic: str, compress: Callable[[bytes], bytes]
) -> None:
    body = compress(batch(topic, 0, [Message(b"hi" * 100)]))
    cursus.ask("HELP")  # which makes it Cursus, whatever follows

    answer = cursus.answer(body)

    with CursusClient(broker.address) as first, pytest.raises(ConnectionEndedError):
        first.answer(body)
    assert re.match(rb"ERROR: (unknown_command|decode_failed) ", answer)
    assert "P0:earliest=0:latest=0:leo=0:hwm=0" in cursus.ask(f"LIST_OFFSETS topic={topic}")


@pytest.mark.parametrize("codec", COMPRESSORS)
def test_the_first_frame_of_a_connection_may_be_a_compressed_batch(
    broker: Broker, topic: str, codec: str
) -> None:
    with CursusClient(broker.address) as first:
        answer = first.answer(COMPRESSORS[codec](batch(topic, 0, [Message(b"hi" * 100)])))

    assert ack(answer) == ("OK", 0, "")


def test_a_batch_may_be_enveloped(cursus: CursusClient, topic: str) -> None:
    assert ack(cursus.answer(envelope(batch(topic, 0, [Message(b"")]), topic))) == ("OK", 0, "")


def test_pipelined_batches_are_acknowledged_in_order(cursus: CursusClient, topic: str) -> None:
    for n in range(50):
        cursus.send(batch(topic, 0, [Message(b"%d" % n)] * 2))

    offsets = [ack(cursus.frame() or b"")[1] for _ in range(50)]

    assert offsets == list(range(1, 101, 2))


def test_acks_0_has_a_short_response(cursus: CursusClient, topic: str) -> None:
    assert cursus.answer(batch(topic, 0, [Message(b"a")], acks=b"0")) == b'{"status":"OK"}'
    assert ack(cursus.answer(batch(topic, 0, [Message(b"b")]))) == ("OK", 1, "")


def test_a_client_that_never_reads_responses_to_acks_0_is_served_further(
    broker: Broker, cursus: CursusClient, topic: str
) -> None:
    count = 60_000  # responses of 19 bytes: more than the sockets hold
    body = batch(topic, 0, [Message(b"x")], acks=b"0")
    frame = struct.pack(">I", len(body)) + body
    with CursusClient(broker.address) as deaf:
        for _ in range(count // 1000):
            deaf.socket.sendall(frame * 1000)
        deadline = time.monotonic() + 60
        while f"P0:earliest=0:latest={count}:" not in cursus.ask(f"LIST_OFFSETS topic={topic}"):
            assert time.monotonic() < deadline, cursus.ask(f"LIST_OFFSETS topic={topic}")
            time.sleep(0.05)
        read = 0
        while read < count and deaf.frame() == b'{"status":"OK"}':
            read += 1
            if read == 500:
                break
        assert read == 500, "what was sent is whole"


# ---- records -----------------------------------------------------------------------------------


def test_a_record_is_returned_as_it_was_sent(cursus: CursusClient, topic: str) -> None:
    sent = [FULL, Message(b""), Message(bytes(range(256)), key=b"\xff")]
    cursus.answer(batch(topic, 1, sent))

    found = cursus.consume(f"CONSUME topic={topic} partition=1 offset=0 member=m")

    assert found == Batch(
        topic.encode(),
        1,
        b"1",
        9,
        0,
        [message._replace(offset=n) for n, message in enumerate(sent)],
    )


def test_kafka_clients_see_key_value_and_headers(
    cursus: CursusClient, wire: WireClient, topic: str
) -> None:
    cursus.answer(batch(topic, 0, [FULL, Message(b"plain")]))

    first, second = records(wire_requests.fetch(wire, topic, 0, 0))

    assert (first.key, first.value) == (b"key", b"\x00\xffpayload")
    assert dict(first.headers) == {
        b"cursus.producer_id": b"pid",
        b"cursus.seq_num": b"9",
        b"cursus.epoch": b"-5",
        b"cursus.event_type": b"made",
        b"cursus.schema_version": b"3",
        b"cursus.aggregate_version": b"9223372036854775808",
        b"cursus.metadata": b"{}",
    }
    assert (second.key, second.value, second.headers) == (None, b"plain", [])


def test_records_of_kafka_clients_are_read(
    cursus: CursusClient, wire: WireClient, topic: str
) -> None:
    wire_requests.produce(wire, topic, KafkaBatch([b"one", b"two"]).encode())

    found = cursus.consume(f"CONSUME topic={topic} partition=0 offset=1")

    assert found.messages == [Message(b"two", offset=1)]


def test_a_topic_that_is_created_again_has_no_record_of_the_deleted_one(
    cursus: CursusClient, topic: str
) -> None:
    cursus.answer(batch(topic, 0, [Message(b"old")]))
    cursus.ask(f"COMMIT {topic} g 0 1")

    assert cursus.ask(f"DELETE {topic}") == f"OK topic={topic} deleted=true"
    assert cursus.ask(f"CREATE {topic} 1").startswith(f"OK topic={topic} partitions=1 ")

    assert cursus.consume(f"CONSUME topic={topic} partition=0 offset=0").messages == []
    assert cursus.ask(f"FETCH_OFFSET topic={topic} partition=0 group=g") == "OK offset=0"
    assert ack(cursus.answer(batch(topic, 0, [Message(b"new")]))) == ("OK", 0, "")


# ---- idempotent producers ----------------------------------------------------------------------


def test_a_repeated_batch_is_acknowledged_and_not_stored_again(
    cursus: CursusClient, checked: str
) -> None:
    def send(*seqs: int, epoch: int = 5) -> tuple[str, int, str]:
        messages = [Message(b"%d" % seq, seq, b"p", epoch=epoch) for seq in seqs]
        return ack(cursus.answer(batch(checked, 0, messages)))

    assert send(1, 2, 3) == ("OK", 2, "")
    assert send(1, 2, 3) == ("OK", 2, "")
    assert send(3, 4) == ("OK", 3, "")
    assert [send(6)[0], send(7)[0], send(5)[0]] == ["OK"] * 3
    found = cursus.consume(f"CONSUME topic={checked} partition=0 offset=0")
    assert payloads(found) == [b"1", b"2", b"3", b"4", b"6", b"7", b"5"]
    assert send(5_000) == (
        "ERROR",
        0,
        "broker_error reason='idempotency gap: expected seqNum=8, got 5000'",
    )
    assert send(8, epoch=4) == (
        "ERROR",
        0,
        "stale_producer_epoch producer=p epoch=4 current=5",
    )
    assert send(5_000, epoch=6) == (
        "ERROR",
        0,
        "broker_error reason='idempotency error: first message must have seqNum=1, got 5000'",
    )
    assert send(1, epoch=6) == ("OK", 7, "")


def test_repeated_publishes_are_stored_once(cursus: CursusClient, checked: str) -> None:
    def send(seq: int) -> str:
        return cursus.ask(f"PUBLISH topic={checked} producerId=p seqNum={seq} epoch=1 message=m")

    assert [ack(send(seq).encode())[1] for seq in (1, 1, 2, 2, 4)] == [0, 0, 1, 1, 2]
    assert send(100) == ('ERROR: broker_error reason="idempotency gap: expected seqNum=3, got 100"')


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_topic_that_is_not_idempotent_stores_repeated_batches(
    cursus: CursusClient, topic: str, *, is_idempotent: bool
) -> None:
    sent = batch(topic, 0, [Message(b"m", 7, b"p")], is_idempotent=is_idempotent)

    assert [ack(cursus.answer(sent))[1] for _ in range(3)] == [0, 1, 2]


def test_a_producer_name_above_the_limit_is_refused(cursus: CursusClient, checked: str) -> None:
    answer = cursus.answer(batch(checked, 0, [Message(b"m", 1, b"p" * 256)]))

    assert ack(answer) == (
        "ERROR",
        0,
        "invalid_producer_id reason='at most 255 bytes in an idempotent topic'",
    )


# ---- PUBLISH -----------------------------------------------------------------------------------


def test_a_message_is_published(broker: Broker, cursus: CursusClient, topic: str) -> None:
    assert cursus.ask(
        f"PUBLISH topic={topic} partition=1 producerId=p seqNum=1 epoch=7 acks=1 key=k"
        " isIdempotent=true message= a b "
    ) == (
        '{"status":"OK","last_offset":0,"producer_epoch":7,"producer_id":"p","seq_start":1,'
        f'"seq_end":1,"leader":"{broker.address}","error":""}}'
    )
    found = cursus.consume(f"CONSUME topic={topic} partition=1 offset=0")
    assert found.messages == [Message(b"a b", 1, b"p", b"k", 7)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("message=m", "missing_topic command=PUBLISH"),
        ("topic={} producerId=p", "missing_message command=PUBLISH"),
        ("topic={} producerId=p message= ", "missing_message command=PUBLISH"),
        ("topic={} message=m", "missing_producer_id command=PUBLISH"),
        ("topic={} producerId=p isIdempotent=maybe message=m", "invalid_is_idempotent value=maybe"),
        ("topic={} producerId=p acks=7 message=m", "invalid_acks value=7"),
        (
            "topic={} producerId=p seqNum=x message=m",
            'invalid_seq_num reason="seqNum x is not a number that it can be"',
        ),
        (
            "topic={} producerId=p epoch=99999999999999999999 message=m",
            'invalid_epoch reason="epoch 99999999999999999999 is not a number that it can be"',
        ),
        (
            "topic={} producerId=p partition=x message=m",
            'invalid_partition reason="x is not a partition"',
        ),
        ("topic={} producerId=p partition=3 message=m", "partition_not_found partition=3"),
        ("topic=nope producerId=p message=m", "topic_not_found topic=nope"),
        (
            "topic={} producerId=p transactional_id=x message=m",
            "transaction_metadata_forbidden command=PUBLISH",
        ),
        (
            "topic=__consumer_offsets producerId=p message=m",
            "internal_topic_write_forbidden topic=__consumer_offsets",
        ),
    ],
)
def test_an_invalid_publish_is_refused(
    cursus: CursusClient, topic: str, arguments: str, error: str
) -> None:
    cursus.ask(f"FETCH_OFFSET topic={topic} partition=0 group=g")

    assert cursus.ask(f"PUBLISH {arguments.format(topic)}") == f"ERROR: {error}"


def fnv_1a_64(key: bytes) -> int:
    number = 0xCBF29CE484222325
    for byte in key:
        number = ((number ^ byte) * 0x100000001B3) % (1 << 64)
    return number


def test_a_key_is_assigned_the_partition_that_the_original_broker_assigns(
    cursus: CursusClient, topic: str
) -> None:
    assert fnv_1a_64(b"a") == 0xAF63DC4C8601EC8C
    keys = [b"a", b"order-7", b"k2", "ü".encode()]

    for key in keys:
        cursus.answer(b"PUBLISH topic=%s producerId=p key=%s message=m" % (topic.encode(), key))

    for key in keys:
        place = fnv_1a_64(key) % 3
        found = cursus.consume(f"CONSUME topic={topic} partition={place} offset=0")
        assert key in [message.key for message in found.messages]


def test_messages_without_a_key_are_distributed_round_robin(
    cursus: CursusClient, topic: str
) -> None:
    for _ in range(6):
        cursus.ask(f"PUBLISH {topic} some text")

    ends = cursus.ask(f"LIST_OFFSETS topic={topic}")
    assert ends.count(":latest=2:leo=2:hwm=2") == 3


def test_a_publish_may_be_positional(cursus: CursusClient, topic: str) -> None:
    cursus.ask(f"CREATE topic={topic}-1 partitions=1")
    cursus.ask(f"PUBLISH {topic}-1 all  of this ")

    found = cursus.consume(f"CONSUME topic={topic}-1 partition=0 offset=0")
    assert payloads(found) == [b"all  of this"]
    cursus.ask(f"DELETE topic={topic}-1")


# ---- CONSUME -----------------------------------------------------------------------------------


def test_a_consume_at_the_end_returns_an_empty_batch(cursus: CursusClient) -> None:
    cursus.ask("CREATE t 3")

    assert cursus.answer("CONSUME topic=t partition=2 offset=0 member=m") == EMPTY_REPLY
    assert cursus.answer("CONSUME topic=t partition=2 offset=99") == EMPTY_REPLY, "beyond the end"
    assert cursus.answer("CONSUME t 2 0") == (
        bytes.fromhex("ba7c000174000132000131 00".replace(" ", "")) + bytes(20)
    )
    cursus.ask("DELETE t")


def test_the_positional_form_is_answered_in_the_documented_layout(
    cursus: CursusClient, topic: str
) -> None:
    cursus.answer(batch(topic, 0, [FULL, FULL]))

    found = read_batch(cursus.answer(f"CONSUME {topic} 0 1"), is_original=True)

    assert found.messages == [FULL._replace(offset=1)]
    latest = read_batch(cursus.answer(f"CONSUME {topic} 0 -1"), is_original=True)
    assert latest.messages == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "invalid_consume_syntax"),
        ("topic={} partition=0", "invalid_consume_syntax"),
        ("topic={} partition=x offset=0", "invalid_consume_syntax"),
        (
            "topic=nope partition=0 offset=0",
            "command_failed reason=\"topic 'nope' does not exist\"",
        ),
        (
            "topic={} partition=7 offset=0",
            "command_failed reason=\"partition 7 out of range for topic '{}' (0-2)\"",
        ),
        (
            "topic={} partition=0 offset=-1",
            'command_failed reason="invalid offset value: -1"',
        ),
        ("topic={} partition=0 offset=x", 'command_failed reason="invalid offset value: x"'),
        ("topic={} partition=0 offset=0 isolation=foo", "invalid_isolation isolation=foo"),
        ("topic={} partition=0 offset=0 isolation_level=foo", "invalid_isolation isolation=foo"),
        ("nope 0 0", "command_failed reason=\"topic 'nope' does not exist\""),
    ],
)
def test_an_invalid_consume_is_refused(
    cursus: CursusClient, topic: str, arguments: str, error: str
) -> None:
    answer = cursus.ask(f"CONSUME {arguments.format(topic)}".strip())

    assert answer == f"ERROR: {error.format(topic)}"


def test_an_offset_below_the_log_start_is_out_of_range(
    cursus: CursusClient, wire: WireClient, topic: str
) -> None:
    cursus.answer(batch(topic, 0, [Message(b"")] * 5))
    partition = {"partition_index": 0, "offset": 3}
    wire.request(
        "DeleteRecords",
        1,
        {"topics": [{"name": topic, "partitions": [partition]}], "timeout_ms": 1000},
    )

    assert cursus.ask(f"CONSUME topic={topic} partition=0 offset=2") == (
        "ERROR: OFFSET_OUT_OF_RANGE requested=2 earliest=3 latest=5"
    )
    assert len(cursus.consume(f"CONSUME topic={topic} partition=0 offset=3").messages) == 2


@pytest.mark.parametrize(
    ("asked", "first"),
    [("offset=0 group=g", 3), ("offset=5 group=g", 5), ("offset=0 group=h", 0), ("offset=0", 0)],
)
def test_a_committed_offset_takes_precedence_over_a_lower_requested_offset(
    cursus: CursusClient, topic: str, asked: str, first: int
) -> None:
    cursus.answer(batch(topic, 0, [Message(b"")] * 6))
    cursus.ask(f"COMMIT {topic} g 0 3")

    for _ in range(2):
        found = cursus.consume(f"CONSUME topic={topic} partition=0 {asked}")
        assert found.messages[0].offset == first


def test_a_pattern_reads_every_matching_topic(cursus: CursusClient, topic: str) -> None:
    for end in "ab":
        cursus.ask(f"CREATE topic={topic}-{end} partitions=1")
        cursus.ask(f"PUBLISH topic={topic}-{end} producerId=p message={end}")

    found = cursus.consume(f"CONSUME topic={topic}-? partition=0 offset=0")

    assert found.topic == f"{topic}-?".encode()
    assert payloads(found) == [b"a", b"b"]
    assert cursus.ask(f"CONSUME topic={topic}-x* partition=0 offset=0") == (
        f"ERROR: command_failed reason=\"topic '{topic}-x*' does not exist\""
    )
    for end in "ab":
        cursus.ask(f"DELETE topic={topic}-{end}")


def test_the_batch_parameter_limits_the_records_of_a_response(
    cursus: CursusClient, topic: str
) -> None:
    for _ in range(4):
        cursus.answer(batch(topic, 0, [Message(b"")] * 2_500))

    assert len(cursus.consume(f"CONSUME topic={topic} partition=0 offset=0 batch=7").messages) == 7
    assert len(cursus.consume(f"CONSUME topic={topic} partition=0 offset=0").messages) == 8_192


def test_a_backlog_larger_than_a_frame_is_read_frame_by_frame(
    cursus: CursusClient, topic: str
) -> None:
    large = batch(topic, 0, [Message(bytes([n]) * 900_000) for n in range(20)])
    assert ack(cursus.answer(large)) == ("OK", 19, "")
    offset, sizes = 0, []

    while offset < 20:
        body = cursus.answer(f"CONSUME topic={topic} partition=0 offset={offset}")
        sizes.append(len(body))
        offset = read_batch(body).messages[-1].offset + 1

    assert len(sizes) == 2
    assert max(sizes) <= 15 * MIB


def test_a_consume_may_wait_for_records(broker: Broker, cursus: CursusClient, topic: str) -> None:
    # Longer than the test waits for any response: the record ends the wait.
    cursus.send(f"CONSUME topic={topic} partition=0 offset=0 wait_ms=300000")
    time.sleep(0.1)
    with CursusClient(broker.address) as other:
        other.answer(batch(topic, 0, [Message(b"late")]))

    assert payloads(read_batch(cursus.frame() or b"")) == [b"late"]
    empty = cursus.consume(f"CONSUME topic={topic} partition=1 offset=0 wait_ms=20")
    assert empty.messages == []
