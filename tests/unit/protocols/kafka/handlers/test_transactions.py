"""The APIs of transactions: from fields to commands and back, and what a version changes.

The decisions of a transactional id are in its scenarios; a real coordinator answers here.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.transactions.commands import Producer
from broker.core.transactions.other_brokers import OtherBrokers, OwedMarker
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode
from broker.model.limits import (
    MARKERS_PER_TURN,
    NAMES_READ_PER_STEP,
    OFFSETS_COMMITTED_PER_STEP,
    TRANSACTIONS_PER_STEP,
)
from tests.support.fakes import NOW_MS, FakeBroker, LeadsNothing, only

FENCED, OLD_EPOCH, WRONG_STATE, WRONG_PRODUCER, ABORTABLE = 90, 47, 48, 49, 120
UNAVAILABLE = 15


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("t", partitions=2)
    return made


def init(broker: FakeBroker, version: int = 4, **fields: Any) -> Any:
    named = {"transactional_id": "x", "transaction_timeout_ms": 60_000, **fields}
    return broker.ask(22, version, **named)


def add(
    broker: FakeBroker, version: int = 3, epoch: int = 0, /, **topics: list[int]
) -> dict[Any, int]:
    """The error of each partition."""
    answer = broker.ask(
        24,
        version,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1000,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[{"name": name, "partitions": each} for name, each in topics.items()],
    )
    return results(answer["results_by_topic_v3_and_below"])


def add_batched(
    broker: FakeBroker, version: int, partitions: list[int], *, verify_only: bool, epoch: int = 0
) -> dict[Any, int]:
    answer = broker.ask(
        24,
        version,
        transactions=[
            {
                "transactional_id": "x",
                "producer_id": 1000,
                "producer_epoch": epoch,
                "verify_only": verify_only,
                "topics": [{"name": "t", "partitions": partitions}],
            }
        ],
    )
    return results(only(answer["results_by_transaction"])["topic_results"])


def results(topics: Any) -> dict[Any, int]:
    return {
        (topic["name"], each["partition_index"]): each["partition_error_code"]
        for topic in topics
        for each in topic["results_by_partition"]
    }


def end(broker: FakeBroker, version: int, *, epoch: int = 0, committed: bool = True) -> Any:
    return broker.ask(
        26,
        version,
        transactional_id="x",
        producer_id=1000,
        producer_epoch=epoch,
        committed=committed,
    )


# ---- InitProducerId ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_initialising_a_transactional_id_returns_the_next_epoch(
    broker: FakeBroker, version: int
) -> None:
    answers = [init(broker, version) for _ in range(2)]

    assert [each["error_code"] for each in answers] == [0, 0]
    assert [(each["producer_id"], each["producer_epoch"]) for each in answers] == [
        (1000, 0),
        (1000, 1),
    ]


@pytest.mark.parametrize(("transactional_id", "error"), [("", 42), ("polylog-cursus:x", 53)])
@pytest.mark.parametrize("version", [0, 5])
def test_a_missing_transactional_id_or_one_of_another_protocol_is_refused(
    broker: FakeBroker, transactional_id: str, error: int, version: int
) -> None:
    assert init(broker, version, transactional_id=transactional_id)["error_code"] == error


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_not_positive_or_above_the_limit_is_refused(
    broker: FakeBroker, timeout_ms: int
) -> None:
    assert init(broker, transaction_timeout_ms=timeout_ms)["error_code"] == 50


@pytest.mark.parametrize(("version", "error"), [(3, OLD_EPOCH), (4, FENCED), (5, FENCED)])
def test_a_fenced_producer_gets_the_error_of_its_version(
    broker: FakeBroker, version: int, error: int
) -> None:
    init(broker)
    init(broker)

    assert init(broker, version, producer_id=1000, producer_epoch=0)["error_code"] == error


# ---- AddPartitionsToTxn, AddOffsetsToTxn ---------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_and_their_logs_accept_the_producers_batches(
    broker: FakeBroker, version: int
) -> None:
    init(broker)

    assert add(broker, version, t=[0, 1]) == {("t", 0): 0, ("t", 1): 0}
    assert broker.log("t").admits_transaction(1000, 0)


@pytest.mark.parametrize("version", range(4))
def test_one_unknown_partition_prevents_adding_all(broker: FakeBroker, version: int) -> None:
    init(broker)

    assert add(broker, version, t=[0, 7], u=[0]) == {("t", 0): 55, ("t", 7): 3, ("u", 0): 3}
    assert not broker.log("t").admits_transaction(1000, 0)


def test_the_transaction_topic_cannot_be_added(broker: FakeBroker) -> None:
    init(broker)

    assert add(broker, **{TRANSACTIONS_TOPIC: [0]}) == {(TRANSACTIONS_TOPIC, 0): 17}


@pytest.mark.parametrize(("version", "error"), [(1, OLD_EPOCH), (2, FENCED), (3, FENCED)])
def test_a_fenced_producer_cannot_add_partitions(
    broker: FakeBroker, version: int, error: int
) -> None:
    init(broker)

    assert add(broker, version, 7, t=[0]) == {("t", 0): error}


@pytest.mark.parametrize(("version", "error"), [(4, WRONG_STATE), (5, ABORTABLE)])
def test_a_broker_can_verify_which_partitions_are_part_of_a_transaction(
    broker: FakeBroker, version: int, error: int
) -> None:
    init(broker)
    assert add_batched(broker, version, [0], verify_only=False) == {("t", 0): 0}

    assert add_batched(broker, version, [0, 1], verify_only=True) == {("t", 0): 0, ("t", 1): error}


@pytest.mark.parametrize("version", range(5))
def test_adding_a_groups_offsets_adds_the_partition_that_stores_them(
    broker: FakeBroker, version: int
) -> None:
    init(broker)
    named: dict[str, Any] = {"transactional_id": "x", "producer_id": 1000, "group_id": "abc"}

    assert broker.ask(25, version, **named, producer_epoch=0)["error_code"] == 0
    state = only(broker.ask(65, 0, transactional_ids=["x"])["transaction_states"])
    assert state["topics"] == [{"topic": OFFSETS_TOPIC, "partitions": [3]}]
    error = OLD_EPOCH if version < 2 else FENCED
    assert broker.ask(25, version, **named, producer_epoch=5)["error_code"] == error


def test_a_group_without_a_name_is_refused(broker: FakeBroker) -> None:
    init(broker)

    answer = broker.ask(
        25, 3, transactional_id="x", producer_id=1000, producer_epoch=0, group_id=""
    )

    assert answer["error_code"] == 24


@pytest.mark.parametrize("version", range(5))
def test_a_group_whose_offsets_topic_is_missing_has_no_coordinator(
    broker: FakeBroker, version: int
) -> None:
    init(broker)
    broker.broken_partition = 0
    named: dict[str, Any] = {"transactional_id": "x", "producer_id": 1000, "group_id": "abc"}

    assert broker.ask(25, version, **named, producer_epoch=0)["error_code"] == UNAVAILABLE


# ---- EndTxn --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_an_old_producer_keeps_its_epoch_at_the_end(broker: FakeBroker, version: int) -> None:
    init(broker)
    add(broker, t=[0])

    assert end(broker, version)["error_code"] == 0
    assert end(broker, version)["error_code"] == 0  # The answer was lost.
    assert end(broker, version, committed=False)["error_code"] == WRONG_STATE
    assert end(broker, version, epoch=3)["error_code"] == (OLD_EPOCH if version < 2 else FENCED)


def test_a_new_producer_gets_another_epoch_at_the_end(broker: FakeBroker) -> None:
    init(broker)
    add_batched(broker, 5, [0], verify_only=False)

    answer = end(broker, 5)

    assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (0, 1000, 1)


def test_an_end_of_an_unknown_transaction_is_refused(broker: FakeBroker) -> None:
    assert end(broker, 3)["error_code"] == WRONG_PRODUCER


def test_an_end_without_a_transactional_id_is_an_invalid_request(broker: FakeBroker) -> None:
    answer = broker.ask(26, 3, transactional_id="", producer_id=1, producer_epoch=0, committed=True)

    assert answer["error_code"] == 42


# ---- TxnOffsetCommit -----------------------------------------------------------------------------


def commit_offsets(
    broker: FakeBroker, version: int, *, epoch: int = 0, group: str = "abc"
) -> list[int]:
    answer = broker.ask(
        28,
        version,
        transactional_id="x",
        group_id=group,
        producer_id=1000,
        producer_epoch=epoch,
        generation_id_or_member_epoch=4,
        member_id="m",
        topics=[
            {
                "name": "t",
                "partitions": [
                    {"partition_index": index, "committed_offset": 5, "committed_metadata": "why"}
                    for index in (0, 9)
                ],
            }
        ],
    )
    return [each["error_code"] for each in only(answer["topics"])["partitions"]]


@pytest.mark.parametrize("version", range(5))
def test_an_old_producer_commits_offsets_of_a_group_it_has_added(
    broker: FakeBroker, version: int
) -> None:
    init(broker)
    refused = WRONG_STATE if version < 4 else ABORTABLE
    assert commit_offsets(broker, version) == [refused, 3]

    broker.ask(25, 3, transactional_id="x", producer_id=1000, producer_epoch=0, group_id="abc")

    assert commit_offsets(broker, version) == [0, 3]
    command = only(broker.groups.commands)
    assert command.transaction == (1000, 0)
    assert only(command.offsets).metadata == "why"
    assert (command.generation, command.member_id) == ((4, "m") if version >= 3 else (-1, ""))


def test_a_new_producer_adds_a_group_by_committing_its_offsets(broker: FakeBroker) -> None:
    init(broker)

    assert commit_offsets(broker, 5) == [0, 3]


def test_a_fenced_producer_cannot_commit_offsets(broker: FakeBroker) -> None:
    init(broker)

    assert commit_offsets(broker, 5, epoch=7) == [OLD_EPOCH, 3]
    assert commit_offsets(broker, 5, group="") == [24, 3]
    assert broker.groups.commands == []


@pytest.mark.parametrize("version", range(6))
def test_offsets_whose_topic_is_missing_have_no_coordinator(
    broker: FakeBroker, version: int
) -> None:
    init(broker)
    broker.broken_partition = 0

    assert commit_offsets(broker, version) == [UNAVAILABLE, 3]


def test_offsets_written_after_the_end_of_their_transaction_are_refused(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction may end between two parts: what came then would never be decided."""
    init(broker)
    count = 3 * OFFSETS_COMMITTED_PER_STEP
    broker.create("many", count)
    monkeypatch.setattr(broker.transactions, "has", lambda *_: not broker.groups.commands)
    wanted = [{"partition_index": each, "committed_offset": 5} for each in range(count)]

    answer = broker.ask(
        28,
        5,
        transactional_id="x",
        group_id="abc",
        producer_id=1000,
        producer_epoch=0,
        topics=[{"name": "many", "partitions": wanted}],
    )

    assert [len(each.offsets) for each in broker.groups.commands] == [OFFSETS_COMMITTED_PER_STEP]
    codes = [each["error_code"] for each in only(answer["topics"])["partitions"]]
    parts = (0, 51, 51)  # CONCURRENT_TRANSACTIONS
    assert codes == [code for code in parts for _ in range(OFFSETS_COMMITTED_PER_STEP)]


