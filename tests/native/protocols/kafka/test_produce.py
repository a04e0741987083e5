"""A Produce on the native path: what is appended, what is answered and when."""

import errno

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.codec import schema
from broker.model import limits
from broker.model.log_results import AppendResult, AppendStatus
from tests.support.native_log import Logs, placed, records
from tests.support.native_wire import (
    PRODUCE,
    PRODUCE_VERSIONS,
    Client,
    Wire,
    partition,
    produce,
    request,
    response,
)

BATCH = records(2)
each_produce_version = pytest.mark.parametrize("version", PRODUCE_VERSIONS)


@each_produce_version
def test_a_produce_is_appended_and_answered(
    client: Client, log: PartitionLog, version: int
) -> None:
    log.append(BATCH)

    body = client.ask(produce(version, (0, BATCH), correlation_id=7))

    answer = partition(body)
    assert (answer["index"], answer["error_code"], answer["base_offset"]) == (0, 0, 2)
    assert answer["log_append_time_ms"] == -1
    assert answer["log_start_offset"] == (0 if version >= 5 else -1)
    assert log.read(2, 1000) == placed(BATCH, 2)
    assert not client.wire.slow


@each_produce_version
def test_a_produce_that_arrives_byte_by_byte_is_served_once(
    client: Client, log: PartitionLog, version: int
) -> None:
    for byte in produce(version, (0, BATCH)):
        assert client.frames() == []
        client.send(bytes([byte]))

    assert partition(response(PRODUCE, version, client.frame())[1])["base_offset"] == 0
    assert log.log_end_offset == 2


@each_produce_version
def test_a_truncated_produce_appends_nothing(wire: Wire, log: PartitionLog, version: int) -> None:
    data = produce(version, (0, BATCH))

    for size in range(len(data)):
        client = wire.connect()
        client.send(data[:size])
        assert client.frames() == []
        client.close()

    assert log.log_end_offset == 0
    assert wire.closed == ["closed by the peer"] * len(data)


