"""A broker of a cluster whose lease has ended acknowledges nothing, in any protocol.

No sync thread runs: writes become durable when a test says so, before or after the lease ends.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.kafka.protocol import Kafka
from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.protocols.rustlog.protocol import RustLog
from broker._native.protocols.v1.protocol import V1
from broker.model.errors import ErrorCode, StorageError
from broker.model.log_results import AppendStatus
from tests.support import native_wire, rustlog_client
from tests.support.cursus_client import Message, batch
from tests.support.native_log import Logs, records
from tests.support.native_wire import Client, Wire, fetch, partition, produce, response

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER.number
AN_HOUR_NS = 3600 * 10**9
REFUSED = b"ERR|NOT_LEADER|failed\n"
KEYS = (
    native_wire.PRODUCE,
    native_wire.FETCH,
    native_wire.LIST_OFFSETS,
    native_wire.API_VERSIONS,
)


def framed(body: bytes) -> bytes:
    """Return a frame of Cursus or RustLog."""
    return len(body).to_bytes(4) + body


# A write of one record, and how its success and its refusal are recognized.
WRITES = {
    "v1": (b"V1|1|PRODUCE|topic k:value\n", b"OK|partition=0", REFUSED),
    "v1, acks 0": (b"V1|1|PRODUCE|topic k:value acks=0\n", b"OK|partition=0", REFUSED),
    "cursus batch": (framed(batch("topic", 0, [Message(b"v")])), b'"OK"', b"ERROR: NOT_LEADER"),
    "cursus publish": (
        framed(b"PUBLISH topic=topic producerId=p message=value"),
        b'"OK"',
        b"ERROR: NOT_LEADER",
    ),
    "rustlog": (
        framed(rustlog_client.produce("topic", 0, [b"v"])),
        b"\0\0\0\x0d",
        b"\0\0\0\x01\xfe",
    ),
}
each_write = pytest.mark.parametrize(("write", "success", "refusal"), WRITES.values(), ids=WRITES)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """A data directory whose syncs wait for `commit.run`, under a lease that has just begun."""
    logs = Logs(tmp_path, CommitThread(0))
    logs.turn.serves_until_ns = time.monotonic_ns() + AN_HOUR_NS
    yield logs
    logs.commit.stop()
    logs.turn.poll_synced()


@pytest.fixture
def log(logs: Logs) -> PartitionLog:
    """A partition whose writes wait for a sync."""
    return logs.create()


@pytest.fixture
def wire(logs: Logs, log: PartitionLog) -> Iterator[Wire]:
    """A poller that serves that partition in every protocol."""
    wire = Wire(logs)
    protocol = object()
    wire.poller.serve_with(
        {
            "v1": V1(protocol, REFUSED),
            "cursus": Cursus(protocol),
            "rustlog": RustLog(protocol, RustLogCounters(), write_failed=b"\xfe"),
            "kafka": Kafka(
                protocol,
                [native_wire.api_row(key) for key in KEYS],
                wire.sessions,
                frame_bytes_max=native_wire.FRAME_BYTES_MAX,
            ),
        },
        wire.slow.extend,
        lambda _, reason: wire.closed.append(reason),
    )
    wire.serve(log)
    yield wire
    wire.close()


def end_lease(wire: Wire) -> None:
    """Let the lease end, as while the process is stopped: no turn notices it."""
    wire.logs.turn.serves_until_ns = time.monotonic_ns()


def sync(wire: Wire) -> None:
    """Let the disk finish every sync that was started."""
    wire.logs.commit.run()
    wire.run()


def received(client: Client) -> bytes:
    """Return the bytes that have arrived."""
    data = b""
    with suppress(BlockingIOError, ConnectionResetError):
        while part := client.socket.recv(1 << 20):
            data += part
    return data


# ---- acknowledgements ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", native_wire.PRODUCE_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_produce_that_is_durable_after_the_lease_is_not_acknowledged(
    wire: Wire, log: PartitionLog, version: int, acks: int
) -> None:
    client = wire.connect()
    client.send(produce(version, (0, records(2)), acks=acks))
    assert client.frames() == []

    end_lease(wire)
    sync(wire)

    answer = partition(response(native_wire.PRODUCE, version, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (NOT_LEADER, -1)
    assert log.high_watermark == 2


@each_write
def test_no_protocol_acknowledges_a_write_that_is_durable_after_the_lease(
    wire: Wire, write: bytes, success: bytes, refusal: bytes
) -> None:
    client = wire.connect()
    client.send(write)
    assert received(client) == b""

    end_lease(wire)
    sync(wire)

    answer = received(client)
    assert success not in answer
    assert refusal in answer


@each_write
def test_every_protocol_acknowledges_a_write_within_the_lease(
    wire: Wire, write: bytes, success: bytes, refusal: bytes
) -> None:
    client = wire.connect()
    client.send(write)

    sync(wire)

    answer = received(client)
    assert success in answer
    assert refusal not in answer


def test_each_partition_of_a_produce_is_refused_after_the_lease(logs: Logs, wire: Wire) -> None:
    wire.serve(wire.log(), logs.create(1), logs.create(2))
    client = wire.connect()
    client.send(produce(9, *((number, records()) for number in range(3))))

    end_lease(wire)
    sync(wire)

    _, body = response(native_wire.PRODUCE, 9, client.frame())
    answers = [partition(body, number) for number in range(3)]
    assert [each["error_code"] for each in answers] == [NOT_LEADER] * 3
    assert [each["base_offset"] for each in answers] == [-1] * 3


def test_a_renewal_that_comes_in_time_moves_the_end_of_the_acknowledgements(wire: Wire) -> None:
    client = wire.connect()
    end_lease(wire)
    wire.logs.turn.serves_until_ns = time.monotonic_ns() + AN_HOUR_NS
    client.send(produce(9, (0, records())))
    sync(wire)

    answer = partition(response(native_wire.PRODUCE, 9, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (0, 0)


# ---- answers made before the lease ended, and not sent yet ---------------------------------------


def test_an_acknowledgement_that_waited_for_its_socket_is_not_sent_after_the_lease(
    logs: Logs, wire: Wire
) -> None:
    read = logs.create(1, is_group_commit=False)
    wire.serve(wire.log(), read)
    client = wire.connect()
    for _ in range(8):
        read.append(records(size=900_000))
    wire.run()
    client.send(fetch(11, (1, 0), max_bytes=8_000_000))  # more than the sockets hold
    client.send(produce(9, (0, records()), correlation_id=77))
    sync(wire)
    assert wire.log().high_watermark == 1, "its answer is queued"

    end_lease(wire)
    found = client.frames()
    wire.run()
    found += client.frames()

    assert (77).to_bytes(4) not in {each[4:8] for each in found}
    assert wire.closed == ["the broker's lease ended before its replies were sent"]


def test_an_answer_of_python_made_within_the_lease_is_not_sent_after_it(wire: Wire) -> None:
    client = wire.connect()
    client.send(native_wire.request(native_wire.API_VERSIONS, 0, {}))
    (pending,) = wire.slow
    pending.send(b"made within the lease")

    end_lease(wire)
    wire.run()

    assert received(client) == b""
    assert wire.closed == ["the broker's lease ended before its replies were sent"]


def test_an_answer_of_python_made_after_the_lease_is_sent(wire: Wire) -> None:
    client = wire.connect()
    client.send(native_wire.request(native_wire.API_VERSIONS, 0, {}))
    (pending,) = wire.slow
    end_lease(wire)

    pending.send(b"not leader")
    wire.run()

    assert received(client).endswith(b"not leader")
    assert wire.closed == []


# ---- a new registration after a lost lease -------------------------------------------------------


def register_anew(wire: Wire) -> None:
    """Let the broker get another lease at once: its logs have still to be elected."""
    wire.logs.turn.broker_epoch += 1


def test_a_write_begun_under_an_earlier_registration_is_not_acknowledged_under_the_next(
    wire: Wire,
) -> None:
    client = wire.connect()
    client.send(produce(9, (0, records())))

    register_anew(wire)
    sync(wire)

    answer = partition(response(native_wire.PRODUCE, 9, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (NOT_LEADER, -1)


def test_an_answer_made_under_an_earlier_registration_is_not_sent_under_the_next(
    wire: Wire,
) -> None:
    client = wire.connect()
    client.send(native_wire.request(native_wire.API_VERSIONS, 0, {}))
    (pending,) = wire.slow
    pending.send(b"made under the first registration")

    register_anew(wire)
    wire.run()

    assert received(client) == b""
    assert wire.closed == ["the broker's lease ended before its replies were sent"]


def test_a_log_is_written_under_a_new_registration_only_once_it_has_been_elected(
    wire: Wire, log: PartitionLog
) -> None:
    client = wire.connect()
    register_anew(wire)

    client.send(produce(9, (0, records())))

    (pending,) = wire.slow
    assert not log.is_led
    assert log.append(records()).status is AppendStatus.LOG_NOT_LED
    pending.send(b"refused by Python")
    wire.run()
    client.frames()

    log.elected()
    assert log.is_led
    client.send(produce(9, (0, records())))
    sync(wire)
    answer = partition(response(native_wire.PRODUCE, 9, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (0, 0)


def test_a_log_opened_under_a_registration_is_led_once_the_broker_is_elected(logs: Logs) -> None:
    """The leadership may have been moved while the log was opened."""
    logs.turn.broker_epoch = 7
    log = logs.create(1)
    assert not log.is_led

    log.elected()

    assert log.is_led


# ---- what is accepted ----------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_produce_after_the_lease_is_left_to_python_which_refuses_it(
    wire: Wire, log: PartitionLog, acks: int
) -> None:
    end_lease(wire)

    wire.connect().send(produce(9, (0, records()), acks=acks))

    assert [each.operation for each in wire.slow] == [native_wire.PRODUCE]
    assert log.log_end_offset == 0


@pytest.mark.parametrize("write", [write for write, _, _ in WRITES.values()], ids=WRITES)
def test_no_protocol_accepts_a_write_after_the_lease(
    wire: Wire, log: PartitionLog, write: bytes
) -> None:
    end_lease(wire)

    wire.connect().send(write)

    assert len(wire.slow) == 1, "Python refuses it"
    assert log.log_end_offset == 0


def test_a_log_takes_no_batch_of_python_after_the_lease(wire: Wire, log: PartitionLog) -> None:
    assert log.is_led
    end_lease(wire)

    assert not log.is_led
    assert log.append(records()).status is AppendStatus.LOG_NOT_LED
    with pytest.raises(StorageError, match="not led here"):
        log.append_internal(records())
    assert log.log_end_offset == 0


def test_a_broker_without_a_lease_has_no_limit(tmp_path: Path) -> None:
    logs = Logs(tmp_path, CommitThread(0))
    log = logs.create()

    assert log.is_led
    assert log.append(records()).status is AppendStatus.APPENDED


# ---- what goes on --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 12, 18])
def test_committed_records_are_fetched_after_the_lease(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    log.append(records(3))
    wire.run()
    sync(wire)
    end_lease(wire)

    answer = partition(wire.connect().ask(fetch(version, (0, 0))))

    assert (answer["error_code"], answer["high_watermark"]) == (0, 3)
    assert answer["records"]


# ---- a log that another broker leads -------------------------------------------------------------


def release(log: PartitionLog) -> None:
    """Do what a broker does with a log that it does not lead any more (server/partition_logs)."""
    log.begin_loading()
    log.release()
    log.end_loading()


@pytest.mark.parametrize("version", native_wire.FETCH_VERSIONS)
def test_a_waiting_fetch_is_answered_as_soon_as_its_log_is_released(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    client = wire.connect()
    client.send(fetch(version, (0, 0), max_wait_ms=3_600_000))
    assert client.frames() == []

    log.begin_loading()  # the first step of a release
    wire.run()

    answer = partition(response(native_wire.FETCH, version, client.frame())[1])
    assert answer["error_code"] == NOT_LEADER


@pytest.mark.parametrize("version", [9, 18])
def test_a_fetch_session_ends_when_a_log_of_it_was_released(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    """The partition may be led here again, with another log."""
    client = wire.connect()
    session_id = client.ask(fetch(version, (0, 0), session_epoch=0))["session_id"]
    assert session_id > 0

    release(log)
    same = {"session_id": session_id}
    answer = client.ask(fetch(version, session_epoch=1, **same))
    after = client.ask(fetch(version, session_epoch=2, **same))

    assert partition(answer)["error_code"] == NOT_LEADER
    assert after["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND.number


def test_a_produce_in_flight_is_refused_when_its_log_is_released_before_it_is_durable(
    wire: Wire, log: PartitionLog
) -> None:
    client = wire.connect()
    client.send(produce(9, (0, records())))

    release(log)
    wire.run()

    answer = partition(response(native_wire.PRODUCE, 9, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (NOT_LEADER, -1)


def test_a_produce_in_flight_is_acknowledged_if_it_is_durable_before_its_log_is_released(
    wire: Wire, log: PartitionLog
) -> None:
    client = wire.connect()
    client.send(produce(9, (0, records())))

    log.begin_loading()
    sync(wire)
    log.release()
    wire.run()

    answer = partition(response(native_wire.PRODUCE, 9, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (0, 0)


def test_a_released_log_refuses_appends_and_readers(wire: Wire, log: PartitionLog) -> None:
    release(log)

    assert not log.is_led
    assert log.append(records()).status is AppendStatus.LOG_NOT_LED
    durable: list[bool] = []
    log.when_durable(1, durable.append)
    assert durable == [False]
    wire.connect().send(produce(9, (0, records())))
    assert len(wire.slow) == 1