# ---- administration ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_markers_are_written_to_logs_and_groups(broker: FakeBroker, version: int) -> None:
    broker.create(OFFSETS_TOPIC)
    answer = broker.ask(
        27,
        version,
        markers=[
            {
                "producer_id": 7,
                "producer_epoch": 2,
                "transaction_result": False,
                "topics": [
                    {"name": "u", "partition_indexes": [0]},
                    {"name": OFFSETS_TOPIC, "partition_indexes": [0]},
                ],
                "coordinator_epoch": 3,
            }
        ],
    )

    topics = only(answer["markers"])["topics"]
    assert {each["name"]: only(each["partitions"])["error_code"] for each in topics} == {
        "u": 3,
        OFFSETS_TOPIC: 0,
    }
    number, marker = only(broker.groups.commands)
    assert (number, tuple(marker)) == (0, (7, 2, False, 3))


def test_a_transaction_is_described_with_its_partitions(broker: FakeBroker) -> None:
    init(broker)
    add(broker, t=[1, 0])

    known, unknown, empty = broker.ask(65, 0, transactional_ids=["x", "y", ""])[
        "transaction_states"
    ]

    assert known == {
        "error_code": 0,
        "transactional_id": "x",
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 60_000,
        "transaction_start_time_ms": NOW_MS,
        "producer_id": 1000,
        "producer_epoch": 0,
        "topics": [{"topic": "t", "partitions": [0, 1]}],
    }
    assert (unknown["error_code"], empty["error_code"]) == (105, 42)


