"""A Fetch on the native path: which records, how many, and how long it waits."""

import errno
from pathlib import Path
from random import Random

import pytest

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.codec import encode
from tests.support.batches import batch_of
from tests.support.native_log import NOW_MS, Logs, appended, placed, records
from tests.support.native_wire import (
    FETCH,
    FETCH_VERSIONS,
    PRODUCE,
    Client,
    Wire,
    base_offset,
    fetch,
    partition,
    produce,
    response,
)

BATCH = records(2)
LONG_MS = 600_000  # longer than a test waits
SHORT_MS = 20
each_fetch_version = pytest.mark.parametrize("version", FETCH_VERSIONS)


@each_fetch_version
def test_a_fetch_returns_the_available_records(
    client: Client, log: PartitionLog, version: int
) -> None:
    base_offset(client, produce(9, (0, BATCH)))
    base_offset(client, produce(9, (0, BATCH)))

    answer = partition(client.ask(fetch(version, (0, 1), isolation_level=version % 2)))

    assert answer["records"] == placed(BATCH, 0) + placed(BATCH, 2)
    assert (answer["error_code"], answer["high_watermark"]) == (0, 4)
    assert answer["last_stable_offset"] == 4
    assert answer["log_start_offset"] == (0 if version >= 5 else -1)
    assert answer["aborted_transactions"] == ([] if version % 2 else None)
    assert not client.wire.slow


@each_fetch_version
def test_a_fetch_that_arrives_byte_by_byte_is_answered(client: Client, version: int) -> None:
    base_offset(client, produce(9, (0, BATCH)))

    for byte in fetch(version, (0, 0)):
        assert client.frames() == []
        client.send(bytes([byte]))

    assert partition(response(FETCH, version, client.frame())[1])["records"] == placed(BATCH, 0)


@each_fetch_version
def test_a_truncated_fetch_body_is_not_served_by_the_native_path(wire: Wire, version: int) -> None:
    data = fetch(version, (0, 0), (1, 0), forgotten_topics_data=[])

    for size in range(18, len(data)):
        client = wire.connect()
        client.send((size - 4).to_bytes(4) + data[4:size])
        assert client.frames() == []

    assert len(wire.slow) + len(wire.closed) == len(data) - 18
    assert len(wire.sessions) == 0


@each_fetch_version
def test_long_runs_of_batches_arrive_whole(client: Client, log: PartitionLog, version: int) -> None:
    """Short runs are copied after the header, long ones are sent by sendfile."""
    stored = []
    for size in (100, 20_000, 300_000, 5):
        data = records(1, size=size)
        stored.append(placed(data, base_offset(client, produce(9, (0, data)))))

    answer = partition(client.ask(fetch(version, (0, 0))))

    assert answer["records"] == b"".join(stored)


def test_the_first_partition_with_data_returns_a_batch_above_every_limit(
    client: Client, wire: Wire
) -> None:
    for number in (1, 2):
        base_offset(client, produce(9, (number, BATCH)))
    wanted = [
        {"partition": number, "fetch_offset": 0, "partition_max_bytes": 1} for number in range(3)
    ]

    body = client.ask(fetch(11, *wanted, max_bytes=1))

    found = [partition(body, place)["records"] for place in range(3)]
    assert found == [b"", placed(BATCH, 0), b""]


def test_the_total_limit_applies_over_the_partitions_in_the_order_of_the_request(
    client: Client, wire: Wire
) -> None:
    for number in range(3):
        base_offset(client, produce(9, (number, BATCH)))

    body = client.ask(fetch(11, (2, 0), (0, 0), (1, 0), max_bytes=2 * len(BATCH)))

    found = [partition(body, place) for place in range(3)]
    assert [each["partition_index"] for each in found] == [2, 0, 1]
    assert [len(each["records"]) for each in found] == [len(BATCH), len(BATCH), 0]


