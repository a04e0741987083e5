"""Cursus's batches on the native path: acknowledged when durable, refused, or left to Python."""

import errno
import json
import struct
from types import SimpleNamespace
from typing import cast

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.produce import HAS_NAMED_PRODUCERS
from broker._native.protocols.cursus.protocol import Cursus
from broker.codec import records
from broker.model.limits import CURSUS_FAST_BATCH_BYTES_MAX, REPLICAS_WAIT_MS
from tests.support.cursus_client import Message, batch
from tests.support.native_log import Logs
from tests.support.native_replica import LEADER, REPLICA, lead
from tests.support.native_wire import Client, Wire

SENT = [Message(b"v%d" % n, n, b"p", b"k", 7) for n in (1, 2, 3)]
OK = (
    b'{"status":"OK","last_offset":2,"producer_epoch":7,"producer_id":"p","seq_start":1,'
    b'"seq_end":3,"leader":"","error":""}'
)
FAILED = (
    b'{"status":"ERROR","last_offset":0,"producer_epoch":7,"producer_id":"p","seq_start":1,'
    b'"seq_end":3,"leader":"","error":"broker_error reason='
    b"'the log of the partition has failed'\"}"
)
PUBLISH = b"PUBLISH topic=topic partition=0 producerId=p seqNum=1 message=m"
REASON = b"broker_error reason='the log of the partition has failed'"


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def speaking(wire: Wire) -> Client:
    """Return a Cursus connection; requests left to Python are in `slow`."""
    wire.poller.serve_with({"cursus": Cursus(None)}, wire.slow.extend, lambda *_: None)
    return wire.connect()


def test_a_batch_is_acknowledged_when_it_is_durable(durable: Wire) -> None:
    client = speaking(durable)

    client.send(framed(batch("topic", 0, SENT)))

    assert client.frame() == framed(OK)
    assert durable.log().durable_end == 3
    assert durable.slow == []


@pytest.mark.parametrize("sent", [batch("topic", 0, SENT), PUBLISH], ids=["batch", "publish"])
def test_the_leader_is_this_brokers_address_for_the_client(wire: Wire, sent: bytes) -> None:
    longest = b"a" * 253 + b".:65535"
    sessions = [SimpleNamespace(state=None), SimpleNamespace(state=None)]

    def state_of(session: SimpleNamespace) -> SimpleNamespace:
        session.state = SimpleNamespace(leader=b"h:1" if session is sessions[0] else longest)
        return cast("SimpleNamespace", session.state)

    cursus = Cursus(None, None, state_of)
    wire.poller.serve_with({"cursus": cursus}, wire.slow.extend, lambda *_: None)
    for session, leader in zip(sessions, (b"h:1", longest), strict=True):
        client = wire.connect(session)
        client.send(framed(sent))
        assert json.loads(client.frame()[4:])["leader"] == leader.decode()
        session.state.leader = b"a" * 300
        client.socket.send(framed(sent))
        wire.run_until(lambda: bool(wire.slow))
        wire.slow.clear()


def test_kafka_clients_read_the_stored_records(wire: Wire) -> None:
    speaking(wire).send(framed(batch("topic", 1, SENT)))

    stored = list(records(wire.log(1).read(0, 1 << 20)))

    assert [(each.offset, each.key, each.value) for each in stored] == [
        (n - 1, b"k", b"v%d" % n) for n in (1, 2, 3)
    ]
    assert stored[1].headers == [
        (b"cursus.producer_id", b"p"),
        (b"cursus.seq_num", b"2"),
        (b"cursus.epoch", b"7"),
    ]


def test_a_failed_sync_is_answered_with_an_error(durable: Wire, recording: None) -> None:
    client = speaking(durable)
    file_ops.fail("sync_data", ".log", errno.EIO)

    client.send(framed(batch("topic", 0, SENT)))

    assert client.frame() == framed(FAILED)


def test_the_longest_responses_fit_their_buffers(durable: Wire, recording: None) -> None:
    client = speaking(durable)
    longest = Message(b"", (1 << 64) - 1, b"p" * 255, epoch=-(1 << 63))
    client.send(framed(batch("topic", 0, [longest])))
    acknowledged = json.loads(client.frame()[4:])
    file_ops.fail("sync_data", ".log", errno.EIO)
    client.send(framed(batch("topic", 0, [longest])))
    failed = json.loads(client.frame()[4:])

    for answer, status in ((acknowledged, "OK"), (failed, "ERROR")):
        assert answer["status"] == status
        assert answer["producer_id"] == "p" * 255
        assert answer["producer_epoch"] == -(1 << 63)
        assert answer["seq_end"] == (1 << 64) - 1


def test_acks_0_is_answered_before_it_is_durable(durable: Wire) -> None:
    client = speaking(durable)

    client.send(framed(batch("topic", 0, SENT, acks=b"0")))

    assert client.frame() == framed(b'{"status":"OK"}')


