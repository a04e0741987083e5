"""The handler of Fetch."""

import asyncio
from typing import Any

import pytest

from broker.core.cluster_view import Alone
from broker.model.errors import PeerError
from broker.model.limits import (
    FETCH_PARTITIONS_PER_STEP,
    NATIVE_FETCH_PARTITIONS_MAX,
    PYTHON_FETCH_BYTES_MAX,
)
from tests.support.fakes import FakeBroker, batch, only

ZSTD = 4
SIZE = len(batch())


def part(
    partition: int = 0, offset: int = 0, *, size_max: int = 1 << 20, **more: Any
) -> dict[str, Any]:
    return {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": size_max,
        "current_leader_epoch": -1,
        **more,
    }


def fields(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    topics = [{"topic": "a", "partitions": list(parts)}]
    return {"max_bytes": 1 << 20, "max_wait_ms": 0, "min_bytes": 1, "topics": topics, **more}


def fetch(
    broker: FakeBroker, version: int, *parts: dict[str, Any], **more: Any
) -> list[dict[str, Any]]:
    """Fetch from topic "a" and return the partitions of the response."""
    answer = broker.ask(1, version, **fields(*parts, **more))
    return only(answer["responses"])["partitions"]


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 3)
    return broker


def fill(broker: FakeBroker, partition: int, *counts: int) -> None:
    for count in counts:
        broker.log("a", partition).append(batch(count))


@pytest.mark.parametrize("version", range(4, 13))
def test_whole_batches_are_returned_up_to_the_high_watermark(
    broker: FakeBroker, version: int
) -> None:
    fill(broker, 0, 2, 3)

    answer = only(fetch(broker, version, part()))

    assert len(answer["records"]) == 2 * SIZE
    assert (answer["high_watermark"], answer["last_stable_offset"]) == (5, 5)


def test_an_offset_within_a_batch_returns_the_whole_batch(broker: FakeBroker) -> None:
    fill(broker, 0, 5, 5)

    records = only(fetch(broker, 11, part(0, 7)))["records"]

    assert int.from_bytes(records[:8]) == 5


@pytest.mark.parametrize("version", [13, 18])
def test_topics_are_named_by_id_since_version_13(broker: FakeBroker, version: int) -> None:
    fill(broker, 0, 1)
    topic = broker.topics.get("a")
    assert topic is not None
    topics = [{"topic_id": topic.topic_id, "partitions": [part()]}]

    answer = only(broker.ask(1, version, **fields(topics=topics))["responses"])

    assert answer["topic_id"] == topic.topic_id
    assert len(only(answer["partitions"])["records"]) == SIZE


def test_an_unknown_topic_id_is_error_100(broker: FakeBroker) -> None:
    topics = [{"topic_id": bytes(range(16)), "partitions": [part()]}]

    answer = only(broker.ask(1, 13, **fields(topics=topics))["responses"])

    assert only(answer["partitions"])["error_code"] == 100


def test_an_unknown_partition_is_error_3(broker: FakeBroker) -> None:
    assert only(fetch(broker, 12, part(3)))["error_code"] == 3


@pytest.mark.parametrize("offset", [-1, 6])
def test_an_offset_outside_the_log_is_out_of_range(broker: FakeBroker, offset: int) -> None:
    fill(broker, 0, 5)

    answer = only(fetch(broker, 12, part(0, offset)))

    assert (answer["error_code"], answer["high_watermark"]) == (1, -1)


def test_an_offset_below_the_log_start_is_out_of_range(broker: FakeBroker) -> None:
    fill(broker, 0, 5, 5)
    broker.log("a").log_start_offset = 5

    assert only(fetch(broker, 12, part(0, 4)))["error_code"] == 1


def test_an_offset_between_high_watermark_and_log_end_is_empty(broker: FakeBroker) -> None:
    fill(broker, 0, 5)
    broker.log("a").is_held = True
    fill(broker, 0, 5)

    answer = only(fetch(broker, 12, part(0, 7)))

    assert (answer["error_code"], answer["records"]) == (0, b"")