def test_a_fetch_below_and_above_the_log_is_out_of_range(client: Client) -> None:
    base_offset(client, produce(9, (0, BATCH)))

    for offset in (-1, 3):
        answer = partition(client.ask(fetch(11, (0, offset), max_wait_ms=LONG_MS)))
        assert answer["error_code"] == 1
        assert answer["high_watermark"] == -1


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (2, 74), (3, 0), (4, 75)])
def test_a_fetch_with_a_different_leader_epoch_is_refused(
    client: Client, log: PartitionLog, epoch: int, error: int
) -> None:
    log.start_epoch(3)
    base_offset(client, produce(9, (0, BATCH)))
    wanted = {"partition": 0, "current_leader_epoch": epoch, "partition_max_bytes": 100}

    assert partition(client.ask(fetch(11, wanted)))["error_code"] == error


@pytest.mark.parametrize(("version", "error"), [(9, 76), (10, 0)])
@pytest.mark.parametrize("size", [100, 40_000])
def test_zstd_is_not_returned_to_a_client_of_a_version_without_it(
    client: Client, version: int, error: int, size: int
) -> None:
    """KIP-110."""
    value = Random(size).randbytes(size)
    [compressed] = encode([value], compression="zstd", timestamp_ms=NOW_MS, leader_epoch=0)
    base_offset(client, produce(9, (0, BATCH)))
    base_offset(client, produce(9, (0, compressed)))

    answer = partition(client.ask(fetch(version, (0, 0))))

    assert answer["error_code"] == error
    assert len(answer["records"]) == (0 if error else len(BATCH) + len(compressed))


def test_a_fetch_that_asks_about_diverging_epochs_is_answered_by_python(client: Client) -> None:
    wanted = {"partition": 0, "last_fetched_epoch": 0, "partition_max_bytes": 100}

    client.send(fetch(12, wanted))

    assert len(client.wire.slow) == 1


def test_no_work_is_scheduled_after_a_deadline_has_passed(client: Client) -> None:
    body = client.ask(fetch(11, (0, 0), max_wait_ms=SHORT_MS))

    assert partition(body)["records"] == b""
    assert not client.wire.is_ready


def test_a_waiting_fetch_is_woken_by_an_append(client: Client, wire: Wire) -> None:
    client.send(fetch(11, (0, 0), (1, 0), max_wait_ms=LONG_MS))
    assert client.frames() == []

    base_offset(wire.connect(), produce(9, (1, BATCH)))

    body = response(FETCH, 11, client.frame())[1]
    assert partition(body, 1)["records"] == placed(BATCH, 0)


def test_a_waiting_fetch_waits_for_min_bytes(client: Client, wire: Wire) -> None:
    client.send(fetch(11, (0, 0), (1, 0), max_wait_ms=LONG_MS, min_bytes=3 * len(BATCH)))
    other = wire.connect()

    base_offset(other, produce(9, (0, BATCH)))
    base_offset(other, produce(9, (1, BATCH)))
    assert client.frames() == []
    base_offset(other, produce(9, (0, BATCH)))

    body = response(FETCH, 11, client.frame())[1]
    found = [partition(body, place)["records"] for place in range(2)]
    assert found == [placed(BATCH, 0) + placed(BATCH, 2), placed(BATCH, 0)]


def test_a_waiting_fetch_counts_at_most_the_requested_bytes_of_a_partition(
    client: Client, wire: Wire
) -> None:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": len(BATCH)}
    client.send(fetch(11, wanted, max_wait_ms=LONG_MS, min_bytes=2 * len(BATCH)))

    base_offset(wire.connect(), produce(9, (0, records(1, size=5000))))

    assert client.frames() == []


def test_a_fetch_of_a_log_that_was_just_opened_is_answered_at_once(logs: Logs) -> None:
    log = logs.create(8, is_group_commit=False)
    appended(log, BATCH)
    recovery.close(log)
    wire = Wire(logs)
    wire.serve(logs.attach(2, partition=8))

    client = wire.connect()
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))

    assert len(client.frames()) == 1
    wire.close()


