"""What is counted of the requests of each API."""

import errno

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from tests.support.native_log import records
from tests.support.native_wire import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Client,
    Wire,
    base_offset,
    fetch,
    produce,
    request,
)

BATCH = records(1)
SAMPLE = 64  # METER_SAMPLE


def served(client: Client, key: int) -> tuple[int, int]:
    """Return how many requests were counted, and of how many the time on the native path."""
    versions, _, _, _, (counts, _), _ = dict(client.wire.kafka.request_meters())[key]
    return sum(versions), sum(counts)


def errors(client: Client, key: int) -> dict[int, int]:
    """Return how often each error was in an answer of an API."""
    return dict(client.wire.kafka.request_meters())[key][1]


def test_apis_that_a_client_uses_by_turns_are_both_sampled(
    client: Client, log: PartitionLog
) -> None:
    for _ in range(SAMPLE + 1):
        base_offset(client, produce(9, (0, BATCH)))
        client.ask(fetch(11, (0, log.log_end_offset - 1)))

    assert served(client, PRODUCE) == (SAMPLE + 1, 2)
    assert served(client, FETCH) == (SAMPLE + 1, 2)


def test_a_request_that_is_left_to_python_counts_for_its_api(client: Client) -> None:
    client.send(request(API_VERSIONS, 0, {}))

    assert served(client, API_VERSIONS) == (1, 0)
    (left,) = client.wire.slow
    left.take_body()
    left.send(b"")
    assert served(client, API_VERSIONS) == (1, 1)


def test_errors_of_fetches_are_counted(client: Client, log: PartitionLog) -> None:
    base_offset(client, produce(9, (0, BATCH)))
    client.ask(fetch(11, (0, 0)))
    assert errors(client, FETCH) == {}

    client.ask(fetch(11, (0, 7)))
    client.ask(fetch(11, session_id=99, session_epoch=7))

    assert errors(client, FETCH) == {1: 1, 70: 1}
    assert log.failed_reads == 1


def test_a_batch_that_is_refused_is_counted_with_its_bytes(
    client: Client, log: PartitionLog, recording: None
) -> None:
    file_ops.fail("write", ".log", errno.ENOSPC)
    batch = records(1, size=limits.STAGED_BATCH_BYTES_MAX)  # written at once

    client.ask(produce(9, (0, batch)))

    assert errors(client, PRODUCE) == {19: 1}
    assert (log.failed_writes, log.rejected_bytes) == (1, len(batch))


def test_a_write_that_is_not_acknowledged_is_counted(durable: Wire, recording: None) -> None:
    client = durable.connect()
    log = durable.log()
    file_ops.fail("sync_data", ".log", errno.EIO)

    client.ask(produce(9, (0, BATCH)))

    assert errors(client, PRODUCE) == {56: 1}
    assert (log.failed_writes, log.rejected_bytes) == (1, 0)
    assert durable.logs.turn.waiting_writes == 0
