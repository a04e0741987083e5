"""A Produce to a partition with replicas on other brokers, on the native path."""

from pathlib import Path

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker.model.limits import REPLICAS_WAIT_MS
from tests.support.native_log import Logs, records
from tests.support.native_replica import LEADER, REPLICA, lead
from tests.support.native_wire import (
    LIST_OFFSETS,
    PRODUCE,
    PRODUCE_VERSIONS,
    Client,
    Fields,
    Wire,
    fetch,
    partition,
    produce,
    request,
    response,
)

BATCH = records(2)
TIMED_OUT, TOO_FEW_AFTER_APPEND = 7, 20
TIMEOUT_MS = 1000  # of `produce`
LATEST, EARLIEST = -1, -2


@pytest.fixture
def led(wire: Wire, log: PartitionLog) -> PartitionLog:
    """Partition 0, which broker 2 has a replica of, too."""
    lead(log)
    return log


def answer_of(client: Client, version: int = 9) -> Fields:
    """Return the answer for the partition of the request that was sent."""
    return partition(response(PRODUCE, version, client.frame())[1])


def test_acks_all_waits_until_all_replicas_in_sync_have_the_batch(
    client: Client, led: PartitionLog
) -> None:
    client.send(produce(9, (0, BATCH)))
    assert client.frames() == []

    led.report(REPLICA, 2)
    client.wire.logs.turn.request_end()
    client.wire.run()

    answer = answer_of(client)
    assert (answer["error_code"], answer["base_offset"]) == (0, 0)


def test_acks_1_waits_for_this_replica_only(client: Client, led: PartitionLog) -> None:
    answer = partition(client.ask(produce(9, (0, BATCH), acks=1)))

    assert (answer["error_code"], answer["base_offset"]) == (0, 0)
    assert led.high_watermark == 0


def test_acks_1_waits_for_the_sync_of_this_replica(durable: Wire) -> None:
    log = durable.log()
    lead(log)
    client = durable.connect()

    client.send(produce(9, (0, BATCH), acks=1))

    assert answer_of(client)["error_code"] == 0
    assert (log.durable_end, log.high_watermark) == (2, 0)


def test_acks_0_holds_no_request_of_another_connection_back(
    client: Client, led: PartitionLog
) -> None:
    client.send(produce(9, (0, BATCH), acks=0))

    assert partition(client.wire.connect().ask(fetch(13, (0, 0))))["records"] == b""
    assert led.log_end_offset == 2


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_wait_for_replicas_ends_after_the_timeout_of_the_request(
    client: Client, led: PartitionLog, logs: Logs, version: int
) -> None:
    client.send(produce(version, (0, BATCH)))
    turn = logs.turn
    turn.fail_overdue(turn.steady_ms + TIMEOUT_MS - 100)
    client.wire.run()
    assert client.frames() == []

    turn.fail_overdue(turn.steady_ms + TIMEOUT_MS)
    client.wire.run()

    answer = answer_of(client, version)
    assert (answer["error_code"], answer["base_offset"]) == (TIMED_OUT, -1)
    assert led.log_end_offset == 2


@pytest.mark.parametrize("is_replicated_before", [False, True])
def test_a_wait_for_replicas_that_are_added_meanwhile_ends_after_the_timeout(
    tmp_path: Path, *, is_replicated_before: bool
) -> None:
    logs = Logs(tmp_path, CommitThread(0))  # nothing is synced
    wire = Wire(logs)
    led = logs.create()
    wire.serve(led)
    if is_replicated_before:
        lead(led)
    client = wire.connect()
    client.send(produce(9, (0, BATCH)))
    assert client.frames() == []

    led.lead(0, LEADER, [LEADER], [LEADER])
    lead(led)
    logs.turn.fail_overdue(logs.turn.steady_ms + TIMEOUT_MS)
    wire.run()

    assert answer_of(client)["error_code"] == TIMED_OUT
    wire.close()
    logs.commit.stop()
    logs.turn.poll_synced()


def test_the_first_wait_for_replicas_is_reported(
    client: Client, led: PartitionLog, logs: Logs
) -> None:
    turn, reported = logs.turn, list[tuple[int, int]]()
    turn.when_awaiting = lambda: reported.append((turn.expiring_count, turn.lagging_count))

    for _ in range(2):
        client.send(produce(9, (0, BATCH)))

    assert led.log_end_offset == 4
    assert reported == [(1, 1)], "the replica lags since the log is led"


def test_a_wait_ends_at_once_when_too_few_replicas_are_in_sync(
    client: Client, led: PartitionLog
) -> None:
    led.configure(is_group_commit=False, min_isr=2)
    client.send(produce(9, (0, BATCH)))
    assert client.frames() == []

    led.set_isr([LEADER], 1)
    client.wire.run()

    assert answer_of(client)["error_code"] == TOO_FEW_AFTER_APPEND


def test_acks_all_is_left_to_python_while_too_few_replicas_are_in_sync(
    client: Client, led: PartitionLog
) -> None:
    led.configure(is_group_commit=False, min_isr=2)
    led.set_isr([LEADER], 1)

    assert partition(client.ask(produce(9, (0, BATCH), acks=1)))["error_code"] == 0
    client.send(produce(9, (0, BATCH)))

    assert len(client.wire.slow) == 1
    assert led.log_end_offset == 2


def test_a_write_that_waits_fails_when_another_broker_leads(
    client: Client, led: PartitionLog
) -> None:
    client.send(produce(9, (0, BATCH)))

    led.follow(1)
    client.wire.run()

    assert answer_of(client)["error_code"] == 6


@pytest.mark.parametrize("change", ["follow", "stop_accepting"])
def test_a_log_that_takes_no_batches_refuses_them(
    client: Client, led: PartitionLog, change: str
) -> None:
    if change == "follow":
        led.follow(1)
    else:
        led.stop_accepting()

    assert partition(client.ask(produce(9, (0, BATCH))))["error_code"] == 6
    assert led.log_end_offset == 0


def test_a_consumer_of_a_partition_that_another_broker_leads_now_gets_the_error(
    client: Client, led: PartitionLog
) -> None:
    client.send(fetch(13, (0, 0), max_wait_ms=REPLICAS_WAIT_MS))

    led.follow(1)
    client.wire.run()

    assert partition(response(1, 13, client.frame())[1])["error_code"] == 6


# ---- ListOffsets ---------------------------------------------------------------------------------


def list_offsets(timestamp: int, *, replica_id: int = -1) -> bytes:
    """Return a request for an offset of partition 0."""
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    topic = {"name": "topic", "partitions": [wanted]}
    return request(LIST_OFFSETS, 7, {"replica_id": replica_id, "topics": [topic]})


def test_the_latest_offset_is_left_to_python_until_the_leader_has_caught_up(
    client: Client, led: PartitionLog
) -> None:
    client.ask(produce(9, (0, BATCH), acks=1))
    lead(led, epoch=1)

    client.wire.connect().send(list_offsets(LATEST))
    assert len(client.wire.slow) == 1
    client.wire.connect().ask(list_offsets(EARLIEST))
    led.report(REPLICA, 2)

    body = client.wire.connect().ask(list_offsets(LATEST))
    assert body["topics"][0]["partitions"][0]["offset"] == 2


def test_offsets_for_a_replica_are_left_to_python(client: Client, led: PartitionLog) -> None:
    client.send(list_offsets(LATEST, replica_id=REPLICA))

    assert len(client.wire.slow) == 1
    assert led.log_end_offset == 0
