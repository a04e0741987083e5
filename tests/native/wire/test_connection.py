"""Native connections: fragmented frames, the order of responses, disconnects."""

import socket
import time
from collections.abc import Callable

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.wire.connection import Connection
from broker._native.wire.pending_reply import PendingReply
from broker.model.limits import WAITING_REPLY_BYTES_PER_CONNECTION
from tests.support.native_log import Logs, appended, batches, records
from tests.support.native_wire import (
    API_VERSIONS,
    FETCH,
    FRAME_BYTES_MAX,
    PRODUCE,
    Client,
    Wire,
    base_offset,
    changed,
    fetch,
    incremental,
    produce,
    request,
    response,
    session_of,
)

BATCH = records(2)
LONG_MS = 600_000  # longer than a test waits
SHORT_MS = 20


def test_a_connection_tells_its_protocol_also_if_all_its_requests_are_served_natively(
    wire: Wire,
) -> None:
    protocol = object()
    wire.serve_with(wire.slow.extend, lambda *_: None, protocol)
    client = wire.connect()
    assert client.connection.served_by is None

    base_offset(client, produce(9, (0, BATCH)))

    assert client.connection.served_by is protocol
    assert not wire.slow


def test_a_client_that_disconnects_while_its_fetch_waits_is_forgotten(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))

    client.close()
    appended(log, BATCH)
    wire.run()

    assert wire.closed == ["closed by the peer"]


