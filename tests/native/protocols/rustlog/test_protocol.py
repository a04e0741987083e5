"""RustLog's frames and native paths: what is answered at once, and in order."""

import errno
import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from broker._native.kernel import file_ops
from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.protocols.rustlog.protocol import RustLog
from broker.model.limits import REPLICAS_WAIT_MS
from broker.model.log_results import LogState
from tests.support.native_log import Logs, records
from tests.support.native_replica import LEADER, REPLICA, lead
from tests.support.native_wire import Client, Wire
from tests.support.rustlog_client import (
    LIST_TOPICS,
    METRICS,
    PING,
    Fetched,
    commit,
    fetch,
    frame,
    produce,
    read_error,
    read_fetched,
    read_produced,
)

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog
    from broker._native.wire.pending_reply import PendingReply

FRAME_MAX = 10_485_760
FAILED = b"\xfe\x01\xf4\x00\x06failed"
LATE = FAILED.replace(b"failed", b"too late")
FEW = FAILED.replace(b"failed", b"few")
REFUSE = -1
JSON = b'{"OffsetFetch":{}}'


class RustLogWire:
    """A poller that speaks RustLog; requests left to Python are answered by the test."""

    def __init__(self, logs: Logs) -> None:
        """Serve no log yet."""
        self.wire = Wire(logs)
        self.counters = RustLogCounters()
        self.slow = self.wire.slow
        self.fallback = object()
        self.protocol = RustLog(
            *(self.fallback, self.counters),
            write_failed=FAILED,
            write_refused={LogState.TIMED_OUT: LATE, LogState.TOO_FEW_REPLICAS: FEW},
        )
        self.wire.poller.serve_with(
            {"rustlog": self.protocol},
            self.slow.extend,
            lambda _, reason: self.wire.closed.append(reason),
        )
        self.client: Client = self.wire.connect()

    def ask(self, payload: bytes) -> bytes:
        """Send a request that is served at once; return the payload of its response."""
        self.client.send(frame(payload))
        return self.client.frame()[4:]

    def frames(self) -> list[bytes]:
        """Return the received payloads."""
        return [each[4:] for each in self.client.frames()]

    def answer(self, body: bytes, *, is_last: bool = False) -> None:
        """Answer the one request that was left to Python."""
        [pending] = self.slow
        self.slow.clear()
        pending.send(body, is_last=is_last)
        self.wire.run()

    def pending(self) -> "PendingReply":
        """Return the one request that was left to Python."""
        [found] = self.slow
        return found


@pytest.fixture
def rustlog(logs: Logs, log: "PartitionLog") -> Iterator[RustLogWire]:
    """Two partitions whose records are acknowledged at the end of the turn, a third one synced."""
    served = RustLogWire(logs)
    served.wire.serve(log, logs.create(1, is_group_commit=False), logs.create(2))
    yield served
    served.wire.close()


# ---- frames -------------------------------------------------------------------------------------


def test_a_ping_is_answered(rustlog: RustLogWire) -> None:
    assert rustlog.ask(PING) == PING


def test_requests_that_arrive_byte_by_byte_are_answered(rustlog: RustLogWire) -> None:
    for byte in frame(PING) + frame(produce("topic", 0, [b"hi"])) + frame(fetch("topic", 0, 0, 99)):
        rustlog.client.send(bytes([byte]))

    pong, produced, fetched = rustlog.frames()
    assert pong == PING
    assert read_produced(produced) == (0, 1)
    assert read_fetched(fetched) == Fetched([b"hi"], 1)


def test_requests_that_arrive_together_are_answered_in_order(rustlog: RustLogWire) -> None:
    rustlog.client.send(
        b"".join(frame(produce("topic", 0, [b"%d" % number])) for number in range(50))
        + frame(fetch("topic", 0, 0, 1 << 20))
        + frame(PING)
    )

    *produced, fetched, pong = rustlog.frames()
    assert [read_produced(each) for each in produced] == [(number, 1) for number in range(50)]
    assert read_fetched(fetched).records == [b"%d" % number for number in range(50)]
    assert pong == PING


@pytest.mark.parametrize(
    ("payload", "version"),
    [
        (JSON, 1),
        (b" \r\n" + JSON, 1),
        (b"\n", 1),
        (b"\t" + JSON, 1),
        (b"{", 1),
        (METRICS, 0),
        (METRICS + b"x", 0),
        (LIST_TOPICS, 0),
        (b"\x00", 0),
        (b"\x0b", 0),
        (b"\xfe", 0),
        (commit("g", "t", 0, 1), 0),
    ],
)
def test_other_requests_are_handed_to_python_in_their_form(
    rustlog: RustLogWire, payload: bytes, version: int
) -> None:
    rustlog.client.send(frame(PING) + frame(payload))

    pending = rustlog.pending()
    assert (pending.body, pending.operation, pending.version) == (payload, payload[0], version)
    assert pending.protocol is rustlog.fallback
    rustlog.answer(b"answer")
    assert rustlog.frames() == [PING, b"answer"]


