"""A read starts only when all earlier writes of its connection are visible.

The writes of these tests are acknowledged by a sync, so none is visible in the turn that serves it.
"""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker._native.kernel import file_ops
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.kafka.protocol import Kafka
from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.protocols.rustlog.protocol import RustLog
from broker._native.protocols.v1.protocol import V1
from broker.model.limits import UNSEEN_PARTITIONS_PER_CONNECTION_MAX
from broker.model.unseen_limits import UNCOPIED_WAIT_MS
from tests.oracles.message_set_oracle import Message as OldMessage
from tests.oracles.message_set_oracle import encode
from tests.support import native_wire, rustlog_client
from tests.support.cursus_client import Message, batch
from tests.support.native_log import Logs, records
from tests.support.native_replica import REPLICA, lead
from tests.support.native_wire import Client, Wire, partition, response

if TYPE_CHECKING:
    from broker._native.wire.pending_reply import PendingReply

KAFKA_VERSION = 11
OFFSETS_VERSION = 4
KEYS = (
    native_wire.PRODUCE,
    native_wire.FETCH,
    native_wire.LIST_OFFSETS,
    native_wire.API_VERSIONS,
)


class Spoken:
    """A poller of one durable partition that speaks every protocol.

    Attributes:
        python: the visible end of the partition for each request that was left to Python.
    """

    def __init__(self, logs: Logs) -> None:
        """Serve no log yet."""
        self.wire = Wire(logs)
        self.python: list[int] = []
        self.answers: Callable[[list[PendingReply]], None] = self._answer
        protocol = object()
        self.wire.poller.serve_with(
            {
                "v1": V1(protocol, b"ERR|NOT_LEADER|failed\n"),
                "cursus": Cursus(protocol),
                "rustlog": RustLog(protocol, RustLogCounters(), write_failed=b"\xfe"),
                "kafka": Kafka(
                    protocol,
                    [native_wire.api_row(key) for key in KEYS],
                    self.wire.sessions,
                    frame_bytes_max=native_wire.FRAME_BYTES_MAX,
                ),
            },
            self._hand_over,
            lambda _, reason: self.wire.closed.append(reason),
        )

    def _hand_over(self, pending: "list[PendingReply]") -> None:
        self.answers(pending)

    def _answer(self, pending: "list[PendingReply]") -> None:
        for each in pending:
            self.python.append(self.wire.log().high_watermark)
            each.send(b"seen\n")


@pytest.fixture
def spoken(logs: Logs) -> Iterator[Spoken]:
    """One partition whose writes wait for a sync."""
    spoken = Spoken(logs)
    log = logs.create()
    spoken.wire.serve(log)
    yield spoken
    # The sync thread is shared: no job of this test is left to it.
    spoken.wire.run_until(
        lambda: log.is_offline or log.is_deleted or log.high_watermark == log.log_end_offset
    )
    spoken.wire.close()


def framed(body: bytes) -> bytes:
    """Return a frame of Cursus or RustLog."""
    return len(body).to_bytes(4) + body


class Write(NamedTuple):
    """A write of one record, and how many frames or lines answer it."""

    data: bytes
    answers: int = 1


def kafka_produce(acks: int) -> bytes:
    """Return a Produce request of one record."""
    return native_wire.produce(KAFKA_VERSION - 2, (0, records()), acks=acks)


def list_offsets(timestamp: int = -1) -> bytes:
    """Return a ListOffsets request for the end of the partition, or for a timestamp."""
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    body = {"replica_id": -1, "topics": [{"name": "topic", "partitions": [asked]}]}
    return native_wire.request(native_wire.LIST_OFFSETS, OFFSETS_VERSION, body)


V1_WRITES = {
    "acks 1": Write(b"V1|1|PRODUCE|topic k:value\n"),
    "acks 0": Write(b"V1|1|PRODUCE|topic k:value acks=0\n"),
}
KAFKA_WRITES = {
    "acks all": Write(kafka_produce(-1)),
    "acks 1": Write(kafka_produce(1)),
    "acks 0": Write(kafka_produce(0), 0),
    "a message set": Write(native_wire.produce(2, (0, encode([OldMessage(value=b"value")])))),
}
CURSUS_WRITES = {
    "batch": Write(framed(batch("topic", 0, [Message(b"value")]))),
    "batch, acks 0": Write(framed(batch("topic", 0, [Message(b"value")], acks=b"0"))),
    "publish": Write(framed(b"PUBLISH topic=topic producerId=p message=value")),
    "publish, acks 0": Write(framed(b"PUBLISH topic=topic producerId=p acks=0 message=value")),
}
RUSTLOG_WRITES = {"produce": Write(framed(rustlog_client.produce("topic", 0, [b"v"])))}


