"""Cursus's PUBLISH on the native path: acknowledged when durable, refused, or left to Python."""

import errno
import struct
from types import SimpleNamespace

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.produce import HAS_NAMED_PRODUCERS, SPREADS_KEYS
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.cursus.publish import RoundRobin
from broker.codec import records
from broker.model.limits import CURSUS_FAST_BATCH_BYTES_MAX, REPLICAS_WAIT_MS
from tests.support.native_log import Logs
from tests.support.native_replica import LEADER, lead
from tests.support.native_wire import Client, Wire

PUBLISH = (
    b"PUBLISH topic=topic producerId=p partition=0 key=k seqNum=3 epoch=-7 acks=1 message=a b\n"
)
OK = (
    b'{"status":"OK","last_offset":0,"producer_epoch":-7,"producer_id":"p","seq_start":3,'
    b'"seq_end":3,"leader":"","error":""}'
)
PARTITIONS = 3


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def speaking(wire: Wire, turns: RoundRobin | None = None, session: object = None) -> Client:
    """Return a Cursus connection; requests left to Python are in `slow`."""
    wire.poller.serve_with({"cursus": Cursus(None, turns)}, wire.slow.extend, lambda *_: None)
    return wire.connect(session)


def ends(wire: Wire) -> list[int]:
    return [wire.log(each).log_end_offset for each in range(PARTITIONS)]


@pytest.mark.parametrize("envelope", [b"", b"\0\0", b"\0\x05topic"])
def test_a_message_is_acknowledged_when_it_is_durable(durable: Wire, envelope: bytes) -> None:
    client = speaking(durable)

    client.send(framed(envelope + PUBLISH))

    assert client.frame() == framed(OK)
    assert durable.log().durable_end == 1
    assert durable.slow == []


def test_kafka_clients_read_the_stored_records(wire: Wire) -> None:
    speaking(wire).send(framed(PUBLISH))

    [stored] = records(wire.log().read(0, 1 << 20))

    assert (stored.key, stored.value) == (b"k", b"a b")
    assert stored.headers == [
        (b"cursus.producer_id", b"p"),
        (b"cursus.seq_num", b"3"),
        (b"cursus.epoch", b"-7"),
    ]


def test_a_failed_sync_is_an_error(durable: Wire, recording: None) -> None:
    client = speaking(durable)
    file_ops.fail("sync_data", ".log", errno.EIO)

    client.send(framed(PUBLISH))

    assert client.frame() == framed(
        b'ERROR: command_failed reason="the log of the partition has failed"'
    )


def test_acks_0_is_answered_before_it_is_durable(durable: Wire) -> None:
    client = speaking(durable)

    client.send(framed(PUBLISH.replace(b"acks=1", b"acks=0")))

    assert client.frame() == framed(b'{"status":"OK"}')


def test_messages_without_a_partition_share_one_round_robin_with_python(wire: Wire) -> None:
    turns = RoundRobin()
    client = speaking(wire, turns)
    command = b"PUBLISH topic=topic producerId=p message=m"

    client.send(framed(command))
    assert turns.next(PARTITIONS) == 1
    client.send(framed(command) * 2)

    assert ends(wire) == [2, 0, 1]
    assert wire.slow == []