def test_the_first_batch_is_returned_even_above_both_limits(broker: FakeBroker) -> None:
    fill(broker, 0, 1)

    assert len(only(fetch(broker, 12, part(size_max=1), max_bytes=1))["records"]) == SIZE


def test_later_partitions_get_the_rest_of_the_limit(broker: FakeBroker) -> None:
    for partition in range(3):
        fill(broker, partition, 1, 1)

    parts = fetch(broker, 12, part(0), part(1), part(2), max_bytes=3 * SIZE)

    assert [len(each["records"]) for each in parts] == [2 * SIZE, SIZE, 0]


def test_an_empty_first_partition_passes_the_guarantee_to_the_next(broker: FakeBroker) -> None:
    fill(broker, 1, 1)

    parts = fetch(broker, 12, part(0), part(1, size_max=1), max_bytes=1)

    assert [len(each["records"]) for each in parts] == [0, SIZE]


def test_a_response_has_no_more_bytes_than_one_step_can_copy(broker: FakeBroker) -> None:
    """Whatever is asked for: the rest is left to the next fetch."""
    for partition in range(3):
        for _ in range(3):
            broker.log("a", partition).append(batch(body=bytes(1 << 19)))

    wanted = [part(partition, size_max=1 << 30) for partition in range(3)]
    parts = fetch(broker, 12, *wanted, max_bytes=1 << 30, min_bytes=1 << 30)

    size = sum(len(each["records"]) for each in parts)
    assert PYTHON_FETCH_BYTES_MAX // 2 < size <= PYTHON_FETCH_BYTES_MAX