def lines(client: Client, count: int) -> list[bytes]:
    """Return the expected number of lines."""
    data = b""

    def has_all() -> bool:
        nonlocal data
        with suppress(BlockingIOError):
            data += client.socket.recv(1 << 20)
        return data.count(b"\n") >= count

    client.wire.run_until(has_all)
    return data.splitlines()


# ---- what is served natively ---------------------------------------------------------------------


@pytest.mark.parametrize("write", V1_WRITES.values(), ids=V1_WRITES)
def test_a_v1_consume_sees_a_write_earlier_on_its_connection(spoken: Spoken, write: Write) -> None:
    client = spoken.wire.connect()

    client.send(write.data + b"V1|2|CONSUME|topic 0 0\n")

    assert lines(client, 2)[1] == b"V1|2|OK|messages=0:value hw=0"


@pytest.mark.parametrize("size", [0, 1])
def test_a_last_v1_line_without_a_newline_sees_the_earlier_write(spoken: Spoken, size: int) -> None:
    client = spoken.wire.connect()
    last = b"V1|2|CONSUME|topic 0 0"
    client.socket.send(V1_WRITES["acks 1"].data + last[: len(last) - size])
    if size:
        client.socket.send(last[len(last) - size :])
    client.socket.shutdown(socket.SHUT_WR)

    assert lines(client, 2)[1] == b"V1|2|OK|messages=0:value hw=0"
    assert spoken.wire.closed == ["closed after its last reply"]


@pytest.mark.parametrize("write", KAFKA_WRITES.values(), ids=KAFKA_WRITES)
@pytest.mark.parametrize("version", [4, 7, 12, 18])
def test_a_kafka_fetch_that_does_not_wait_sees_the_earlier_write(
    spoken: Spoken, write: Write, version: int
) -> None:
    client = spoken.wire.connect()

    client.send(write.data + native_wire.fetch(version, (0, 0)))

    _, body = response(native_wire.FETCH, version, client.wait_frames(write.answers + 1)[-1])
    assert partition(body)["high_watermark"] == 1
    assert partition(body)["records"]
    assert spoken.python == []


@pytest.mark.parametrize("write", KAFKA_WRITES.values(), ids=KAFKA_WRITES)
def test_the_end_listed_by_kafka_is_after_the_earlier_write(spoken: Spoken, write: Write) -> None:
    client = spoken.wire.connect()

    client.send(write.data + list_offsets())

    frame = client.wait_frames(write.answers + 1)[-1]
    _, body = response(native_wire.LIST_OFFSETS, OFFSETS_VERSION, frame)
    assert body["topics"][0]["partitions"][0]["offset"] == 1


def test_a_rustlog_fetch_sees_the_earlier_write(spoken: Spoken) -> None:
    client = spoken.wire.connect()

    client.send(RUSTLOG_WRITES["produce"].data + framed(rustlog_client.fetch("topic", 0, 0, 999)))

    fetched = client.wait_frames(2)[-1][4:]
    assert rustlog_client.read_fetched(fetched).records == [b"v"]


# ---- what is left to Python ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "read"),
    [
        *((each, b"V1|2|METRICS|topic\n") for each in V1_WRITES.values()),
        *(
            (each, native_wire.request(native_wire.API_VERSIONS, 0, {}))
            for each in KAFKA_WRITES.values()
        ),
        *((each, list_offsets(timestamp=5)) for each in KAFKA_WRITES.values()),
        *(
            (each, framed(read))
            for each in CURSUS_WRITES.values()
            for read in (
                b"CONSUME topic=topic partition=0 offset=0",
                b"LIST_OFFSETS topic=topic",
                b"\0\5topicLIST_OFFSETS topic=topic",
            )
        ),
        *(
            (each, framed(read))
            for each in RUSTLOG_WRITES.values()
            for read in (rustlog_client.LIST_TOPICS, b'{"Fetch":{}}')
        ),
    ],
)
def test_python_gets_a_read_once_the_earlier_write_is_visible(
    spoken: Spoken, write: Write, read: bytes
) -> None:
    client = spoken.wire.connect()

    client.send(write.data + read)

    spoken.wire.run_until(lambda: bool(spoken.python))
    assert spoken.python == [1]


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_read_sees_all_earlier_writes_of_its_connection(spoken: Spoken, acks: int) -> None:
    client = spoken.wire.connect()

    client.send(5 * kafka_produce(acks) + list_offsets(timestamp=5) + kafka_produce(acks))

    spoken.wire.run_until(lambda: bool(spoken.python))
    assert spoken.python == [5]


