"""What the drivers of a broker have begun ends with them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster import records
from broker.core.cluster.records import PartitionState, TopicRecord
from broker.core.service import Service
from broker.model.clock import SystemClock
from broker.server.cluster.handover import HandingOver
from broker.server.cluster.logs import Logs
from broker.server.cluster.metadata import ClusterMetadata
from broker.storage.metadata import Put, topic_key
from tests.support.memory_cluster import MemoryCluster, MemoryMetadata

_TOPIC_ID = bytes(range(16))


class SilentStore:
    """A store that answers nothing."""

    async def transact(self, _guards: object, _operations: object) -> int:
        await asyncio.Event().wait()
        return 0


class Served:
    """Partitions whose logs take for ever to be closed."""

    def is_served(self, _topic_id: bytes, _partition: int) -> bool:
        return True

    async def stop_serving(self, _topic_id: bytes, _partition: int) -> None:
        await asyncio.Event().wait()


def node(broker_id: int, epoch: int, known: MemoryMetadata) -> Any:
    member = SimpleNamespace(epoch=epoch, lease_id=1, when_phase_changes=lambda _: None)
    known.when_changed = known.callbacks.append  # type: ignore[attr-defined]
    return SimpleNamespace(
        broker_id=broker_id,
        store=SilentStore(),
        metadata=known,
        member=member,
        clock=SystemClock(),
        is_shared=True,
    )


def draining() -> tuple[MemoryMetadata, int]:
    """Return the metadata and epoch of broker 1, which hands a partition over to broker 2."""
    cluster = MemoryCluster(1, 2)
    known = MemoryMetadata(cluster.store)
    epoch = known.image.brokers[1].epoch
    topic = TopicRecord(_TOPIC_ID, 1, ((1,),), {1: epoch})
    state = PartitionState(1, 1, epoch, (1,), (1,), 1, 2)
    key = records.partition_key(_TOPIC_ID, 0)
    puts = [
        Put(topic_key("t"), records.topic_value(topic)),
        Put(key, records.partition_value(state)),
    ]
    assert cluster.store.transact([], puts) is not None
    known.catch_up()
    return known, epoch


async def tasks_left_by(service: Service) -> set[str]:
    """Return the tasks that exist once a service that has begun something has stopped."""
    running = asyncio.ensure_future(service.run())
    for _ in range(50):
        await asyncio.sleep(0)
    begun = asyncio.all_tasks() - {asyncio.current_task(), running}
    assert begun, "it has begun nothing"
    running.cancel()
    await asyncio.wait([running])
    await service.stop()
    return {repr(each) for each in begun if not each.done()}


def test_a_log_that_is_closed_for_a_hand_over_is_left_alone_when_the_broker_stops() -> None:
    async def scenario() -> None:
        known, epoch = draining()
        assert await tasks_left_by(HandingOver(node(1, epoch, known), Served())) == set()

    asyncio.run(scenario())


def test_a_partition_that_has_no_successor_any_more_is_not_stopped_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        known, epoch = draining()
        stops = 0

        async def stop_serving(_topic_id: bytes, _partition: int) -> None:
            nonlocal stops
            stops += 1
            assert stops < 10, "it is stopped again and again, and nothing else can run"
            key = records.partition_key(_TOPIC_ID, 0)
            state = known.image.state(_TOPIC_ID, 0)
            assert state is not None
            kept = records.partition_value(state._replace(successor=records.NO_LEADER))
            known.store.transact([], [Put(key, kept)])
            known.catch_up()

        served = Served()
        monkeypatch.setattr(served, "stop_serving", stop_serving)
        handing_over = HandingOver(node(1, epoch, known), served)
        running = asyncio.ensure_future(handing_over.run())
        for _ in range(50):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        await handing_over.stop()
        assert stops == 1

    asyncio.run(scenario())


def test_a_transaction_of_the_hand_over_ends_with_it() -> None:
    async def scenario() -> None:
        known, epoch = draining()
        served = Served()
        served.is_served = lambda *_: False  # type: ignore[method-assign]
        assert await tasks_left_by(HandingOver(node(1, epoch, known), served)) == set()

    asyncio.run(scenario())


def test_a_partition_that_is_handed_over_is_followed_without_the_others_of_its_topic() -> None:
    followed: list[tuple[str, object]] = []

    class Topics:
        def by_id(self, _topic_id: bytes) -> object:
            return SimpleNamespace(name="t", log=lambda _: "a log")

        async def follow(self, name: str, partitions: object = None) -> None:
            followed.append((name, partitions))

    asyncio.run(Logs(Topics()).stop_serving(_TOPIC_ID, 7))  # type: ignore[arg-type]

    assert followed == [("t", (7,))]


def test_a_request_that_is_cancelled_leaves_nothing_that_waits_for_the_image() -> None:
    async def scenario() -> None:
        metadata = ClusterMetadata(SilentStore())  # type: ignore[arg-type]
        waiting = asyncio.ensure_future(metadata.reached(5, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert metadata._waiting == []

    asyncio.run(scenario())