def test_a_fetch_for_more_than_a_response_may_have_does_not_wait(broker: FakeBroker) -> None:
    for _ in range(5):
        broker.log("a", 0).append(batch(body=bytes(PYTHON_FETCH_BYTES_MAX // 4 + 1)))
    limits = {"max_bytes": 1 << 30, "min_bytes": 1 << 29, "max_wait_ms": 60_000}

    [answered] = fetch(broker, 12, part(size_max=1 << 30), **limits)

    assert len(answered["records"]) > PYTHON_FETCH_BYTES_MAX // 2


def test_the_brokers_limit_caps_the_clients_limit() -> None:
    broker = FakeBroker({"fetch.max.bytes": "1024"})
    broker.create("a", 2)
    broker.log("a", 0).append(batch(body=b"x" * 1000))
    broker.log("a", 1).append(batch())

    parts = fetch(broker, 12, part(0), part(1), max_bytes=1 << 30)

    assert [bool(each["records"]) for each in parts] == [True, False]


def test_read_committed_gets_a_list_of_aborted_transactions_and_read_uncommitted_gets_null(
    broker: FakeBroker,
) -> None:
    assert only(fetch(broker, 12, part()))["aborted_transactions"] is None
    assert only(fetch(broker, 12, part(), isolation_level=1))["aborted_transactions"] == []


def test_leader_epochs_are_checked(broker: FakeBroker) -> None:
    broker.log("a").leader_epoch = 4

    codes = [
        only(fetch(broker, 12, part(current_leader_epoch=epoch)))["error_code"]
        for epoch in (-1, 3, 4, 5)
    ]

    assert codes == [0, 74, 0, 75]


def test_a_reader_of_a_diverged_log_gets_the_end_of_its_epoch(broker: FakeBroker) -> None:
    """KIP-595: the reader's epoch ended before the offset it asks for."""
    fill(broker, 0, 5, 5)
    broker.log("a").epochs = [(0, 5)]
    broker.log("a").leader_epoch = 1

    answer = only(fetch(broker, 12, part(0, 7, last_fetched_epoch=0)))

    assert answer["diverging_epoch"] == {"epoch": 0, "end_offset": 5}
    assert answer["records"] == b""


def test_zstd_before_version_10_is_an_unsupported_compression(broker: FakeBroker) -> None:
    broker.log("a").append(batch())
    broker.log("a").append(batch(attributes=ZSTD))

    assert only(fetch(broker, 9, part()))["error_code"] == 76
    assert only(fetch(broker, 10, part()))["error_code"] == 0


def test_an_offline_partition_is_a_storage_error(broker: FakeBroker) -> None:
    broker.log("a").fail()

    assert only(fetch(broker, 12, part()))["error_code"] == 56


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_full_fetch_is_answered_without_a_session(broker: FakeBroker, epoch: int) -> None:
    answer = broker.ask(1, 12, **fields(part(), session_epoch=epoch))

    assert (answer["error_code"], answer["session_id"]) == (0, 0)


def test_an_incremental_fetch_of_an_unknown_session_is_refused(broker: FakeBroker) -> None:
    answer = broker.ask(1, 12, **fields(part(), session_id=5, session_epoch=1))

    assert (answer["error_code"], answer["responses"]) == (70, [])


@pytest.mark.parametrize("version", [4, 14, 15, 18])
def test_an_unknown_replica_id_is_refused(broker: FakeBroker, version: int) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    topics = [{"topic": "a", "topic_id": topic.topic_id, "partitions": [part()]}]
    replica = {"replica_id": 2} if version < 15 else {"replica_state": {"replica_id": 2}}

    answer = broker.ask(1, version, **fields(topics=topics, **replica))

    assert only(only(answer["responses"])["partitions"])["error_code"] == 6


async def start(broker: FakeBroker, **more: Any) -> asyncio.Task[Any]:
    """Begin a fetch of partitions 0 and 1 that has to wait."""
    task = asyncio.create_task(
        broker.ask_soon(1, 12, **fields(part(0), part(1), **{"max_wait_ms": 60_000, **more}))
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


def test_a_fetch_waits_until_a_partition_grows(broker: FakeBroker) -> None:
    async def scenario() -> Any:
        fetched = await start(broker)
        assert not fetched.done()
        fill(broker, 1, 1)
        return await fetched

    answer = asyncio.run(scenario())

    sizes = [len(each["records"]) for each in only(answer["responses"])["partitions"]]
    assert sizes == [0, SIZE]


def test_a_fetch_waits_for_min_bytes_of_all_partitions_together(broker: FakeBroker) -> None:
    async def scenario() -> Any:
        fetched = await start(broker, min_bytes=2 * SIZE)
        fill(broker, 0, 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not fetched.done()
        fill(broker, 1, 1)
        return await fetched

    answer = asyncio.run(scenario())

    sizes = [len(each["records"]) for each in only(answer["responses"])["partitions"]]
    assert sizes == [SIZE, SIZE]


def test_a_fetch_returns_all_partitions_at_its_deadline(broker: FakeBroker) -> None:
    parts = fetch(broker, 12, part(0), part(1), max_wait_ms=5)

    assert [each["records"] for each in parts] == [b"", b""]


def test_an_error_in_one_partition_ends_the_wait_of_all(broker: FakeBroker) -> None:
    parts = fetch(broker, 12, part(0), part(9), max_wait_ms=60_000)

    assert [each["error_code"] for each in parts] == [0, 3]


def test_a_log_that_fails_ends_the_wait(broker: FakeBroker) -> None:
    async def scenario() -> Any:
        fetched = await start(broker)
        broker.log("a", 1).fail()
        return await fetched

    answer = asyncio.run(scenario())

    codes = [each["error_code"] for each in only(answer["responses"])["partitions"]]
    assert codes == [0, 56]


def test_min_bytes_0_and_a_fetch_of_no_partitions_do_not_wait(broker: FakeBroker) -> None:
    assert fetch(broker, 12, part(), min_bytes=0, max_wait_ms=60_000)
    assert broker.ask(1, 12, **fields(topics=[], max_wait_ms=60_000))["responses"] == []


def test_fetches_that_time_out_leave_one_callback_on_a_log(broker: FakeBroker) -> None:
    for _ in range(5):
        fetch(broker, 12, part(), max_wait_ms=1)

    assert broker.log("a").callback_count == 1


def test_a_loading_partition_is_refused_without_waiting(broker: FakeBroker) -> None:
    fill(broker, 0, 2)
    broker.log("a").is_loading = True

    answer = only(fetch(broker, 11, part(), max_wait_ms=600_000))

    assert (answer["error_code"], answer["records"] or b"") == (6, b"")


# ---- many partitions -----------------------------------------------------------------------------

MANY = NATIVE_FETCH_PARTITIONS_MAX + 1


@pytest.mark.parametrize("version", [7, 12])
def test_a_fetch_of_too_many_partitions_is_an_invalid_request(
    broker: FakeBroker, version: int
) -> None:
    answer = broker.ask(1, version, **fields(*[part()] * MANY))

    assert (answer["error_code"], answer["responses"]) == (42, [])


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_too_many_partitions_in_versions_without_an_error_field_close_the_connection(
    broker: FakeBroker, version: int
) -> None:
    with pytest.raises(PeerError):
        broker.ask(1, version, **fields(*[part()] * MANY))


@pytest.mark.parametrize("version", [4, 12])
def test_other_tasks_run_while_many_partitions_are_read(version: int) -> None:
    count = 3 * FETCH_PARTITIONS_PER_STEP + 1
    broker = FakeBroker()
    broker.create("a", count)
    fill(broker, count - 1, 2)
    wanted = fields(*(part(number) for number in range(count)))

    parts = only(broker.ask(1, version, **wanted)["responses"])["partitions"]

    assert broker.turns(1, version, **wanted) >= 3
    assert [each["partition_index"] for each in parts] == list(range(count))
    assert parts[-1]["high_watermark"] == 2


# ---- from the nearest replica (KIP-392) ----------------------------------------------------------


def follow(broker: FakeBroker, epoch: int = 3) -> None:
    """Let another broker lead partition 0, whose log has two batches; one of them is committed."""
    fill(broker, 0, 1)
    log = broker.log("a", 0)
    log.is_held = True
    fill(broker, 0, 1)
    log.follow(epoch)
    topic = broker.topics.get("a")
    assert topic is not None
    topic.logs[0] = None
    topic.followed[0] = log


@pytest.mark.parametrize("version", [10, 11, 12])
def test_a_follower_serves_consumers_of_version_11_and_later(
    broker: FakeBroker, version: int
) -> None:
    follow(broker)

    found = only(fetch(broker, version, part(), max_wait_ms=60_000, min_bytes=1 << 20))

    if version < 11:
        assert found["error_code"] == 6
    else:
        assert (found["error_code"], found["high_watermark"]) == (0, 1)
        assert len(found["records"]) == SIZE


@pytest.mark.parametrize(("offset", "error"), [(1, 0), (2, 0), (3, 78)])
def test_what_a_follower_does_not_have_may_be_available_later(
    broker: FakeBroker, offset: int, error: int
) -> None:
    follow(broker)
    found = only(fetch(broker, 11, part(0, offset)))
    assert (found["error_code"], found["records"]) == (error, b"")


@pytest.mark.parametrize(("epoch", "error"), [(2, 74), (3, 0), (4, 75)])
def test_a_follower_knows_the_epoch_of_its_leader(
    broker: FakeBroker, epoch: int, error: int
) -> None:
    follow(broker)
    found = only(fetch(broker, 11, part(current_leader_epoch=epoch)))
    assert found["error_code"] == error


@pytest.mark.parametrize(("rack", "nearest"), [("there", 2), ("here", -1), ("", -1)])
def test_a_leader_names_the_replica_in_the_rack_of_the_consumer(rack: str, nearest: int) -> None:
    cluster = Alone(1, "here")
    cluster.reader_racks = {2: b"there"}
    broker = FakeBroker(cluster=cluster)
    broker.create("a", 1)
    fill(broker, 0, 1)
    broker.log("a", 0).is_replicated = True

    found = only(fetch(broker, 11, part(), rack_id=rack))

    assert found.get("preferred_read_replica", -1) == nearest
    assert len(found["records"]) == (SIZE if nearest < 0 else 0)