def test_a_refused_message_does_not_advance_the_round_robin(wire: Wire) -> None:
    turns = RoundRobin()
    client = speaking(wire, turns)

    client.send(framed(b"PUBLISH topic=topic producerId=p message=" + bytes(2 << 20)))

    assert turns.next(PARTITIONS) == 0
    wire.slow.pop().send(None)
    client.send(b"")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"PUBLISH ",
        b"publish topic=topic producerId=p message=m",
        b" PUBLISH topic=topic producerId=p message=m",
        b"PUBLISH topic hello",
        b"PUBLISH topic=topic message=m",
        b"PUBLISH producerId=p message=m",
        b"PUBLISH topic=other producerId=p message=m",
        b"PUBLISH topic=topic producerId=p message=",
        b"PUBLISH topic=topic producerId=p message= \t\0",
        b"PUBLISH topic=topic producerId=p",
        b"PUBLISH topic=topic producerId=p partition=3 message=m",
        b"PUBLISH topic=topic producerId=p partition=-2 message=m",
        b"PUBLISH topic=topic producerId=p acks=2 message=m",
        b"PUBLISH topic=topic producerId=p seqNum=x message=m",
        b"PUBLISH topic=topic producerId=p seqNum=9999999999999999999 message=m",
        b"PUBLISH topic=topic producerId=p epoch=- message=m",
        b"PUBLISH topic=topic producerId=p isIdempotent=maybe message=m",
        b"PUBLISH topic=topic producerId=p txn=t message=m",
        b"PUBLISH topic=topic producerId=p odd message=m",
        b'PUBLISH topic=topic producerId=" message=m',
        b"PUBLISH topic=topic producerId=\xff message=m",
        b"PUBLISH topic=topic producerId=p key=" + b"k" * 3000 + b" message=m",
        b"PUBLISH topic=topic producerId=p message=" + b"m" * CURSUS_FAST_BATCH_BYTES_MAX,
        b"\0\xffPUBLISH topic=topic producerId=p message=m",
        b"\0",
    ],
)
def test_uncommon_requests_are_left_to_python_unchanged(wire: Wire, body: bytes) -> None:
    client = speaking(wire)
    client.send(framed(b"LIST"))
    wire.slow.pop().send(b"first")

    client.send(framed(body))

    assert [pending.body for pending in wire.slow] == [body]
    assert ends(wire) == [0, 0, 0]
    wire.slow.pop().send(b"second")
    wire.run()
    assert client.frames() == [framed(b"first"), framed(b"second")]


def test_a_client_that_negotiated_structured_errors_is_served_by_python(wire: Wire) -> None:
    state = SimpleNamespace(has_structured_errors=True, leader=b"")

    speaking(wire, session=SimpleNamespace(state=state)).send(framed(PUBLISH))

    assert len(wire.slow) == 1
    wire.slow.pop().send(None)
    wire.run()


@pytest.mark.parametrize(
    "settings", [{"protocol_flags": HAS_NAMED_PRODUCERS}, {"needs_keys": True}]
)
def test_a_topic_with_special_settings_is_left_to_python(
    wire: Wire, logs: Logs, settings: dict[str, int]
) -> None:
    wire.table.remove("topic")
    wire.serve(logs.create(5, is_group_commit=False, **settings))

    speaking(wire).send(framed(b"PUBLISH topic=topic producerId=p message=no key"))

    assert len(wire.slow) == 1
    wire.slow.pop().send(None)
    wire.run()


def test_with_the_round_robin_partitioner_a_key_determines_no_partition(
    wire: Wire, logs: Logs
) -> None:
    wire.table.remove("topic")
    parts = [
        logs.create(each, is_group_commit=False, protocol_flags=SPREADS_KEYS) for each in (5, 6)
    ]
    wire.serve(*parts)

    speaking(wire).send(framed(b"PUBLISH topic=topic producerId=p key=k message=m") * 4)

    assert [each.log_end_offset for each in parts] == [2, 2]


# ---- with other replicas -------------------------------------------------------------------------

ALL = PUBLISH.replace(b"acks=1", b"acks=all")


def test_one_acknowledgement_is_that_of_this_broker(wire: Wire, log: PartitionLog) -> None:
    lead(log)
    client = speaking(wire)

    client.send(framed(PUBLISH))

    assert client.frame() == framed(OK)
    assert log.high_watermark == 0


def test_replicas_that_are_too_slow_or_too_few_are_errors_on_which_clients_try_again(
    wire: Wire, log: PartitionLog
) -> None:
    lead(log)
    client = speaking(wire)
    assert ALL != PUBLISH
    client.send(framed(ALL))
    wire.run()
    wire.logs.turn.fail_overdue(wire.logs.turn.steady_ms + REPLICAS_WAIT_MS)
    assert client.frame() == framed(
        b'ERROR: leader_not_found reason="the replicas in sync have not copied it in time"'
    )

    client.send(framed(ALL))
    wire.run()
    log.configure(is_group_commit=False, min_isr=2)
    log.set_isr([LEADER], 1)
    assert client.frame() == framed(
        b'ERROR: leader_not_found reason="too few replicas are in sync, try again later"'
    )
