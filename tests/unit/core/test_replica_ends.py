"""How much each replica has is asked before an unclean election."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from broker.codec import Fields
from broker.core.cluster.writes import Item
from broker.core.replica_ends import NEWEST_EPOCH, End, ReplicaEnds, in_order
from broker.model.errors import Unreachable
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP
from tests.unit.core.cluster.clusters import Cluster


class Brokers:
    """The other brokers: what they answer, by partition; those without an answer are silent."""

    def __init__(self, partitions: int = 1) -> None:
        self.cluster = Cluster(3)
        self.topic_id = self.cluster.create("t", *[(1, 2, 3)] * partitions)
        self.items: list[Item] = [(self.topic_id, each) for each in range(partitions)]
        self.ends: dict[int, dict[int, End]] = {}
        self.asked: list[int] = []
        self.own: Any = SimpleNamespace(
            leader_epoch=3, log_end_offset=30, is_loading=False, is_offline=False
        )

    async def call(
        self, broker_id: int, api: str, versions: range, body: Fields, *, timeout_seconds: float
    ) -> tuple[int, dict[str, Any]]:
        assert (api, list(versions), body["replica_id"]) == ("OffsetForLeaderEpoch", [4], 1)
        assert timeout_seconds > 0
        self.asked.append(broker_id)
        if broker_id not in self.ends:
            raise Unreachable("planted")
        (topic,) = body["topics"]
        return 4, {
            "topics": [
                {"topic": topic["topic"], "partitions": self._rows(broker_id, topic)},
                {"topic": "not asked for", "partitions": []},
            ]
        }

    def _rows(self, broker_id: int, topic: Mapping[str, Any]) -> list[dict[str, int]]:
        rows = []
        for each in topic["partitions"]:
            assert each["leader_epoch"] == NEWEST_EPOCH
            end = self.ends[broker_id].get(each["partition"])
            epoch, offset = end or (-1, -1)
            rows.append(
                {
                    "partition": each["partition"],
                    "error_code": 0 if end else 9,
                    "leader_epoch": epoch,
                    "end_offset": offset,
                }
            )
        return rows

    def found(self) -> dict[Item, dict[int, End]]:
        ends = ReplicaEnds(1, self.cluster.image, lambda *_: self.own, self)
        return asyncio.run(ends.of(self.items))


def test_all_live_replicas_are_asked() -> None:
    brokers = Brokers()
    brokers.ends = {2: {0: End(4, 20)}, 3: {0: End(4, 25)}}

    assert brokers.found() == {brokers.items[0]: {1: (3, 30), 2: (4, 20), 3: (4, 25)}}

    brokers.cluster.fail(3)
    assert brokers.found() == {brokers.items[0]: {1: (3, 30), 2: (4, 20)}}


def test_a_broker_that_does_not_answer_is_not_known_and_is_not_asked_again() -> None:
    brokers = Brokers(CLUSTER_PARTITIONS_PER_STEP + 1)
    brokers.ends = {2: {each: End(0, each) for each in range(len(brokers.items))}}

    found = brokers.found()

    assert sorted(brokers.asked) == [2, 2, 3]
    assert [found[item][2].offset for item in brokers.items] == list(range(len(brokers.items)))
    assert all(3 not in ends for ends in found.values())


@pytest.mark.parametrize("state", ["is_loading", "is_offline"])
def test_a_log_that_cannot_be_used_is_not_known(state: str) -> None:
    brokers = Brokers()
    brokers.ends = {2: {}, 3: {}}
    setattr(brokers.own, state, True)

    assert brokers.found() == {}
    brokers.own = None
    assert brokers.found() == {}


def test_unknown_topics_have_no_replicas() -> None:
    brokers = Brokers()
    brokers.items = [(bytes(16), 0)]

    assert brokers.found() == {}
    assert brokers.asked == []


def test_a_later_epoch_is_more_than_a_longer_log() -> None:
    ends = {1: End(3, 30), 2: End(4, 20), 3: End(4, 25)}

    assert in_order((1, 2, 3), ends) == [3, 2, 1]
    assert in_order((4, 1, 2, 5), ends) == [2, 1, 4, 5]
    assert in_order((2, 1), {}) == [2, 1]