def test_min_bytes_0_never_waits(client: Client) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS, min_bytes=0))

    assert len(client.frames()) == 1


def test_a_fetch_of_no_partitions_does_not_wait(client: Client) -> None:
    client.send(fetch(11, max_wait_ms=LONG_MS))

    assert len(client.frames()) == 1


def test_a_fetch_with_an_error_does_not_wait(client: Client) -> None:
    client.send(fetch(11, (0, 0), (1, 99), max_wait_ms=LONG_MS))

    assert partition(response(FETCH, 11, client.frame())[1], 1)["error_code"] == 1


def test_a_waiting_fetch_delays_only_later_requests_of_its_connection(
    client: Client, wire: Wire
) -> None:
    client.send(
        fetch(11, (0, 0), max_wait_ms=LONG_MS, correlation_id=1)
        + produce(9, (1, BATCH), correlation_id=2)
    )
    other = wire.connect()

    assert base_offset(other, produce(9, (1, BATCH))) == 0
    assert client.frames() == []
    base_offset(other, produce(9, (0, BATCH)))

    frames = client.frames()
    assert [int.from_bytes(frame[4:8]) for frame in frames] == [1, 2]
    assert partition(response(PRODUCE, 9, frames[1])[1])["base_offset"] == 2


def test_a_deleted_partition_wakes_its_waiting_fetches(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    for version, error in ((11, 3), (13, 100)):
        client.send(fetch(version, (0, 0), max_wait_ms=LONG_MS))
        log.retire()
        wire.run()

        answer = partition(response(FETCH, version, client.frame())[1])
        assert answer["error_code"] == error


def test_a_log_that_goes_offline_wakes_its_waiting_fetches(
    client: Client, wire: Wire, recording: None
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
    file_ops.fail("write", ".log", errno.EIO)

    wire.connect().send(produce(9, (0, BATCH)))

    assert partition(response(FETCH, 11, client.frame())[1])["error_code"] == 56


def test_many_waiting_fetches_are_woken_by_one_append(wire: Wire) -> None:
    waiting = [wire.connect() for _ in range(100)]
    for client in waiting:
        client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))

    base_offset(wire.connect(), produce(9, (0, BATCH)))

    for client in waiting:
        body = response(FETCH, 11, client.frame())[1]
        assert partition(body)["records"] == placed(BATCH, 0)


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_loading_log_is_refused_at_once_and_served_afterwards(
    client: Client, log: PartitionLog, session_epoch: int
) -> None:
    base_offset(client, produce(9, (0, BATCH)))
    log.begin_loading()

    refused = partition(
        client.ask(fetch(11, (0, 0), max_wait_ms=LONG_MS, session_epoch=session_epoch))
    )
    log.end_loading()
    served = partition(client.ask(fetch(11, (0, 0), session_epoch=session_epoch)))

    assert (refused["error_code"], refused["records"], refused["high_watermark"]) == (6, b"", -1)
    assert (served["error_code"], served["records"]) == (0, placed(BATCH, 0))
    assert not client.wire.slow


def test_a_waiting_fetch_survives_the_loading_of_its_partition(client: Client, wire: Wire) -> None:
    client.send(fetch(11, (1, 0), max_wait_ms=LONG_MS))
    other = wire.log(1)

    other.begin_loading()
    other.end_loading()
    base_offset(wire.connect(), produce(9, (1, BATCH)))

    assert partition(response(FETCH, 11, client.frame())[1])["records"] == placed(BATCH, 0)


# ---- transactions -----------------------------------------------------------------------------


def send(log: PartitionLog, producer_id: int, sequence: int) -> bytes:
    """Append a record of a producer's transaction; return it as stored."""
    log.admit_transaction(producer_id, 1)
    data = records(
        producer_id=producer_id, producer_epoch=1, base_sequence=sequence, is_transactional=True
    )
    return placed(data, appended(log, data))


