"""ListOffsets (KIP-79)."""

from typing import Any

import pytest

from broker.model.limits import OFFSETS_FOUND_PER_STEP
from tests.support.fakes import FakeBroker, batch, only

LATEST, EARLIEST, MAX_TIMESTAMP, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6


@pytest.fixture
def broker() -> FakeBroker:
    """Topic "a" with offsets 0-1 at time 100, 2 at 300, 3 at 200."""
    broker = FakeBroker()
    broker.create("a", 2)
    for count, timestamp in ((2, 100), (1, 300), (1, 200)):
        broker.log("a").append(batch(count, timestamp=timestamp))
    return broker


def find(broker: FakeBroker, version: int, timestamp: int, **more: Any) -> dict[str, Any]:
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1, **more}
    topics = [{"name": "a", "partitions": [wanted]}]
    answer = broker.ask(2, version, replica_id=-1, topics=topics)
    return only(only(answer["topics"])["partitions"])


def place(answer: dict[str, Any]) -> tuple[int, int]:
    assert answer["error_code"] == 0
    return answer["offset"], answer["timestamp"]


@pytest.mark.parametrize("version", range(1, 12))
def test_latest_and_earliest_return_an_offset_without_a_timestamp(
    broker: FakeBroker, version: int
) -> None:
    assert place(find(broker, version, LATEST)) == (4, -1)
    assert place(find(broker, version, EARLIEST)) == (0, -1)


def test_latest_is_the_high_watermark_not_the_log_end(broker: FakeBroker) -> None:
    broker.log("a").is_held = True
    broker.log("a").append(batch())

    assert place(find(broker, 7, LATEST)) == (4, -1)


@pytest.mark.parametrize(("timestamp", "found"), [(0, (0, 100)), (101, (2, 300)), (300, (2, 300))])
def test_a_timestamp_returns_the_first_record_at_or_after_it(
    broker: FakeBroker, timestamp: int, found: tuple[int, int]
) -> None:
    assert place(find(broker, 1, timestamp)) == found


def test_a_timestamp_after_every_record_finds_nothing_and_is_not_an_error(
    broker: FakeBroker,
) -> None:
    assert place(find(broker, 1, 301)) == (-1, -1)


def test_a_record_above_the_high_watermark_is_not_found(broker: FakeBroker) -> None:
    broker.log("a").is_held = True
    broker.log("a").append(batch(timestamp=900))

    assert place(find(broker, 7, 400)) == (-1, -1)


def test_minus_3_is_the_record_with_the_largest_timestamp(broker: FakeBroker) -> None:
    assert place(find(broker, 7, MAX_TIMESTAMP)) == (2, 300)


def test_without_tiered_storage_every_record_is_local(broker: FakeBroker) -> None:
    assert place(find(broker, 8, LOCAL)) == (0, -1)
    assert place(find(broker, 9, TIERED)) == (-1, -1)
    assert place(find(broker, 11, PENDING)) == (-1, -1)


@pytest.mark.parametrize(
    ("version", "timestamp"),
    [(6, MAX_TIMESTAMP), (7, LOCAL), (8, TIERED), (10, PENDING), (11, -7), (1, -(1 << 63))],
)
def test_a_special_timestamp_above_the_requests_version_is_unsupported(
    broker: FakeBroker, version: int, timestamp: int
) -> None:
    assert find(broker, version, timestamp)["error_code"] == 35


def test_the_returned_leader_epoch_is_that_of_the_record(broker: FakeBroker) -> None:
    broker.log("a").epochs = [(0, 2), (3, 3)]
    broker.log("a").leader_epoch = 5

    epochs = [find(broker, 4, time)["leader_epoch"] for time in (EARLIEST, 100, 300, LATEST)]

    assert epochs == [0, 0, 3, 5]


def test_leader_epochs_are_checked(broker: FakeBroker) -> None:
    broker.log("a").leader_epoch = 4

    codes = [
        find(broker, 4, LATEST, current_leader_epoch=epoch)["error_code"] for epoch in (3, 4, 5)
    ]

    assert codes == [74, 0, 75]


def test_unknown_topics_and_partitions_are_error_3(broker: FakeBroker) -> None:
    topics = [
        {"name": "b", "partitions": [{"partition_index": 0, "timestamp": LATEST}]},
        {"name": "a", "partitions": [{"partition_index": 2, "timestamp": LATEST}]},
    ]

    answer = broker.ask(2, 7, topics=topics)

    assert [only(each["partitions"])["error_code"] for each in answer["topics"]] == [3, 3]


def test_a_partition_named_twice_is_an_invalid_request_answered_once(broker: FakeBroker) -> None:
    wanted = {"partition_index": 0, "timestamp": LATEST}
    other = {"partition_index": 1, "timestamp": LATEST}
    topics = [{"name": "a", "partitions": [wanted, other, wanted]}]

    answer = only(broker.ask(2, 3, topics=topics)["topics"])

    codes = [(each["partition_index"], each["error_code"]) for each in answer["partitions"]]
    assert codes == [(0, 42), (1, 0)]


def test_a_loading_partition_has_no_offsets_to_return() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.log("a").is_loading = True

    partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    answer = broker.ask(2, 7, topics=[{"name": "a", "partitions": partitions}])

    assert only(only(answer["topics"])["partitions"])["error_code"] == 6


def test_other_tasks_run_while_many_partitions_are_looked_up(broker: FakeBroker) -> None:
    count = 3 * OFFSETS_FOUND_PER_STEP
    parts = [{"partition_index": number, "timestamp": 150} for number in range(count)]

    assert broker.turns(2, 7, replica_id=-1, topics=[{"name": "a", "partitions": parts}]) >= 3


# ---- partitions with replicas on other brokers ---------------------------------------------------


@pytest.fixture
def elected(broker: FakeBroker) -> FakeBroker:
    """Broker that has been elected, and does not know yet what its replicas have of its log."""
    log = broker.log("a")
    log.is_replicated = log.is_held = True
    log.is_caught_up_leader = False
    log.append(batch(1, timestamp=400))
    return broker


@pytest.mark.parametrize(("version", "error"), [(4, 5), (5, 78), (11, 78)])
@pytest.mark.parametrize("timestamp", [LATEST, 400])
def test_an_end_that_may_be_before_one_that_was_named_is_not_available(
    elected: FakeBroker, version: int, error: int, timestamp: int
) -> None:
    assert find(elected, version, timestamp)["error_code"] == error


def test_offsets_below_the_end_are_available_meanwhile(elected: FakeBroker) -> None:
    assert place(find(elected, 7, EARLIEST)) == (0, -1)
    assert place(find(elected, 7, 101)) == (2, 300)


def test_the_end_for_a_replica_is_that_of_the_log(elected: FakeBroker) -> None:
    wanted = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": -1}
    topics = [{"name": "a", "partitions": [wanted]}]
    answer = elected.ask(2, 7, replica_id=2, topics=topics)

    assert place(only(only(answer["topics"])["partitions"])) == (5, -1)