def test_a_client_may_disconnect_in_the_turn_that_wakes_its_fetch(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
    appended(log, BATCH)
    client.socket.close()

    wire.poller()  # the hang-up; the append becomes visible at the end of the same turn
    wire.run()

    assert wire.closed == ["reset by the peer"]


def test_a_deadline_may_pass_in_the_turn_that_wakes_a_fetch(durable: Wire) -> None:
    log = durable.log()
    clients = [durable.connect() for _ in range(20)]
    for client in clients:
        client.send(fetch(11, (0, 0), max_wait_ms=SHORT_MS))
    appended(log, BATCH)
    durable.poller.end()

    for client in clients:
        assert client.frame()


def test_a_client_that_disconnects_while_acknowledgements_are_pending_is_forgotten(
    durable: Wire,
) -> None:
    client = durable.connect()
    log = durable.log()
    client.socket.send(b"".join(produce(9, (0, BATCH)) for _ in range(100)))
    durable.poller()

    client.close()
    durable.logs.sync(log)
    durable.run()

    assert log.durable_end == log.log_end_offset > 0
    assert durable.closed == ["closed by the peer"]


def test_a_fetch_session_outlives_the_connection_that_waits_on_it(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    session = session_of(client, (0, 0))
    client.send(fetch(11, session_id=session, session_epoch=1, max_wait_ms=LONG_MS))
    client.close()

    appended(log, BATCH)
    wire.run()

    assert changed(wire.connect().ask(incremental(session, 2))) == [0]


def test_a_waiting_fetch_whose_session_is_ended_elsewhere_is_answered(
    client: Client, wire: Wire
) -> None:
    session = session_of(client, (0, 0))
    client.send(fetch(11, session_id=session, session_epoch=1, max_wait_ms=2 * SHORT_MS))

    wire.connect().ask(incremental(session, -1, (0, 0)))

    assert changed(response(FETCH, 11, client.frame())[1]) == []


def test_the_poller_can_be_closed_with_requests_in_progress(logs: Logs) -> None:
    wire = Wire(logs)
    log = logs.create(9)
    wire.serve(log)
    for _ in range(5):
        wire.connect().send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
        wire.connect().send(produce(9, (0, BATCH)))
        wire.connect().send(request(API_VERSIONS, 0, {}))
        wire.connect().send(b"\0\0\1")

    wire.close()
    logs.sync(log)
    for pending in wire.slow:
        pending.send(b"")


def test_a_poller_can_be_dropped_with_requests_in_progress(logs: Logs) -> None:
    log = logs.create(9)
    wire = Wire(logs)
    wire.serve(log)
    wire.connect().socket.send(produce(9, (0, BATCH)))
    wire.poller()

    for client in wire.clients:
        client.socket.close()
    logs.turn.schedule = None
    del wire, client

    logs.sync(log)
    assert log.durable_end == 2


@pytest.mark.parametrize("size", [-1, 0, 9, FRAME_BYTES_MAX + 1, 2**31 - 1, -(2**31)])
def test_a_frame_of_an_impossible_size_closes_the_connection(client: Client, size: int) -> None:
    client.send(produce(9, (0, BATCH)))
    client.frames()

    client.send((size & 0xFFFFFFFF).to_bytes(4) + bytes(20))

    assert client.is_closed


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\xff" * 8]
)
def test_bytes_that_are_not_kafka_close_the_connection(client: Client, data: bytes) -> None:
    client.send(data)

    assert client.is_closed


@pytest.mark.parametrize(("key", "version"), [(3, 0), (127, 0), (PRODUCE, 14), (FETCH, -1)])
def test_an_unsupported_key_or_version_closes_the_connection(
    client: Client, key: int, version: int
) -> None:
    client.send(produce(9, (0, BATCH)))
    client.frames()
    data = bytearray(fetch(11, (0, 0)))
    data[4:8] = key.to_bytes(2) + version.to_bytes(2, signed=True)

    client.send(bytes(data))

    assert client.is_closed


def test_any_version_of_api_versions_is_handed_to_python(client: Client) -> None:
    data = bytearray(request(API_VERSIONS, 3, {}))
    data[6:8] = (99).to_bytes(2)

    client.send(bytes(data))

    (pending,) = client.wire.slow
    assert pending.version == 99


def test_a_header_of_too_many_tagged_fields_closes_the_connection(client: Client) -> None:
    data = produce(9, (0, BATCH))
    tags = bytes([65]) + b"\x01\x00" * 65
    data = (len(data) - 4 + len(tags) - 1).to_bytes(4) + data[4:18] + tags + data[19:]

    client.send(data)

    assert client.is_closed


def test_unknown_tagged_fields_are_skipped(client: Client) -> None:
    data = produce(9, (0, BATCH))
    tags = b"\x02\x05\x03abc\x07\x00"
    data = (len(data) - 4 + len(tags) - 1).to_bytes(4) + data[4:18] + tags + data[19:]

    assert base_offset(client, data) == 0


def ask_slowly(client: Client, correlation_id: int = 0) -> None:
    """Send a request that Python answers."""
    client.send(request(API_VERSIONS, 0, {}, correlation_id))


def test_a_response_of_any_size_is_sent_whole(client: Client) -> None:
    for size in (0, 1, 151, 152, 153, 5000, 300_000):
        ask_slowly(client, size)
        client.wire.slow.pop().send(b"x" * size)

        frame = client.frame()
        assert (len(frame), frame[8:]) == (size + 8, b"x" * size)


@pytest.mark.parametrize("large_answers", [0, 8])
def test_pending_acknowledgements_of_a_connection_are_limited(
    logs: Logs, large_answers: int
) -> None:
    """Requests that wait for a sync are limited by memory; more of them wait in the socket."""
    wire = Wire(logs)
    wire.serve(*(logs.create(10 + number) for number in range(20)))
    client = wire.connect()
    for _ in range(large_answers):
        ask_slowly(client)
        wire.slow.pop().send(b"x" * 1_000_000)
        client.frame()
    unwatched = CommitThread(1)
    logs.turn.commit = unwatched  # finished jobs are not taken: nothing becomes durable

    data = produce(9, *((number, BATCH) for number in range(20))) * 100
    for _ in range(50):
        try:
            assert client.socket.send(data) == len(data)  # otherwise the socket is full
        except (BlockingIOError, AssertionError):
            break
        wire.run()

    reply_bytes = 20 * (4 + 2 + 8 + 8 + 8 + 1 + 1 + 1) + 23
    requests = wire.log().log_end_offset // 2
    most = WAITING_REPLY_BYTES_PER_CONNECTION // reply_bytes
    assert most // 2 < requests < most
    wire.close()


def test_sending_none_sends_no_response(client: Client) -> None:
    ask_slowly(client, 1)
    client.wire.slow.pop().send(None)
    ask_slowly(client, 2)
    client.wire.slow.pop().send(b"!")

    assert int.from_bytes(client.frame()[4:8]) == 2


def test_a_request_is_answered_only_once(client: Client) -> None:
    ask_slowly(client)
    pending = client.wire.slow.pop()
    pending.send(b"")

    with pytest.raises(RuntimeError):
        pending.send(b"")
    with pytest.raises(RuntimeError):
        pending.close()


def test_a_request_may_be_answered_by_closing_the_connection(client: Client) -> None:
    client.send(produce(9, (0, BATCH), correlation_id=1) + request(API_VERSIONS, 0, {}))
    client.wire.slow.pop().close()
    client.wire.run()

    assert int.from_bytes(client.frame()[4:8]) == 1
    assert client.is_closed


def test_a_request_dropped_without_a_response_closes_its_connection(client: Client) -> None:
    ask_slowly(client)

    client.wire.slow.clear()
    client.wire.run()

    assert client.is_closed


def test_a_response_after_the_connection_has_closed_is_dropped(client: Client) -> None:
    ask_slowly(client)
    client.close()

    client.wire.slow.pop().send(b"late")
    client.wire.run()

    assert client.wire.closed == ["closed by the peer"]


def test_the_next_request_waits_for_the_response_to_the_previous_one(client: Client) -> None:
    client.send(request(API_VERSIONS, 0, {}) * 3 + produce(9, (0, BATCH)))

    for _ in range(3):
        (pending,) = client.wire.slow
        client.wire.slow.clear()
        pending.send(b"")
        client.wire.run()

    assert len(client.frames()) == 4


def test_a_large_frame_queued_behind_another_request_is_served_whole(
    client: Client, log: PartitionLog
) -> None:
    large = records(1, size=200_000)
    data = request(API_VERSIONS, 0, {}) + produce(9, (0, large)) * 3
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)

    sent = 0
    while sent < len(data):
        try:
            sent += client.socket.send(data[sent:])
        except BlockingIOError:
            break
        client.wire.run()
    client.wire.slow.pop().send(b"")
    client.wire.run()
    client.send(data[sent:])

    assert len(client.frames()) == 4
    assert len(batches(log.read(0, 1 << 20))) == 3