def end(log: PartitionLog, producer_id: int, *, is_abort: bool) -> bytes:
    """Append its marker; return it as stored."""
    kind = b"\0\0\0\0" if is_abort else b"\0\0\0\1"
    data = batch_of(
        [(kind, b"\0" * 6, [])],
        NOW_MS,
        producer_id=producer_id,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )
    return placed(data, log.append_internal(data))


@each_fetch_version
def test_committed_readers_get_records_before_the_first_open_transaction(
    client: Client, log: PartitionLog, version: int
) -> None:
    base_offset(client, produce(9, (0, BATCH)))
    opened = send(log, 1, 0)
    base_offset(client, produce(9, (0, BATCH)))

    committed = partition(client.ask(fetch(version, (0, 0), isolation_level=1)))
    all_of_it = partition(client.ask(fetch(version, (0, 0), isolation_level=0)))

    assert committed["records"] == placed(BATCH, 0)
    assert (committed["high_watermark"], committed["last_stable_offset"]) == (5, 2)
    assert all_of_it["records"] == placed(BATCH, 0) + opened + placed(BATCH, 3)
    assert all_of_it["last_stable_offset"] == 2


@each_fetch_version
def test_committed_readers_get_the_list_of_aborted_transactions(
    client: Client, log: PartitionLog, version: int
) -> None:
    stored = [send(log, 1, 0), send(log, 2, 0), send(log, 3, 0)]
    stored += [end(log, 2, is_abort=True), end(log, 3, is_abort=False), end(log, 1, is_abort=True)]
    client.wire.run()

    committed = partition(client.ask(fetch(version, (0, 0), isolation_level=1)))
    behind = partition(client.ask(fetch(version, (0, 4), isolation_level=1)))
    all_of_it = partition(client.ask(fetch(version, (0, 0), isolation_level=0)))

    assert committed["records"] == b"".join(stored)
    assert committed["aborted_transactions"] == [
        {"producer_id": 1, "first_offset": 0},
        {"producer_id": 2, "first_offset": 1},
    ]
    assert behind["aborted_transactions"] == [{"producer_id": 1, "first_offset": 0}]
    assert all_of_it["aborted_transactions"] is None
    assert not client.wire.slow


def test_a_waiting_committed_reader_is_woken_by_the_marker(
    client: Client, log: PartitionLog
) -> None:
    opened = send(log, 1, 0)
    client.wire.run()
    client.send(fetch(12, (0, 0), isolation_level=1, max_wait_ms=LONG_MS))
    base_offset(client.wire.connect(), produce(9, (1, BATCH)))
    assert client.frames() == []

    marker = end(log, 1, is_abort=False)
    client.wire.run()

    answer = partition(response(FETCH, 12, client.frame())[1])
    assert answer["records"] == opened + marker


def test_a_fetch_session_of_a_committed_reader_continues_after_the_marker(
    client: Client, log: PartitionLog
) -> None:
    opened = send(log, 1, 0)
    client.wire.run()
    first = client.ask(fetch(12, (0, 0), isolation_level=1, session_epoch=0))
    session = {"session_id": first["session_id"], "isolation_level": 1}
    nothing = client.ask(fetch(12, session_epoch=1, **session))
    marker = end(log, 1, is_abort=False)
    client.wire.run()

    answer = partition(client.ask(fetch(12, session_epoch=2, **session)))

    assert partition(first)["records"] == b""
    assert nothing["responses"] == []
    assert answer["records"] == opened + marker


def test_without_the_index_of_aborted_transactions_nothing_is_returned(
    client: Client, log: PartitionLog
) -> None:
    send(log, 1, 0)
    end(log, 1, is_abort=True)
    client.wire.run()
    [index] = Path(log.folder).glob("*.txnindex")
    index.unlink()

    answer = partition(client.ask(fetch(12, (0, 0), isolation_level=1)))

    assert (answer["error_code"], answer["records"]) == (56, b"")
