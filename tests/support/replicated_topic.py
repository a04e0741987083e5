"""Broker 1 of three in one process; it leads the only partition of the topic "t", with replicas."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.core.cluster import records
from broker.storage.metadata import Put
from tests.support.memory_cluster import MemoryCluster, catch_up

if TYPE_CHECKING:
    from tests.support.fakes import FakeBroker


class ReplicatedTopic:
    """What a protocol's test changes: the state of the partition, and what its followers have."""

    def __init__(self) -> None:
        """Start the brokers; the protocol under test creates the topic."""
        self.cluster = MemoryCluster(1, 2, 3)
        self.fakes: FakeBroker = self.cluster.broker(1)

    @property
    def image(self) -> Any:
        """The cluster as broker 1 knows it."""
        return self.fakes.metadata.image

    @property
    def topic_id(self) -> bytes:
        """The id of the topic."""
        topic_id: bytes = self.image.topic_ids["t"]
        return topic_id

    @property
    def log(self) -> Any:
        """The log of broker 1, as the leader's."""
        topic = self.fakes.topics.get("t")
        assert topic is not None
        return topic.logs[0]

    def led_by(self, broker_id: int) -> dict[str, int]:
        """Return the fields of a state that a broker leads."""
        return {"leader": broker_id, "broker_epoch": self.image.brokers[broker_id].epoch}

    def place_on(self, *replicas: int, leader: int = 1) -> None:
        """Let these be the replicas of the partition, all of them in sync."""
        self.put(replicas=replicas, isr=replicas, **self.led_by(leader))

    def put(self, **changed: Any) -> None:
        """Change the state of the partition, as its leader or a controller does."""
        state = self.image.state(self.topic_id, 0)._replace(**changed)
        put = Put(records.partition_key(self.topic_id, 0), records.partition_value(state))
        self.cluster.store.transact([], [put])
        catch_up(self.fakes)
        asyncio.run(self.fakes.topics.follow("t"))

    async def hand_over(self, broker_id: int) -> None:
        """Let a broker lead as soon as it is named as the successor."""
        while self.image.state(self.topic_id, 0).successor != broker_id:
            await asyncio.sleep(0.001)
        state = self.image.state(self.topic_id, 0)
        led = {**self.led_by(broker_id), "leader_epoch": state.leader_epoch + 1}
        moved = state._replace(successor=records.NO_LEADER, **led)
        put = Put(records.partition_key(self.topic_id, 0), records.partition_value(moved))
        self.cluster.store.transact([], [put])
        catch_up(self.fakes)

    def hold_followers(self) -> None:
        """Let followers have nothing that is written from now on."""
        self.log.is_held = True

        def synced(_: int, callback: Callable[[bool], None]) -> None:
            callback(True)

        self.log.when_kept = synced