def test_a_transaction_is_described_once_and_other_tasks_run_after_it(
    broker: FakeBroker,
) -> None:
    ids = [f"x{number % 50}" for number in range(100)]

    states = broker.ask(65, 0, transactional_ids=ids)["transaction_states"]

    assert [each["transactional_id"] for each in states] == ids[:50]
    assert broker.turns(65, 0, transactional_ids=ids) >= 50


def test_other_tasks_run_while_many_markers_are_written(broker: FakeBroker) -> None:
    count = 10 * MARKERS_PER_TURN
    marker = {"producer_id": 7, "producer_epoch": 2, "transaction_result": False}
    topics = [{"name": "u", "partition_indexes": list(range(count))}]

    assert broker.turns(27, 1, markers=[{**marker, "coordinator_epoch": 3, "topics": topics}]) >= 10


def test_markers_of_several_producers_are_written_together(broker: FakeBroker) -> None:
    marker = {"producer_epoch": 2, "transaction_result": False, "coordinator_epoch": 3}
    topics = [{"name": "u", "partition_indexes": [0]}]
    wanted = [{**marker, "producer_id": each, "topics": topics} for each in range(MARKERS_PER_TURN)]

    assert broker.turns(27, 1, markers=wanted) < 10


def test_other_tasks_run_while_many_partitions_are_added(broker: FakeBroker) -> None:
    init(broker)
    parts = list(range(3 * NAMES_READ_PER_STEP))
    one: dict[str, Any] = {"transactional_id": "x", "producer_id": 1000, "producer_epoch": 0}
    few = [{**one, "verify_only": False, "topics": [{"name": "t", "partitions": [0]}]}]
    many = [{**one, "verify_only": False, "topics": [{"name": "t", "partitions": parts}]}]

    assert broker.turns(24, 5, transactions=few * 3 * TRANSACTIONS_PER_STEP) >= 3
    assert broker.turns(24, 5, transactions=many) >= 6  # to name them, and to look them up


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["x", "y"]),
        ({"state_filters": ["Ongoing"]}, ["x"]),
        ({"state_filters": ["Empty", "Nonsense"]}, ["y"]),
        ({"state_filters": ["Nonsense"]}, []),
        ({"producer_id_filters": [1001]}, ["y"]),
        ({"duration_filter": 0}, []),
    ],
)
def test_transactions_are_listed_by_filters(
    broker: FakeBroker, filters: dict[str, Any], expected: list[str]
) -> None:
    init(broker)
    add(broker, t=[0])
    init(broker, transactional_id="y")

    answer = broker.ask(66, 1, **filters)

    assert [each["transactional_id"] for each in answer["transaction_states"]] == expected
    is_unknown = "Nonsense" in filters.get("state_filters", [])
    assert answer["unknown_state_filters"] == (["Nonsense"] if is_unknown else [])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(None, ["x", "y"]), ("", ["x", "y"]), ("[a-x]", ["x"]), ("x|y", ["x", "y"]), ("xy?z", [])],
)
def test_transactions_are_listed_by_a_pattern_that_matches_the_whole_id(
    broker: FakeBroker, pattern: str | None, expected: list[str]
) -> None:
    init(broker)
    init(broker, transactional_id="y")

    answer = broker.ask(66, 2, transactional_id_pattern=pattern)

    assert sorted(each["transactional_id"] for each in answer["transaction_states"]) == expected