def test_a_write_that_python_answered_without_waiting_is_seen_too(spoken: Spoken) -> None:
    slow: list[PendingReply] = []
    client = spoken.wire.connect()
    log = spoken.wire.log()
    spoken.answers = slow.extend
    client.send(native_wire.request(native_wire.API_VERSIONS, 0, {}))
    log.append(records())
    slow.pop().send(None, written=[(log, 1)])

    client.send(list_offsets())

    _, body = response(native_wire.LIST_OFFSETS, OFFSETS_VERSION, client.frame())
    assert body["topics"][0]["partitions"][0]["offset"] == 1


# ---- of partitions with other replicas -----------------------------------------------------------

CONSUME = b"V1|2|CONSUME|topic 0 0\n"
UNSURE = [  # writes that are answered before the other replicas have them, and a read
    *((each, CONSUME) for each in V1_WRITES.values()),
    *((KAFKA_WRITES[each], list_offsets()) for each in ("acks 1", "acks 0")),
    *((KAFKA_WRITES[each], native_wire.fetch(12, (0, 0))) for each in ("acks 1", "acks 0")),
    *((each, framed(b"LIST_OFFSETS topic=topic")) for each in CURSUS_WRITES.values()),
]


def answered(spoken: Spoken, client: Client) -> bytes:
    """Return what a connection receives until nothing more comes by itself."""
    data = b""
    for _ in range(20):
        spoken.wire.run()
        with suppress(BlockingIOError):
            data += client.socket.recv(1 << 20)
    return data


@pytest.mark.parametrize("ends", ["copied", "late"])
@pytest.mark.parametrize(("write", "read"), UNSURE, ids=range(len(UNSURE)))
def test_a_read_waits_for_the_replicas_of_an_earlier_write_for_a_time(
    spoken: Spoken, write: Write, read: bytes, ends: str
) -> None:
    client, log = spoken.wire.connect(), spoken.wire.log()
    turn = spoken.wire.logs.turn
    lead(log)

    client.send(write.data + read)
    spoken.wire.run_until(lambda: log.durable_end == 1)
    before = answered(spoken, client)
    assert bool(before) == bool(write.answers)
    assert spoken.python == []

    if ends == "copied":
        log.report(REPLICA, 1)
    else:
        turn.fail_overdue(turn.steady_ms + UNCOPIED_WAIT_MS)
    turn.request_end()
    after = answered(spoken, client)
    assert after
    assert log.high_watermark == (1 if ends == "copied" else 0)
    if read == CONSUME:
        found = b"messages=0:value hw=0" if ends == "copied" else b"messages= hw=-1"
        assert after == b"V1|2|OK|" + found + b"\n"
    elif spoken.python:
        assert spoken.python == [log.high_watermark]
    log.report(REPLICA, 1)


@pytest.mark.parametrize("acks", [1, 0])
def test_requests_that_read_nothing_do_not_wait_for_replicas(spoken: Spoken, acks: int) -> None:
    client, log = spoken.wire.connect(), spoken.wire.log()
    lead(log)

    client.send(kafka_produce(acks) + native_wire.request(native_wire.API_VERSIONS, 0, {}))

    spoken.wire.run_until(lambda: bool(spoken.python))
    assert spoken.python == [0]
    log.report(REPLICA, 1)


def test_a_read_does_not_wait_for_replicas_that_have_it(spoken: Spoken) -> None:
    client, log = spoken.wire.connect(), spoken.wire.log()
    lead(log)
    client.send(V1_WRITES["acks 1"].data)
    assert lines(client, 1)
    log.report(REPLICA, 1)
    spoken.wire.logs.turn.request_end()

    client.socket.send(CONSUME)
    spoken.wire.poller()

    assert client.socket.recv(100) == b"V1|2|OK|messages=0:value hw=0\n"


# ---- what does not wait, and whose wait ends
# --------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        *V1_WRITES.values(),
        *KAFKA_WRITES.values(),
        *CURSUS_WRITES.values(),
        *RUSTLOG_WRITES.values(),
    ],
)
def test_writes_do_not_wait_for_each_other(spoken: Spoken, write: Write) -> None:
    client = spoken.wire.connect()

    client.socket.send(5 * write.data)
    spoken.wire.poller()

    assert spoken.wire.log().log_end_offset == 5


