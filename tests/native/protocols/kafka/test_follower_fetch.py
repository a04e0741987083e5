"""Consumers and the replica that is nearest to them (KIP-392), on the native path of a Fetch."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker._native.log.partition_log import PartitionLog
from broker.model.log_results import LogState
from tests.support.native_log import TOPIC_ID, Logs, placed, records
from tests.support.native_replica import LEADER, REPLICA, lead
from tests.support.native_wire import (
    FETCH,
    FETCH_VERSIONS,
    Client,
    Fields,
    Wire,
    changed,
    fetch,
    partition,
    response,
)

BATCH = records(2)
EPOCH = 3
LONG_MS = 600_000
OUT_OF_RANGE, NOT_LEADER, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE = 1, 6, 74, 75, 78
SINCE = 11


@pytest.fixture
def copy(logs: Logs) -> PartitionLog:
    """Partition 0, which this broker follows; it has two batches, and the first is committed."""
    log = logs.create(is_group_commit=False)
    log.follow(EPOCH)
    for offset in (0, 2):
        assert log.copy(placed(BATCH, offset), high_watermark=2) is LogState.OK
    logs.turn.end()
    return log


@pytest.fixture
def following(logs: Logs, copy: PartitionLog) -> Iterator[Wire]:
    """A poller of a broker that leads no partition."""
    wire = Wire(logs)
    wire.table.add("topic", TOPIC_ID, [None], {0: copy})
    yield wire
    wire.close()


@pytest.fixture
def reader(following: Wire) -> Client:
    """A consumer."""
    return following.connect()


def read(client: Client, offset: int, version: int = SINCE, **fields: Any) -> Fields:
    return partition(client.ask(fetch(version, (0, offset), **fields)))


@pytest.mark.parametrize("version", [each for each in FETCH_VERSIONS if each >= SINCE])
def test_a_follower_serves_consumers_up_to_the_high_watermark_that_it_knows(
    reader: Client, version: int
) -> None:
    found = read(reader, 0, version)

    assert (found["error_code"], found["high_watermark"]) == (0, 2)
    assert found["records"] == placed(BATCH, 0)
    assert not reader.wire.slow


def test_an_earlier_consumer_is_left_to_python(reader: Client) -> None:
    reader.send(fetch(SINCE - 1, (0, 0)))
    assert len(reader.wire.slow) == 1


def test_a_consumer_waits_until_a_follower_knows_more(
    reader: Client, copy: PartitionLog, logs: Logs
) -> None:
    reader.send(fetch(SINCE, (0, 2), max_wait_ms=LONG_MS, min_bytes=1))
    assert reader.frames() == []

    copy.copy(b"", high_watermark=4)
    logs.turn.request_end()

    found = partition(response(FETCH, SINCE, reader.frame())[1])
    assert (found["records"], found["high_watermark"]) == (placed(BATCH, 2), 4)


def test_an_offset_that_a_follower_does_not_have_is_waited_for(
    reader: Client, copy: PartitionLog, logs: Logs
) -> None:
    reader.send(fetch(SINCE, (0, 6), max_wait_ms=LONG_MS, min_bytes=1))
    assert reader.frames() == []

    for offset in (4, 6):
        copy.copy(placed(BATCH, offset), high_watermark=8)
    logs.turn.request_end()

    assert partition(response(FETCH, SINCE, reader.frame())[1])["records"] == placed(BATCH, 6)


def test_after_its_time_it_is_not_available(reader: Client) -> None:
    found = read(reader, 6, max_wait_ms=20, min_bytes=1)
    assert found["error_code"] == NOT_AVAILABLE


def test_what_a_follower_has_and_may_not_show_is_no_error(reader: Client) -> None:
    found = read(reader, 4)
    assert (found["error_code"], found["records"], found["high_watermark"]) == (0, b"", 2)


def test_an_offset_before_the_log_is_out_of_range(reader: Client, copy: PartitionLog) -> None:
    copy.move_log_start(2)
    assert read(reader, 0)["error_code"] == OUT_OF_RANGE


@pytest.mark.parametrize(
    ("epoch", "error"), [(EPOCH - 1, FENCED), (EPOCH, 0), (-1, 0), (EPOCH + 1, UNKNOWN_EPOCH)]
)
def test_a_follower_knows_the_epoch_of_its_leader(reader: Client, epoch: int, error: int) -> None:
    wanted = {"partition": 0, "current_leader_epoch": epoch, "partition_max_bytes": 1 << 20}
    found = partition(reader.ask(fetch(SINCE, wanted)))
    assert found["error_code"] == error


def test_a_session_goes_on_when_the_follower_leads(
    reader: Client, copy: PartitionLog, logs: Logs
) -> None:
    session = reader.ask(fetch(SINCE, (0, 2), session_epoch=0))["session_id"]
    reader.send(fetch(SINCE, session_id=session, session_epoch=1, max_wait_ms=LONG_MS, min_bytes=1))
    assert reader.frames() == []

    lead(copy, epoch=EPOCH + 1)
    copy.report(REPLICA, 4)
    logs.turn.request_end()

    body = response(FETCH, SINCE, reader.frame())[1]
    assert partition(body)["records"] == placed(BATCH, 2)


def test_a_consumer_of_a_leader_that_becomes_a_follower_looks_for_the_new_leader(
    client: Client, log: PartitionLog
) -> None:
    lead(log)
    session = client.ask(fetch(SINCE, (0, 0), session_epoch=0))["session_id"]
    client.send(fetch(SINCE, session_id=session, session_epoch=1, max_wait_ms=LONG_MS, min_bytes=1))
    assert client.frames() == []

    log.follow(1)
    client.wire.run()

    assert partition(response(FETCH, SINCE, client.frame())[1])["error_code"] == NOT_LEADER


def test_a_log_that_is_closed_is_not_served(reader: Client, copy: PartitionLog) -> None:
    reader.send(fetch(SINCE, (0, 2), max_wait_ms=LONG_MS, min_bytes=1))
    copy.release()
    assert partition(response(FETCH, SINCE, reader.frame())[1])["error_code"] == NOT_LEADER


# ---- the leader sends a consumer to the replica in its rack --------------------------------------


@pytest.fixture
def led(wire: Wire, log: PartitionLog, logs: Logs) -> PartitionLog:
    """Partition 0 with a batch; a replica in another rack has it, too."""
    lead(log)
    log.append(BATCH)
    logs.turn.request_end()
    wire.run()
    log.report(REPLICA, 2)
    wire.table.racks = {REPLICA: b"there"}
    return log


def test_the_leader_names_the_replica_in_the_rack_of_the_consumer(
    client: Client, led: PartitionLog
) -> None:
    found = read(client, 0, rack_id="there")

    assert (found["preferred_read_replica"], found["records"]) == (REPLICA, b"")
    assert (found["error_code"], found["high_watermark"]) == (0, 2)


@pytest.mark.parametrize("rack", ["", "here", "elsewhere"])
def test_other_consumers_read_from_the_leader(client: Client, led: PartitionLog, rack: str) -> None:
    found = read(client, 0, rack_id=rack)
    assert (found["preferred_read_replica"], found["records"]) == (-1, placed(BATCH, 0))


def test_only_a_replica_in_sync_that_has_the_offset_is_named(
    client: Client, led: PartitionLog, logs: Logs
) -> None:
    led.append(BATCH)
    logs.turn.request_end()
    client.wire.run()
    assert read(client, 3, rack_id="there")["preferred_read_replica"] == -1

    led.report(REPLICA, 4)
    assert read(client, 3, rack_id="there")["preferred_read_replica"] == REPLICA
    led.set_isr([LEADER], 1)
    assert read(client, 3, rack_id="there")["preferred_read_replica"] == -1


def test_a_consumer_that_waits_is_sent_away_at_once(client: Client, led: PartitionLog) -> None:
    found = read(client, 2, rack_id="there", max_wait_ms=LONG_MS, min_bytes=1)
    assert found["preferred_read_replica"] == REPLICA


def test_in_a_session_it_is_named_until_the_consumer_forgets_the_partition(
    client: Client, led: PartitionLog
) -> None:
    body = client.ask(fetch(SINCE, (0, 0), session_epoch=0, rack_id="there"))
    session = body["session_id"]
    assert partition(body)["preferred_read_replica"] == REPLICA
    body = client.ask(fetch(SINCE, session_id=session, session_epoch=1, rack_id="there"))
    assert partition(body)["preferred_read_replica"] == REPLICA

    forgotten = [{"topic": "topic", "partitions": [0]}]
    body = client.ask(
        fetch(
            *(SINCE,),
            session_id=session,
            session_epoch=2,
            rack_id="there",
            forgotten_topics_data=forgotten,
        )
    )

    assert changed(body) == []
