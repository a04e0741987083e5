"""What a leader asks the coordinator of another broker before it admits a producer."""

import asyncio
from typing import Any

import pytest

from broker.core.transactions.commands import Producer
from broker.core.transactions.records import TopicPartition
from broker.core.transactions.remote_admission import RemoteAdmission
from broker.model.errors import ErrorCode, PeerError, Unreachable
from broker.model.limits import CONCURRENT_TRANSACTION_RETRY_MS, CONCURRENT_TRANSACTION_WAIT_MS
from tests.support.memory_log import ClientLog
from tests.unit.core.transactions.peers import FakePeers, settle, verified

HERE, COORDINATOR = 1, 2
FIRST, SECOND = ("a", 0), ("a", 1)
PRODUCER = Producer("x", 7, 3)
NONE = ErrorCode.NONE


class Leader:
    """A broker that leads two partitions."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, ClientLog] = {FIRST: ClientLog(), SECOND: ClientLog()}
        self.coordinator: int | None = COORDINATOR
        self.peers = FakePeers()
        self.peers.answer = lambda _, body: verified(body)
        self.slept: list[float] = []
        self.admission = RemoteAdmission(
            HERE, self.logs.get, lambda _: self.coordinator, self.peers, self.sleep
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def admit(self, *places: TopicPartition, adds: bool = False) -> list[ErrorCode]:
        return asyncio.run(self.admission.admit(PRODUCER, places, adds=adds))

    @property
    def admitted(self) -> list[TopicPartition]:
        return [place for place, log in self.logs.items() if log.admits_transaction(7, 3)]


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_partitions_that_an_older_producer_has_added_are_verified(leader: Leader) -> None:
    assert leader.admit(FIRST, SECOND) == [NONE, NONE]

    assert leader.admitted == [FIRST, SECOND]
    assert leader.peers.versions == [range(4, 6)]
    assert leader.peers.asked == [
        (
            COORDINATOR,
            "AddPartitionsToTxn",
            {
                "transactions": [
                    {
                        "transactional_id": "x",
                        "producer_id": 7,
                        "producer_epoch": 3,
                        "verify_only": True,
                        "topics": [{"name": "a", "partitions": [0, 1]}],
                    }
                ]
            },
        )
    ]


def test_partitions_of_a_newer_producer_are_added(leader: Leader) -> None:
    assert leader.admit(FIRST, adds=True) == [NONE]

    [(_, _, body)] = leader.peers.asked
    assert body["transactions"][0]["verify_only"] is False
    assert leader.peers.versions == [range(5, 6)]


@pytest.mark.parametrize(
    ("answered", "error"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),  # of version 5
        (ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_partition_that_the_coordinator_denies_is_not_admitted(
    leader: Leader, answered: ErrorCode, error: ErrorCode
) -> None:
    leader.peers.answer = lambda _, body: verified(body, answered)

    assert leader.admit(FIRST) == [error]

    assert leader.admitted == []


def test_an_error_of_the_whole_request_is_that_of_every_partition(leader: Leader) -> None:
    leader.peers.answer = lambda *_: {"error_code": 31, "results_by_transaction": []}

    assert leader.admit(FIRST, SECOND) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


@pytest.mark.parametrize("error", [Unreachable("gone"), PeerError("nonsense")])
def test_nothing_is_admitted_while_the_coordinator_cannot_be_reached(
    leader: Leader, error: Exception
) -> None:
    leader.peers.answer = lambda *_: error

    assert leader.admit(FIRST) == [ErrorCode.NETWORK_EXCEPTION]

    assert leader.admitted == []


@pytest.mark.parametrize("coordinator", [None, -1, HERE])
def test_without_a_coordinator_elsewhere_nobody_is_asked(
    leader: Leader, coordinator: int | None
) -> None:
    leader.coordinator = coordinator

    assert leader.admit(FIRST) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    assert leader.peers.asked == []


def marked_while_asking(leader: Leader, producer_id: int, place: TopicPartition) -> Any:
    async def run() -> list[ErrorCode]:
        leader.peers.held = asyncio.Event()
        asking = asyncio.ensure_future(leader.admission.admit(PRODUCER, [FIRST], adds=False))
        await settle()
        leader.admission.marker_written(producer_id, place)
        leader.peers.held.set()
        return await asking

    return asyncio.run(run())


def test_a_marker_that_is_written_before_the_answer_arrives_revokes_it(leader: Leader) -> None:
    """A batch would begin a transaction in the log that no marker ends."""
    assert marked_while_asking(leader, 7, FIRST) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert leader.admitted == []

    leader.peers.held = None
    assert leader.admit(FIRST) == [NONE]


@pytest.mark.parametrize(("producer_id", "place"), [(8, FIRST), (7, SECOND)])
def test_a_marker_of_another_producer_or_partition_revokes_nothing(
    leader: Leader, producer_id: int, place: TopicPartition
) -> None:
    assert marked_while_asking(leader, producer_id, place) == [NONE]


def test_an_addition_is_repeated_while_the_last_transaction_ends(leader: Leader) -> None:
    left = [ErrorCode.CONCURRENT_TRANSACTIONS, NONE]
    leader.peers.answer = lambda _, body: verified(body, left.pop(0))

    assert leader.admit(FIRST, adds=True) == [NONE]

    assert leader.slept == [CONCURRENT_TRANSACTION_RETRY_MS / 1000]


def test_an_addition_is_not_repeated_for_ever(leader: Leader) -> None:
    leader.peers.answer = lambda _, body: verified(body, ErrorCode.CONCURRENT_TRANSACTIONS)

    assert leader.admit(FIRST, adds=True) == [ErrorCode.CONCURRENT_TRANSACTIONS]

    assert sum(leader.slept) * 1000 == pytest.approx(CONCURRENT_TRANSACTION_WAIT_MS)


def test_a_partition_that_is_not_led_any_more_is_not_admitted(leader: Leader) -> None:
    del leader.logs[FIRST]
    leader.logs[SECOND].is_loading = True

    assert leader.admit(FIRST, SECOND) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