def test_reads_of_other_connections_do_not_wait(spoken: Spoken) -> None:
    writer, reader = spoken.wire.connect(), spoken.wire.connect()
    writer.socket.send(V1_WRITES["acks 1"].data)
    reader.socket.send(b"V1|2|CONSUME|topic 0 0\n")

    spoken.wire.poller()

    assert reader.socket.recv(100) == b"V1|2|OK|messages= hw=-1\n"


@pytest.mark.parametrize("write", KAFKA_WRITES.values(), ids=KAFKA_WRITES)
def test_a_read_continues_after_an_earlier_write_fails(
    spoken: Spoken, write: Write, recording: None
) -> None:
    client = spoken.wire.connect()
    file_ops.fail("sync_data", ".log", errno.EIO)

    client.send(write.data + list_offsets(timestamp=5))

    spoken.wire.run_until(lambda: bool(spoken.python))
    assert spoken.wire.log().is_offline
    assert len(client.wait_frames(write.answers + 1)) == write.answers + 1


@pytest.mark.parametrize("change", ["goes", "is removed"])
def test_a_waiting_read_is_dropped_with_its_client_or_its_topic(
    spoken: Spoken, change: str
) -> None:
    client = spoken.wire.connect()
    leave_a_read_waiting(spoken, client)

    if change == "goes":
        client.socket.close()
    else:
        spoken.wire.log().retire()

    awaited = spoken.wire.closed if change == "goes" else spoken.python
    spoken.wire.run_until(lambda: bool(awaited))


def leave_a_read_waiting(spoken: Spoken, client: Client) -> None:
    """Send a write and a read; on a busy machine a sync may be over within the turn: then again."""
    for _ in range(100):
        client.socket.send(kafka_produce(0) + list_offsets(timestamp=5))
        spoken.wire.poller()
        if not spoken.python:
            return
        spoken.python.clear()
    raise AssertionError("no read has waited")


@pytest.mark.parametrize("is_crowded", [False, True])
def test_a_write_after_acks_0_writes_to_very_many_partitions_waits_for_them(
    logs: Logs, *, is_crowded: bool
) -> None:
    spoken = Spoken(logs)
    count = UNSEEN_PARTITIONS_PER_CONNECTION_MAX - 1 + is_crowded
    logs.turn.files.count_max = count
    spoken.wire.serve(*(logs.create(number) for number in range(count)))
    spoken.wire.poller.budget_us = 10_000_000  # both requests in one turn, however slow it is
    client = spoken.wire.connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    every = native_wire.produce(9, *((number, records()) for number in range(count)), acks=0)
    try:
        data = every + kafka_produce(0)
        assert client.socket.send(data) == len(data)
        spoken.wire.poller()
        assert spoken.wire.log().log_end_offset == (1 if is_crowded else 2)

        spoken.wire.run_until(
            lambda: all(
                spoken.wire.log(number).high_watermark == 1 + (number == 0)
                for number in range(count)
            )
        )
    finally:
        spoken.wire.close()


def test_a_read_waits_for_more_partitions_than_are_looked_through(logs: Logs) -> None:
    spoken = Spoken(logs)
    count = UNSEEN_PARTITIONS_PER_CONNECTION_MAX + 2
    logs.turn.files.count_max = count
    made = [logs.create(number) for number in range(count)]
    spoken.wire.serve(*made)
    slow: list[PendingReply] = []
    spoken.answers = slow.extend
    client = spoken.wire.connect()
    client.send(native_wire.request(native_wire.API_VERSIONS, 0, {}))
    try:
        for log in (*made, made[-1]):
            log.append(records())
        written = [*((log, 1) for log in made), (made[-1], 2)]
        slow.pop().send(None, written=written)

        client.send(list_offsets())

        client.frame()
        assert all(log.high_watermark >= end for log, end in written)
    finally:
        spoken.wire.close()


def test_writes_with_acks_0_are_remembered_once_per_partition(spoken: Spoken) -> None:
    client = spoken.wire.connect()
    count = 10 * UNSEEN_PARTITIONS_PER_CONNECTION_MAX

    for _ in range(10):
        client.send(count // 10 * kafka_produce(0))
    client.send(list_offsets(timestamp=5))

    spoken.wire.run_until(lambda: bool(spoken.python))
    assert spoken.python == [count]