@each_produce_version
def test_a_truncated_produce_body_is_not_served_by_the_native_path(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    data = produce(version, (0, BATCH))
    head = len(data) - len(schema.request(PRODUCE).encode(version, {"topic_data": []}))

    for size in range(18, len(data)):
        client = wire.connect()
        client.send((size - 4).to_bytes(4) + data[4:size])
        assert client.frames() == []

    assert head > 18
    assert log.log_end_offset == 0
    assert (
        len(wire.slow)
        + wire.closed.count("request with a key, version or header that is not served")
        == len(data) - 18
    )


def test_several_partitions_of_several_requests_are_answered_in_order(
    client: Client, logs: Logs
) -> None:
    data = b"".join(
        produce(9, (2, BATCH), (0, BATCH), correlation_id=number) for number in range(50)
    )

    client.send(data)

    answers = [response(PRODUCE, 9, frame) for frame in client.frames()]
    assert [correlation_id for correlation_id, _ in answers] == list(range(50))
    assert [partition(body, 1)["base_offset"] for _, body in answers] == list(range(0, 100, 2))
    assert [partition(body)["index"] for _, body in answers] == [2] * 50


def test_a_long_produce_arrives_in_many_pieces(client: Client, log: PartitionLog) -> None:
    large = records(1, size=1_000_000)
    data = b"".join(produce(9, (0, large), correlation_id=number) for number in range(3))

    for start in range(0, len(data), 77_777):
        client.send(data[start : start + 77_777])

    found = [response(PRODUCE, 9, frame)[0] for frame in client.frames()]
    assert found == [0, 1, 2]
    assert log.read(1, 1 << 21) == placed(large, 1) + placed(large, 2)


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_until_its_batch_is_durable(durable: Wire, acks: int) -> None:
    client = durable.connect()

    client.send(produce(9, (0, BATCH), acks=acks))

    log = durable.log()
    assert client.frames() == [] or log.durable_end == 2
    assert partition(response(PRODUCE, 9, client.frame())[1])["base_offset"] == 0
    assert log.durable_end == 2


def test_a_produce_with_acks_0_is_never_answered(client: Client, log: PartitionLog) -> None:
    client.send(produce(9, (0, BATCH), acks=0))
    client.send(produce(9, (0, BATCH), correlation_id=5))

    assert response(PRODUCE, 9, client.frame())[0] == 5
    assert log.log_end_offset == 4


def test_responses_keep_their_order_while_a_sync_is_pending(durable: Wire) -> None:
    client = durable.connect()

    client.send(
        produce(9, (0, BATCH), correlation_id=1)
        + produce(9, (7, BATCH), correlation_id=2)
        + produce(9, (0, BATCH), correlation_id=3)
    )
    (pending,) = durable.slow
    pending.send(b"\0\0\0\0\0\0")

    frames = client.wait_frames(3)
    assert [int.from_bytes(frame[4:8]) for frame in frames] == [1, 2, 3]


def test_a_repeated_batch_is_answered_when_its_original_is_durable(durable: Wire) -> None:
    client = durable.connect()
    batch = records(2, producer_id=1, producer_epoch=0, base_sequence=0)

    client.send(produce(9, (0, batch)) + produce(9, (0, batch)))

    frames = client.wait_frames(2)
    answers = [partition(response(PRODUCE, 9, frame)[1]) for frame in frames]
    assert [answer["base_offset"] for answer in answers] == [0, 0]


@each_produce_version
def test_a_failed_sync_is_answered_with_storage_error(
    durable: Wire, recording: None, version: int
) -> None:
    client = durable.connect()
    file_ops.fail("sync_data", ".log", errno.EIO)

    answer = partition(client.ask(produce(version, (0, BATCH))))

    assert answer["error_code"] == 56
    assert answer["base_offset"] == answer["log_start_offset"] == -1


@each_produce_version
def test_a_batch_without_disk_space_is_refused_with_a_retriable_error(
    client: Client, log: PartitionLog, recording: None, version: int
) -> None:
    file_ops.fail("write", ".log", errno.ENOSPC)
    batch = records(1, size=limits.STAGED_BATCH_BYTES_MAX)  # written at once

    answer = partition(client.ask(produce(version, (0, batch))))

    assert (answer["error_code"], answer["base_offset"]) == (19, -1)
    assert (log.is_offline, log.log_end_offset) == (False, 0)


@each_produce_version
def test_a_batch_that_found_no_disk_space_after_its_append_may_be_sent_again(
    client: Client, wire: Wire, log: PartitionLog, recording: None, version: int
) -> None:
    file_ops.fail("write", ".log", errno.ENOSPC, times=2)

    client.send(produce(version, (0, BATCH)))
    wire.run()
    assert client.frames() == []
    wire.logs.turn.retry_full()

    answer = partition(response(PRODUCE, version, client.frame())[1])
    assert (answer["error_code"], answer["base_offset"]) == (20, -1)


def test_while_client_writes_are_refused_produce_requests_go_to_python(
    client: Client, wire: Wire
) -> None:
    wire.logs.turn.disk.refuses_clients = True

    client.send(produce(9, (0, BATCH)))
    wire.run()

    assert len(wire.slow) == 1


def test_acks_0_to_a_failing_disk_closes_the_connection(client: Client, recording: None) -> None:
    file_ops.fail("write", ".log", errno.ENOSPC)

    batch = records(1, size=limits.STAGED_BATCH_BYTES_MAX)  # written at once

    client.send(produce(9, (0, batch), acks=0))

    assert client.is_closed


@pytest.mark.parametrize(
    "data",
    [
        produce(9, (7, BATCH)),
        produce(9, (0, None)),
        produce(9, (0, BATCH[:-1])),
        produce(9, (0, BATCH), (0, BATCH)),
        produce(9, (0, BATCH), acks=2),
        request(PRODUCE, 9, {"acks": 1, "transactional_id": "t"}),
        produce(2, (0, BATCH)),
    ],
    ids=["partition", "null", "batch", "twice", "acks", "transactional", "old"],
)
def test_uncommon_requests_go_to_python_unchanged(
    client: Client, log: PartitionLog, data: bytes
) -> None:
    client.send(data)

    (pending,) = client.wire.slow
    assert pending.body == data[-len(pending.body) :]
    assert (pending.operation, pending.client_id) == (PRODUCE, "test")
    assert log.log_end_offset == 0


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_produce_to_a_loading_log_changes_nothing(client: Client, acks: int) -> None:
    log = client.wire.log()
    log.begin_loading()

    client.send(produce(9, (0, records()), acks=acks))
    refused = log.append(records())
    log.end_loading()

    assert len(client.wire.slow) == 1  # left to Python, which refuses it
    assert refused == AppendResult(AppendStatus.LOG_LOADING)
    assert log.log_end_offset == 0


def transactional(sequence: int, producer_id: int = 5) -> bytes:
    return records(
        producer_id=producer_id, producer_epoch=1, base_sequence=sequence, is_transactional=True
    )


@each_produce_version
def test_an_admitted_transactional_batch_is_appended(
    client: Client, log: PartitionLog, version: int
) -> None:
    log.admit_transaction(5, 1)

    body = client.ask(produce(version, (0, transactional(0)), transactional_id="t"))

    assert partition(body)["error_code"] == 0
    assert log.open_transactions == {5: 0}
    assert not client.wire.slow


@pytest.mark.parametrize(
    ("batch", "transactional_id"),
    [
        pytest.param(transactional(0, producer_id=6), "t", id="not admitted"),
        pytest.param(transactional(0), None, id="without a transactional id"),
        pytest.param(BATCH, "t", id="a plain batch"),
    ],
)
def test_uncommon_transactional_requests_are_left_to_python(
    wire: Wire, log: PartitionLog, batch: bytes, transactional_id: str | None
) -> None:
    log.admit_transaction(5, 1)

    wire.connect().send(produce(9, (0, batch), transactional_id=transactional_id))

    assert len(wire.slow) == 1
    assert log.log_end_offset == 0


def test_a_plain_batch_within_a_transaction_is_left_to_python(
    wire: Wire, log: PartitionLog
) -> None:
    log.admit_transaction(5, 1)
    log.append(transactional(0))

    wire.connect().send(produce(9, (0, records(producer_id=5, producer_epoch=1, base_sequence=1))))

    assert len(wire.slow) == 1
    assert log.log_end_offset == 1