def test_an_exception_in_python_does_not_affect_other_connections(
    durable: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    asker, producer = durable.connect(), durable.connect()

    def fail(pending: list[PendingReply]) -> None:
        pending.clear()  # the log record keeps references of this frame
        raise RuntimeError

    durable.serve_with(fail, lambda *_: None)
    asker.socket.send(request(API_VERSIONS, 0, {}))
    producer.socket.send(produce(9, (0, BATCH)))

    assert producer.frame()
    assert asker.is_closed
    assert "RuntimeError" in caplog.text


def fails_once() -> Callable[[Connection, str], None]:
    """Return a callback for closed connections that fails for the first one."""
    failures = [MemoryError]

    def on_close(_connection: Connection, _reason: str) -> None:
        if failures:
            raise failures.pop()

    return on_close


def test_an_exception_while_receiving_does_not_affect_other_connections(
    durable: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    durable.serve_with(durable.slow.extend, fails_once())
    bad, good = durable.connect(), durable.connect()
    bad.socket.send(b"GET / HTTP/1.1\r\n\r\n")  # is not served here
    good.socket.send(produce(9, (0, BATCH)))

    durable.poller()

    assert good.frame()
    assert bad.is_closed
    assert "MemoryError" in caplog.text


def test_an_exception_while_sending_does_not_affect_other_connections(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [wire.connect() for _ in range(3)]
    for client in clients:
        client.send(request(API_VERSIONS, 0, {}))
    wire.serve_with(wire.slow.extend, fails_once())
    for pending in wire.slow:
        pending.send(b"")

    clients[0].socket.close()  # sending to it is an error
    wire.poller.end()

    assert [len(client.frames()) for client in clients[1:]] == [1, 1]
    assert "MemoryError" in caplog.text


def clock_ms() -> int:
    """Return the clock that connections use."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


# ---- sweeping ---------------------------------------------------------------------------------

NEVER_MS = 10**9
AT_ONCE_MS = -1


def test_an_idle_connection_is_closed(client: Client, wire: Wire) -> None:
    wire.poller.sweep(NEVER_MS, AT_ONCE_MS, AT_ONCE_MS)
    assert not client.is_closed

    wire.poller.sweep(AT_ONCE_MS, NEVER_MS, NEVER_MS)

    assert client.is_closed
    assert wire.closed == ["idle"]


def test_a_connection_waiting_for_a_response_is_not_idle(wire: Wire) -> None:
    parked, asking = wire.connect(), wire.connect()
    parked.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
    asking.send(request(API_VERSIONS, 0, {}))

    wire.poller.sweep(AT_ONCE_MS, AT_ONCE_MS, AT_ONCE_MS)

    assert not parked.is_closed
    assert not asking.is_closed


def test_a_stalled_frame_closes_its_connection(client: Client, wire: Wire) -> None:
    client.send(produce(9, (0, BATCH))[:50])
    wire.poller.sweep(AT_ONCE_MS, NEVER_MS, NEVER_MS)
    assert not client.is_closed

    wire.poller.sweep(NEVER_MS, AT_ONCE_MS, NEVER_MS)

    assert client.is_closed


def test_a_client_that_reads_none_of_its_responses_is_closed(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    for _ in range(8):
        appended(log, records(1, size=900_000))
    wire.poller.end()
    client.send(fetch(11, {"partition": 0, "partition_max_bytes": 1 << 23}, max_bytes=1 << 23))
    wire.poller.sweep(AT_ONCE_MS, NEVER_MS, NEVER_MS)
    assert wire.closed == []

    wire.poller.sweep(NEVER_MS, AT_ONCE_MS, NEVER_MS)

    assert wire.closed == ["stalled: it does not read its replies"]


def test_the_timeout_of_a_frame_starts_when_the_broker_begins_to_read_it(
    client: Client, wire: Wire
) -> None:
    client.send(request(API_VERSIONS, 0, {}) + b"\0\0")
    begun_ms = client.connection.frame_started_ms
    while clock_ms() <= begun_ms:
        pass

    client.wire.slow.pop().send(None)
    wire.run()

    assert client.connection.frame_started_ms > begun_ms


def test_a_connection_whose_protocol_is_not_detected_in_time_is_closed(
    client: Client, wire: Wire
) -> None:
    client.send(b"\0\0")

    wire.poller.sweep(NEVER_MS, NEVER_MS, AT_ONCE_MS)

    assert client.is_closed
