"""The driver of what a broker gives up: it is told of failed logs, and remembers them."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster import records
from broker.core.cluster.image import Delta
from broker.core.cluster.records import NO_EPOCH, PartitionState
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.model.clock import SystemClock
from broker.server.cluster.failed_logs import GivingUp
from broker.server.cluster.node import Node
from broker.storage.metadata import Put
from tests.support.memory_cluster import MemoryCluster, MemoryMetadata


class Leader:
    """Broker 1, which leads partition 0 of a topic of three replicas."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(1, 2, 3)
        self.topic_id = self.cluster.broker(1).create("t").topic_id
        self.metadata = MemoryMetadata(self.cluster.store)
        self.image = self.metadata.image
        state = PartitionState(1, 4, self.image.brokers[1].epoch, (1, 2, 3), (1, 2), 1)
        key = records.partition_key(self.topic_id, 0)
        self.cluster.store.transact([], [Put(key, records.partition_value(state))])
        self.metadata.catch_up()
        self.log: Any = SimpleNamespace(
            topic_id=self.topic_id, partition=0, is_offline=True, leader_epoch=4
        )
        self.member = SimpleNamespace(
            epoch=self.image.brokers[1].epoch, when_phase_changes=lambda _: None
        )
        member: Any = self.member
        metadata: Any = self.metadata
        metadata.when_changed = self.metadata.callbacks.append
        node = Node(1, metadata, metadata, member, SystemClock(), is_shared=False)
        settings = TopicSettings(self.image, ReplicaSettings)
        self.giving_up = GivingUp(node, lambda *_: self.log, settings)

    @property
    def leader(self) -> int:
        state = self.image.state(self.topic_id, 0)
        assert state is not None
        return state.leader

    def run_until(self, condition: Callable[[], Any]) -> None:
        async def scenario() -> None:
            running = asyncio.ensure_future(self.giving_up.run())
            try:
                async with asyncio.timeout(10):
                    while not condition():
                        await asyncio.sleep(0.001)
            finally:
                running.cancel()
                await asyncio.wait([running])
                await self.giving_up.stop()

        asyncio.run(scenario())


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_another_member_leads_when_a_log_has_failed(leader: Leader) -> None:
    leader.giving_up.log_failed(leader.log)

    leader.run_until(lambda: leader.leader == 2)


def test_a_log_that_failed_before_the_registration_is_given_up_after_it(leader: Leader) -> None:
    epoch, leader.member.epoch = leader.member.epoch, NO_EPOCH
    leader.giving_up.log_failed(leader.log)

    def is_registered_then() -> bool:
        leader.member.epoch = epoch
        leader.giving_up._writing.something.set()
        return leader.leader == 2

    leader.run_until(is_registered_then)


def test_a_log_that_is_ahead_of_the_store_keeps_its_leadership(leader: Leader) -> None:
    leader.log.leader_epoch = 5
    leader.giving_up.log_failed(leader.log)

    leader.run_until(lambda: not leader.giving_up._writing.something.is_set())

    assert leader.leader == 1


def test_deleted_topics_are_forgotten(leader: Leader) -> None:
    leader.giving_up.log_failed(SimpleNamespace(topic_id=b"x" * 16, partition=0))  # type: ignore[arg-type]

    delta = Delta()
    delta.deleted_topics[b"x" * 16] = None  # type: ignore[assignment]
    leader.giving_up._image_changed(delta)

    assert leader.giving_up._failed == {}