@pytest.mark.parametrize("size", [0, FRAME_MAX + 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize(
    ("before", "behind", "version"),
    [(PING, b"", 0), (JSON, b"", 1), (PING, b"{", 1), (JSON, b"\x01", 0)],
)
def test_a_frame_of_an_invalid_length_is_the_last_one_read(
    rustlog: RustLogWire, size: int, before: bytes, behind: bytes, version: int
) -> None:
    rustlog.client.send(frame(before))
    if before == JSON:
        rustlog.answer(b"{}")
    rustlog.frames()
    rustlog.client.send(struct.pack(">I", size) + behind)

    pending = rustlog.pending()
    assert (pending.operation, pending.body) == (REFUSE, struct.pack(">I", size))
    if size > 0:
        assert pending.version == version
    rustlog.answer(b"error", is_last=True)
    assert rustlog.frames() == [b"error"]
    assert rustlog.client.is_closed


def test_a_frame_of_the_largest_length_is_accepted(rustlog: RustLogWire) -> None:
    payload = b"{" + bytes(FRAME_MAX - 1)
    rustlog.client.send(frame(payload))

    assert rustlog.pending().body == payload


@pytest.mark.parametrize("size", range(1, 20))
def test_an_end_of_stream_within_a_frame_closes_without_a_response(
    rustlog: RustLogWire, size: int
) -> None:
    rustlog.client.send(frame(produce("topic", 0, [b"hi"]))[:size])
    rustlog.client.close()

    assert rustlog.wire.closed
    assert not rustlog.slow
    assert rustlog.wire.log(0).log_end_offset == 0


def test_a_half_closed_peer_gets_all_responses(rustlog: RustLogWire) -> None:
    rustlog.client.send(frame(produce("topic", 2, [b"a"])) + frame(fetch("topic", 2, 0, 99)))
    rustlog.client.socket.shutdown(1)

    produced, fetched = (each[4:] for each in rustlog.client.wait_frames(2))
    assert read_produced(produced) == (0, 1)
    assert read_fetched(fetched) == Fetched([b"a"], 1)
    rustlog.wire.run_until(lambda: rustlog.client.is_closed)


def test_a_connection_may_be_idle_for_any_time(rustlog: RustLogWire) -> None:
    rustlog.ask(PING)

    rustlog.wire.poller.sweep(-1, 30_000, 10_000)

    assert rustlog.ask(PING) == PING


# ---- produce ------------------------------------------------------------------------------------


def test_records_get_consecutive_offsets(rustlog: RustLogWire) -> None:
    assert read_produced(rustlog.ask(produce("topic", 0, [b"a", b"", b"c"]))) == (0, 3)
    assert read_produced(rustlog.ask(produce("topic", 0, [b"d"]))) == (3, 1)
    assert read_fetched(rustlog.ask(fetch("topic", 0, 0, 999))).records == [b"a", b"", b"c", b"d"]
    assert (rustlog.counters.messages_produced, rustlog.counters.bytes_in) == (4, 3)
    assert (rustlog.counters.messages_fetched, rustlog.counters.bytes_out) == (4, 3)


def test_a_produce_response_waits_for_the_sync_and_later_requests_see_the_records(
    rustlog: RustLogWire,
) -> None:
    rustlog.client.send(
        frame(produce("topic", 2, [b"a"]))
        + frame(produce("topic", 2, [b"b"]))
        + frame(fetch("topic", 2, 0, 999))
        + frame(produce("topic", 2, [b"c"]))
        + frame(LIST_TOPICS)
    )
    assert not rustlog.slow

    first, second, fetched, third = (each[4:] for each in rustlog.client.wait_frames(4))
    assert [read_produced(each) for each in (first, second, third)] == [(0, 1), (1, 1), (2, 1)]
    assert read_fetched(fetched) == Fetched([b"a", b"b"], 2)
    assert rustlog.pending().body == LIST_TOPICS
    assert rustlog.wire.log(2).high_watermark == 3


def test_a_log_that_fails_before_the_sync_is_reported(
    rustlog: RustLogWire, recording: None
) -> None:
    file_ops.fail("sync_data", "topic-2", errno.EIO)

    rustlog.client.send(frame(produce("topic", 2, [b"a"])))

    assert rustlog.client.frame()[4:] == FAILED
    assert rustlog.ask(PING) == PING


@pytest.mark.parametrize(
    "payload",
    [
        produce("topic", 0, []),
        produce("topic", 3, [b"x"]),
        produce("topic", 2**32 - 1, [b"x"]),
        produce("other", 0, [b"x"]),
        produce("", 0, [b"x"]),
        produce("topic", 0, [bytes(2 << 20)]),
        produce("topic", 0, [b"x", b"y"])[:-1],
        b"\x01\x00\x05topic\0\0\0\0\xff\xff\xff\xff",
        b"\x01\x00\x05topic\0\0\0\0\0\0\0\1\xff\xff\xff\xff",
        b"\x01",
        b"\x02",
        b"\x02\0\0\xff\xff",
        fetch("topic", 0, 0, 9, "group"),
        fetch("topic", 0, 2**63, 9),
        fetch("other", 0, 0, 9),
        fetch("topic", 3, 0, 9),
    ],
    ids=lambda payload: repr(payload[:30]),
)
def test_uncommon_requests_are_left_to_python_unchanged(
    rustlog: RustLogWire, payload: bytes
) -> None:
    rustlog.client.send(frame(payload))

    assert rustlog.pending().body == payload
    assert rustlog.wire.log(0).log_end_offset == 0


# ---- fetch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [3, 4, 99, 2**63 - 1])
def test_a_fetch_at_or_beyond_the_end_is_empty(rustlog: RustLogWire, offset: int) -> None:
    rustlog.ask(produce("topic", 0, [b"a", b"b", b"c"]))

    assert read_fetched(rustlog.ask(fetch("topic", 0, offset, 99))) == Fetched([], offset)


def test_max_bytes_0_returns_no_records(rustlog: RustLogWire) -> None:
    rustlog.ask(produce("topic", 0, [b"a"]))

    assert read_fetched(rustlog.ask(fetch("topic", 0, 0, 0))) == Fetched([], 0)


def test_a_fetch_reads_across_many_batches(rustlog: RustLogWire) -> None:
    values = [b"%d" % number * 50 for number in range(400)]
    for value in values:
        rustlog.ask(produce("topic", 0, [value]))

    answer = read_fetched(rustlog.ask(fetch("topic", 0, 7, 1 << 20)))

    assert answer == Fetched(values[7:], 400)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_is_left_to_python(rustlog: RustLogWire, codec: int) -> None:
    log = rustlog.wire.log(0)
    assert log.append(records(codec=codec))[0] == 0
    rustlog.wire.run()
    rustlog.client.send(frame(fetch("topic", 0, 0, 99)))

    assert rustlog.pending().body == fetch("topic", 0, 0, 99)


def test_a_fetch_of_very_many_bytes_is_left_to_python(rustlog: RustLogWire) -> None:
    for _ in range(3):
        rustlog.ask(produce("topic", 0, [bytes(500_000)]))

    assert len(read_fetched(rustlog.ask(fetch("topic", 0, 0, 600_000))).records) == 1
    rustlog.client.send(frame(fetch("topic", 0, 0, 8 << 20)))
    assert rustlog.pending().body == fetch("topic", 0, 0, 8 << 20)


def test_connections_are_counted_when_metrics_are_asked_for(rustlog: RustLogWire) -> None:
    others = [rustlog.wire.connect() for _ in range(3)]
    for other in others:
        other.send(frame(PING))
    others[0].close()
    rustlog.wire.connect()  # sends nothing: its protocol is unknown
    rustlog.client.send(frame(METRICS))

    assert rustlog.pending().body == METRICS
    assert rustlog.counters.active_connections == 3


def test_latency_percentiles_cover_the_latest_requests(rustlog: RustLogWire) -> None:
    assert rustlog.counters.produce_percentiles == (0, 0, 0)
    rustlog.ask(produce("topic", 2, [b"a"]))
    rustlog.ask(fetch("topic", 2, 0, 99))
    for percentiles in (rustlog.counters.produce_percentiles, rustlog.counters.fetch_percentiles):
        assert 0 < percentiles[0] == percentiles[1] == percentiles[2] < 10**10

    for number in range(2_000):
        rustlog.counters.add_fetch_latency(number)

    assert rustlog.counters.fetch_percentiles == (976 + 512, 976 + 972, 976 + 1013)


def test_a_json_request_is_answered_in_json(rustlog: RustLogWire) -> None:
    rustlog.client.send(frame(JSON))
    rustlog.answer(json.dumps({"OffsetFetch": {"offset": None}}).encode())

    assert rustlog.frames() == [b'{"OffsetFetch": {"offset": null}}']
    assert read_error(FAILED) == (500, "failed")


# ---- with other replicas -------------------------------------------------------------------------


def test_a_record_is_acknowledged_by_all_replicas_in_sync(
    rustlog: RustLogWire, log: "PartitionLog"
) -> None:
    lead(log)
    rustlog.client.send(frame(produce("topic", 0, [b"a"])))
    assert rustlog.frames() == []

    log.report(REPLICA, 1)
    rustlog.wire.logs.turn.request_end()

    assert read_produced(rustlog.client.frame()[4:]) == (0, 1)


def test_a_record_that_is_not_acknowledged_is_answered_with_the_reason(
    rustlog: RustLogWire, log: "PartitionLog"
) -> None:
    lead(log)
    record = frame(produce("topic", 0, [b"a"]))
    rustlog.client.send(record)
    rustlog.wire.run()
    rustlog.wire.logs.turn.fail_overdue(rustlog.wire.logs.turn.steady_ms + REPLICAS_WAIT_MS)
    assert rustlog.client.frame()[4:] == LATE

    rustlog.client.send(record)
    rustlog.wire.run()
    log.configure(is_group_commit=False, min_isr=2)
    log.set_isr([LEADER], 1)
    assert rustlog.client.frame()[4:] == FEW