def test_unread_responses_to_acks_0_are_dropped_whole(wire: Wire) -> None:
    client = speaking(wire)
    count = 100_000
    frame = framed(batch("topic", 0, [Message(b"")], acks=b"0"))

    for _ in range(count // 1000):
        client.send(frame * 1000)

    assert wire.log().log_end_offset == count
    answers: list[bytes] = []
    while some := client.frames():
        answers += some
        wire.run()
    assert 0 < len(answers) < count
    assert set(answers) == {framed(b'{"status":"OK"}')}
    client.send(framed(batch("topic", 0, [Message(b"")])))
    assert json.loads(client.frame()[4:])["last_offset"] == count, "it reads again"


@pytest.mark.parametrize(
    "body",
    [
        batch("other", 0, SENT),
        batch("topic", 3, SENT),
        batch("topic", -1, SENT),
        batch("topic", 0, []),
        batch("topic", 0, SENT, acks=b"2"),
        batch("topic", 0, SENT)[:-1],
        batch("topic", 0, SENT) + b"x",
        batch("topic", 0, [Message(b"", producer_id=b'"')]),
        batch("topic", 0, [Message(b"", producer_id=b"\xff")]),
        batch("topic", 0, [Message(b"", event_type=b"x" * 256)]),
        batch("topic", 0, [Message(bytes(CURSUS_FAST_BATCH_BYTES_MAX))]),
        b"",
        b"LIST",
        b"\0\0" + batch("topic", 0, SENT),
    ],
)
def test_uncommon_requests_are_left_to_python_unchanged(wire: Wire, body: bytes) -> None:
    client = speaking(wire)
    client.send(framed(b"LIST"))
    wire.slow.pop().send(b"first")

    client.send(framed(body))

    assert [pending.body for pending in wire.slow] == [body]
    assert [wire.log(n).log_end_offset for n in range(3)] == [0, 0, 0]
    wire.slow.pop().send(b"second")
    wire.run()
    assert client.frames() == [framed(b"first"), framed(b"second")]


@pytest.mark.parametrize(
    "settings", [{"protocol_flags": HAS_NAMED_PRODUCERS}, {"needs_keys": True}]
)
def test_a_topic_with_special_settings_is_left_to_python(
    wire: Wire, logs: Logs, settings: dict[str, int]
) -> None:
    wire.table.remove("topic")
    wire.serve(logs.create(5, is_group_commit=False, **settings))

    speaking(wire).send(framed(batch("topic", 0, [Message(b"no key")])))

    assert len(wire.slow) == 1
    wire.slow.pop().send(None)
    wire.run()


# ---- with other replicas -------------------------------------------------------------------------


@pytest.fixture
def led(wire: Wire, log: PartitionLog) -> PartitionLog:
    """Partition 0, which another broker has a replica of."""
    lead(log)
    return log


@pytest.mark.parametrize("acks", [b"1", b""])
def test_one_acknowledgement_is_that_of_this_broker(
    wire: Wire, led: PartitionLog, acks: bytes
) -> None:
    client = speaking(wire)

    client.send(framed(batch("topic", 0, SENT, acks=acks)))

    assert client.frame() == framed(OK)
    assert led.high_watermark == 0


@pytest.mark.parametrize("acks", [b"-1", b"all"])
def test_all_acknowledgements_are_those_of_the_replicas_in_sync(
    wire: Wire, led: PartitionLog, acks: bytes
) -> None:
    client = speaking(wire)
    client.send(framed(batch("topic", 0, SENT, acks=acks)))
    assert client.frames() == []

    led.report(REPLICA, 3)
    wire.logs.turn.request_end()

    assert client.frame() == framed(OK)


def test_replicas_that_are_too_slow_or_too_few_are_errors_on_which_clients_try_again(
    wire: Wire, led: PartitionLog
) -> None:
    client = speaking(wire)
    client.send(framed(batch("topic", 0, SENT, acks=b"all")))
    wire.run()
    wire.logs.turn.fail_overdue(wire.logs.turn.steady_ms + REPLICAS_WAIT_MS)
    late = b"leader_not_found reason='the replicas in sync have not copied it in time'"
    assert client.frame() == framed(FAILED.replace(REASON, late))

    client.send(framed(batch("topic", 0, SENT, acks=b"all")))
    wire.run()
    led.configure(is_group_commit=False, min_isr=2)
    led.set_isr([LEADER], 1)
    few = b"leader_not_found reason='too few replicas are in sync, try again later'"
    assert client.frame() == framed(FAILED.replace(REASON, few))


def test_another_leader_is_named_as_text(wire: Wire, led: PartitionLog) -> None:
    client = speaking(wire)
    client.send(framed(batch("topic", 0, SENT, acks=b"all")))
    wire.run()

    led.follow(1)

    assert client.frame() == framed(b"ERROR: NOT_LEADER")