def test_an_invalid_pattern_is_an_invalid_regular_expression(broker: FakeBroker) -> None:
    init(broker)

    answer = broker.ask(66, 2, transactional_id_pattern="(")

    assert (answer["error_code"], answer["transaction_states"]) == (128, [])


# ---- partitions and coordinators of other brokers ------------------------------------------------


class Others:
    """The other brokers of a cluster: they lead everything, and answer as a test says."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.asked: list[tuple[Any, ...]] = []
        self.brokers = OtherBrokers(self, self)

    def exists(self, _place: TopicPartition) -> bool:
        return True

    def write(self, owed: OwedMarker) -> None:
        owed.answer(ErrorCode.NONE)

    def close(self) -> None:
        """Do nothing."""

    async def admit(
        self, producer: Producer, places: Sequence[TopicPartition], *, adds: bool
    ) -> list[ErrorCode]:
        self.asked.append((producer, list(places), adds))
        return [self.error] * len(places)

    def marker_written(self, producer_id: int, place: TopicPartition) -> None:
        """Do nothing."""


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def coordinator(others: Others) -> FakeBroker:
    """A broker that coordinates transactions and leads nothing else."""
    made = FakeBroker(leadership=LeadsNothing(), others=others.brokers)
    made.create("t", partitions=2)
    return made


@pytest.fixture
def leader(others: Others) -> FakeBroker:
    """A broker that leads partitions, of data and of offsets, and coordinates no transaction."""
    made = FakeBroker(others=others.brokers)
    made.create("t", partitions=2)
    made.create(OFFSETS_TOPIC, partitions=50)
    made.coordinates = False
    return made


def test_partitions_that_other_brokers_lead_are_added_and_ended(coordinator: FakeBroker) -> None:
    init(coordinator)

    assert add(coordinator, t=[0, 1]) == {("t", 0): 0, ("t", 1): 0}
    assert add_batched(coordinator, 5, [1], verify_only=True) == {("t", 1): 0}
    added = coordinator.ask(
        25, 3, transactional_id="x", producer_id=1000, producer_epoch=0, group_id="abc"
    )
    assert added["error_code"] == 0
    assert end(coordinator, 3)["error_code"] == 0


def test_a_partition_that_no_broker_has_is_not_added(coordinator: FakeBroker) -> None:
    init(coordinator)

    assert add(coordinator, t=[0, 2]) == {("t", 0): 55, ("t", 2): 3}


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_adds_partitions_for_a_producer_with_an_epoch_per_transaction(
    coordinator: FakeBroker, version: int
) -> None:
    init(coordinator)
    assert add_batched(coordinator, version, [0], verify_only=False) == {("t", 0): 0}

    [image] = [each.transactions["x"].image for each in coordinator.transactions.shards()]

    assert image is not None
    assert image.client_version == 2


def test_a_marker_for_a_partition_that_another_broker_leads_is_refused(
    coordinator: FakeBroker,
) -> None:
    marker = {"producer_id": 7, "producer_epoch": 2, "transaction_result": False}
    topics = [{"name": "t", "partition_indexes": [0]}]

    answer = coordinator.ask(27, 2, markers=[{**marker, "coordinator_epoch": 3, "topics": topics}])

    [partition] = only(only(answer["markers"])["topics"])["partitions"]
    assert partition["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER.number


def test_the_transaction_version_of_a_marker_counts(leader: FakeBroker) -> None:
    """With an epoch per transaction, a marker has an epoch above that of its transaction."""
    log = leader.log("t")
    log.producers = [(7, 2, 0, 0, 3, 0)]
    marker = {"producer_id": 7, "producer_epoch": 2, "transaction_result": False}
    topics = [{"name": "t", "partition_indexes": [0]}]
    sent = {**marker, "coordinator_epoch": 3, "topics": topics}

    def write(version: int, **more: int) -> int:
        answer = leader.ask(27, version, markers=[{**sent, **more}])
        return int(only(only(only(answer["markers"])["topics"])["partitions"])["error_code"])

    assert write(2, transaction_version=2) == OLD_EPOCH
    assert write(2, transaction_version=0) == 0
    assert write(1) == 0


@pytest.mark.parametrize("version", [4, 5])
def test_offsets_are_committed_when_the_coordinator_elsewhere_admits_the_producer(
    leader: FakeBroker, others: Others, version: int
) -> None:
    place = leader.transactions.offsets_partition("abc")
    leader.log(*place).admit_transaction(1000, 0)

    assert commit_offsets(leader, version) == [0, 3]

    assert others.asked == [(Producer("x", 1000, 0), [place], version == 5)]
    assert only(leader.groups.commands).transaction == (1000, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ErrorCode.INVALID_TXN_STATE, ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, OLD_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, 14),  # retried without another look for a coordinator
        (ErrorCode.CONCURRENT_TRANSACTIONS, 51),
    ],
)
def test_offsets_that_the_coordinator_elsewhere_denies_are_refused(
    leader: FakeBroker, others: Others, error: ErrorCode, code: int
) -> None:
    others.error = error

    assert commit_offsets(leader, 5) == [code, 3]

    assert leader.groups.commands == []


def test_offsets_of_a_group_with_another_coordinator_are_refused(
    leader: FakeBroker, others: Others
) -> None:
    leader.groups.is_coordinator = False

    assert commit_offsets(leader, 5) == [16, 3]

    assert others.asked == []


def test_a_transactional_id_of_another_coordinator_gets_no_producer_id(
    leader: FakeBroker,
) -> None:
    last = leader.producer_ids.last

    assert init(leader)["error_code"] == 16

    assert leader.producer_ids.last == last
