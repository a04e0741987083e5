"""Markers for the partitions that other brokers lead: requests, errors, changes of the leader."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.codec.control_records import Marker
from broker.core.transactions import remote_markers
from broker.core.transactions.other_brokers import OwedMarker
from broker.core.transactions.records import TopicPartition
from broker.core.transactions.remote_markers import RemoteMarkers
from broker.model.errors import ErrorCode, PeerError, Unreachable
from tests.unit.core.transactions.peers import FakePeers, settle, written

HERE = 1
COMMIT, ABORT = Marker(7, 3, True, 5), Marker(8, 0, False, 5)


class Cluster:
    """This broker and others, which lead the partitions of some topics."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {("a", 0): 2, ("a", 1): 2, ("b", 0): 3}
        self.peers = FakePeers()
        self.markers = RemoteMarkers(HERE, self.leaders.get, self.peers)
        self.answers: list[tuple[TopicPartition, ErrorCode]] = []
        self.is_owed = True

    def write(self, name: str, partition: int, marker: Marker = COMMIT, version: int = 2) -> None:
        place = (name, partition)
        self.markers.write(
            OwedMarker(
                place,
                marker,
                version,
                lambda: self.is_owed,
                lambda error: self.answers.append((place, error)),
            )
        )

    @property
    def errors(self) -> list[ErrorCode]:
        return [error for _, error in self.answers]

    def sent(self) -> list[tuple[int, list[TopicPartition]]]:
        """The leader and the partitions of each request."""
        return [
            (
                leader,
                [
                    (topic["name"], each)
                    for marker in body["markers"]
                    for topic in marker["topics"]
                    for each in topic["partition_indexes"]
                ],
            )
            for leader, _, body in self.peers.asked
        ]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(steps)


def test_the_markers_for_one_leader_share_a_request(cluster: Cluster) -> None:
    async def steps() -> None:
        cluster.write("a", 0)
        cluster.write("b", 0)
        cluster.write("a", 1)
        cluster.write("a", 0, ABORT, 0)
        await settle()

    run(steps())

    assert cluster.sent() == [(2, [("a", 0), ("a", 1), ("a", 0)]), (3, [("b", 0)])]
    assert cluster.errors == [ErrorCode.NONE] * 4
    _, api, body = cluster.peers.asked[0]
    assert (api, cluster.peers.versions[0]) == ("WriteTxnMarkers", range(1, 3))
    assert body["markers"][1] == {
        "producer_id": 8,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": "a", "partition_indexes": [0]}],
        "coordinator_epoch": 5,
        "transaction_version": 0,
    }


def test_a_leader_has_one_request_in_flight_and_others_do_not_wait_for_it(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        cluster.peers.held = asyncio.Event()
        cluster.write("a", 0)
        await settle()
        cluster.write("a", 1)
        cluster.write("a", 1, ABORT)
        cluster.write("b", 0)
        await settle()
        assert cluster.sent() == [(2, [("a", 0)]), (3, [("b", 0)])]
        cluster.peers.held.set()
        await settle()

    run(steps())

    assert cluster.sent()[2:] == [(2, [("a", 1), ("a", 1)])]
    assert cluster.errors == [ErrorCode.NONE] * 4


def test_a_request_has_a_limited_number_of_markers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_markers, "REMOTE_MARKERS_PER_REQUEST_MAX", 2)
    cluster.leaders |= {("c", each): 2 for each in range(5)}

    async def steps() -> None:
        for each in range(5):
            cluster.write("c", each)
        await settle()

    run(steps())

    assert [len(places) for _, places in cluster.sent()] == [2, 2, 1]
    assert len(cluster.answers) == 5


@pytest.mark.parametrize("error", [Unreachable("gone"), PeerError("nonsense")])
def test_a_request_that_fails_is_answered_with_an_error_for_each_marker(
    cluster: Cluster, error: Exception
) -> None:
    cluster.peers.answer = lambda *_: error

    async def steps() -> None:
        cluster.write("a", 0)
        cluster.write("a", 1)
        await settle()
        cluster.peers.answer = lambda _, body: written(body)
        cluster.write("a", 0)
        await settle()

    run(steps())

    assert cluster.errors == [ErrorCode.NETWORK_EXCEPTION] * 2 + [ErrorCode.NONE]


def test_a_partition_without_an_answer_is_not_written(cluster: Cluster) -> None:
    cluster.peers.answer = lambda *_: {"markers": []}

    async def steps() -> None:
        cluster.write("a", 0)
        await settle()

    run(steps())

    assert cluster.errors == [ErrorCode.NETWORK_EXCEPTION]


def test_a_marker_whose_leader_changes_while_it_waits_is_not_sent_to_the_old_one(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        cluster.peers.held = asyncio.Event()
        cluster.write("a", 0)
        await settle()
        cluster.write("a", 1)
        cluster.leaders["a", 1] = 3
        cluster.peers.held.set()
        await settle()

    run(steps())

    assert cluster.sent() == [(2, [("a", 0)])]
    assert cluster.answers[1] == (("a", 1), ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_marker_that_is_not_owed_any_more_is_not_sent(cluster: Cluster) -> None:
    async def steps() -> None:
        cluster.peers.held = asyncio.Event()
        cluster.write("a", 0)
        await settle()
        cluster.write("a", 1)
        cluster.is_owed = False
        cluster.peers.held.set()
        await settle()

    run(steps())

    assert cluster.sent() == [(2, [("a", 0)])]
    assert cluster.answers[1] == (("a", 1), ErrorCode.NOT_COORDINATOR)


# The error of a leader and the one that is passed on. A leader that does not know the topic yet is
# asked again: only the image of the coordinator's broker decides that a topic was deleted.
ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


@pytest.mark.parametrize(("answered", "passed_on"), ERRORS.items(), ids=lambda each: each.name)
def test_an_error_of_the_leader_is_passed_on_except_that_it_does_not_know_the_topic(
    cluster: Cluster, answered: ErrorCode, passed_on: ErrorCode
) -> None:
    cluster.peers.answer = lambda _, body: written(body, answered)

    async def steps() -> None:
        cluster.write("a", 0)
        await settle()

    run(steps())

    assert cluster.errors == [passed_on]


def test_different_markers_of_one_producer_are_not_in_one_request(cluster: Cluster) -> None:
    """The answer names a marker by the producer id alone."""
    newer = COMMIT._replace(coordinator_epoch=6)

    async def steps() -> None:
        cluster.write("a", 0)
        cluster.write("a", 0, newer)
        cluster.write("a", 1, newer)
        await settle()

    run(steps())

    assert [len(places) for _, places in cluster.sent()] == [1, 2]
    assert cluster.errors == [ErrorCode.NONE] * 3


@pytest.mark.parametrize("leader", [-1, HERE])
def test_a_partition_that_nobody_else_leads_is_tried_again_later(
    cluster: Cluster, leader: int
) -> None:
    cluster.leaders["a", 0] = leader

    cluster.write("a", 0)

    assert cluster.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert cluster.markers.exists(("a", 0))
    assert not cluster.markers.exists(("z", 0))


def test_nothing_is_sent_after_the_close(cluster: Cluster) -> None:
    async def steps() -> None:
        cluster.peers.held = asyncio.Event()
        cluster.write("a", 0)
        await settle()
        cluster.write("a", 1)
        cluster.markers.close()
        cluster.peers.held.set()
        await settle()

    run(steps())

    assert cluster.sent() == [(2, [("a", 0)])]
    assert cluster.answers == []
