"""Brokers of one cluster on a real store: they register, one is the controller, leaders move."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.core.cluster import records, topics
from broker.core.cluster.controller import ControllerSettings
from broker.core.cluster.membership import Membership
from broker.core.cluster.records import (
    NO_LEADER,
    BrokerState,
    Endpoint,
    PartitionState,
    Registration,
)
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.core.replica_ends import End
from broker.model.clock import SystemClock
from broker.server.cluster.controller import Office
from broker.server.cluster.handover import HandingOver
from broker.server.cluster.member import Member
from broker.server.cluster.metadata import ClusterMetadata
from broker.server.cluster.node import Node
from broker.storage.metadata import Absent, Delete, Put
from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
_TOPIC_ID = bytes(range(16))
_SESSION_SECONDS = 5
_MARGIN_SECONDS = 1.0


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member; each test has a prefix of its own."""
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    yield running
    running.close()


class Broker:
    """One broker's drivers; it serves what the image says at once."""

    def __init__(self, etcd: Etcd, prefix: str, broker_id: int) -> None:
        self.store = EtcdMetaStore(Gateway(etcd.endpoints), prefix.encode())
        self.metadata = ClusterMetadata(self.store)
        registration = Registration(
            "", (Endpoint("", "127.0.0.1", 9092),), None, f"h{broker_id}", BrokerState.RUNNING
        )
        membership = Membership(broker_id, registration, f"p{broker_id}", _MARGIN_SECONDS)
        self.member = Member(self.store, membership, _SESSION_SECONDS)
        self.node = Node(
            broker_id, self.store, self.metadata, self.member, SystemClock(), is_shared=False
        )
        self.stopped: set[tuple[bytes, int]] = set()
        self.office = Office(self.node, lambda: ControllerSettings(is_shared=False))
        self.handing_over = HandingOver(self.node, self)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.metadata.load()
        for each in (self.metadata, self.member, self.office, self.handing_over):
            self._tasks.append(asyncio.ensure_future(each.run()))

    async def crash(self) -> None:
        """End without a word: the lease expires."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self.store.close()

    def is_served(self, topic_id: bytes, partition: int) -> bool:
        state = self.metadata.image.state(topic_id, partition)
        led = state is not None and state.leader == self.node.broker_id
        return led and (topic_id, partition) not in self.stopped

    async def stop_serving(self, topic_id: bytes, partition: int) -> None:
        await asyncio.sleep(0.01)
        self.stopped.add((topic_id, partition))

    def state(self, partition: int) -> PartitionState | None:
        return self.metadata.image.state(_TOPIC_ID, partition)


@asynccontextmanager
async def _cluster(etcd: Etcd, prefix: str, count: int) -> AsyncIterator[list[Broker]]:
    brokers = [Broker(etcd, prefix, number + 1) for number in range(count)]
    try:
        for broker in brokers:
            await broker.start()
        await _until(lambda: all(len(each.metadata.image.brokers) == count for each in brokers))
        await _until(lambda: all(each.metadata.image.controller for each in brokers))
        yield brokers
    finally:
        for broker in brokers:
            await broker.crash()


async def _until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def _create(broker: Broker, *replicas: tuple[int, ...]) -> None:
    transaction = topics.creation(broker.metadata.image, "t", _TOPIC_ID, replicas)
    assert await broker.metadata.transact(*transaction) is not None


def _run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_all_brokers_see_each_other_and_one_controller(etcd: Etcd) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/see/", 3) as brokers:
            controllers = {each.metadata.image.controller for each in brokers}
            assert len(controllers) == 1
            assert all(each.member.may_serve for each in brokers)

    _run(scenario())


def test_a_topic_created_by_one_broker_is_known_to_all(etcd: Etcd) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/topic/", 3) as brokers:
            await _create(brokers[2], (1, 2), (2, 3), (3, 1))
            assert brokers[2].state(0) is not None, "the image had it when `transact` returned"
            await _until(lambda: all(each.state(2) is not None for each in brokers))
            leaders = [state.leader for n in range(3) if (state := brokers[0].state(n))]
            assert leaders == [1, 2, 3]

    _run(scenario())


def test_another_replica_leads_when_a_broker_has_crashed(etcd: Etcd) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/crash/", 3) as brokers:
            await _create(brokers[0], (1, 2), (1, 3), (2, 1), (1,))
            await brokers[0].crash()

            def leaders() -> list[int]:
                states = [brokers[1].state(partition) for partition in range(4)]
                return [state.leader for state in states if state is not None]

            await _until(lambda: leaders() == [2, 3, 2, NO_LEADER])
            again = Broker(etcd, "/crash/", 1)
            brokers.append(again)
            await again.start()
            await _until(lambda: leaders()[3] == 1)
            alone = brokers[1].state(3)
            assert alone is not None
            assert (alone.leader_epoch, alone.broker_epoch) == (2, again.member.epoch)

    _run(scenario())


def test_a_draining_broker_stops_to_serve_before_its_successor_leads(etcd: Etcd) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/drain/", 2) as brokers:
            await _create(brokers[0], *[(1, 2)] * 50)
            brokers[0].member.drain()

            def moved() -> int:
                states = (brokers[1].state(partition) for partition in range(50))
                led = [n for n, state in enumerate(states) if state and state.leader == 2]
                assert all((_TOPIC_ID, n) in brokers[0].stopped for n in led)
                return len(led)

            await _until(lambda: moved() == 50)
            brokers[0].member.leave()
            await _until(lambda: list(brokers[1].metadata.image.brokers) == [2])

    _run(scenario())


def test_the_controller_asks_the_replicas_before_an_unclean_election(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only member of the ISR has crashed; of the others the second one has more."""
    asked: list[Any] = []
    make = Office

    class Ends:
        async def of(self, items: Sequence[tuple[bytes, int]]) -> dict[Any, dict[int, End]]:
            asked.extend(items)
            return {items[0]: {1: End(0, 3), 2: End(0, 7)}}

    def office(node: Node, *_: object) -> Office:
        defaults = ReplicaSettings(is_unclean_allowed=True)
        settings = ControllerSettings(is_shared=False, defaults=defaults)
        ends: Any = Ends()
        return make(node, lambda: settings, ends=ends)

    async def scenario() -> None:
        async with _cluster(etcd, "/unclean/", 3) as brokers:
            await _create(brokers[0], (3, 1, 2))
            state = brokers[0].state(0)
            assert state is not None
            alone = state._replace(isr=(3,), partition_epoch=1)
            put = Put(records.partition_key(_TOPIC_ID, 0), records.partition_value(alone))
            assert await brokers[0].metadata.transact([], [put]) is not None
            await brokers[2].crash()
            await _until(lambda: (found := brokers[0].state(0)) and found.leader == 2)
        assert asked[0] == (_TOPIC_ID, 0)

    monkeypatch.setattr(f"{__name__}.Office", office)
    _run(scenario())


def test_a_second_broker_with_the_same_id_waits(etcd: Etcd) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/same/", 1) as brokers:
            other = Broker(etcd, "/same/", 1)
            other.member._membership._process = "another"
            brokers.append(other)
            await other.start()
            await _until(lambda: other.member._membership.blocked_by is not None)
            assert not other.member.may_serve
            brokers[0].member.leave()
            await _until(lambda: other.member.may_serve)

    _run(scenario())


def test_a_refused_change_waits_for_what_has_refused_it(etcd: Etcd, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/refused/", 2) as brokers:
            await _create(brokers[0], (1,))
            before = brokers[1].metadata.image
            transaction = topics.creation(before, "t", bytes(16), ((1,),))
            assert await brokers[1].metadata.transact(*transaction) is None

    _run(scenario())


def test_the_metadata_stops_to_follow_when_its_store_is_closed(etcd: Etcd) -> None:
    async def scenario() -> None:
        broker = Broker(etcd, "/closed/", 1)
        await broker.metadata.load()
        following = asyncio.ensure_future(broker.metadata.run())
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            await broker.store.close()
            await following

    _run(scenario())


def test_a_deletion_of_what_is_not_there_is_no_unknown_outcome(etcd: Etcd) -> None:
    async def scenario() -> None:
        async with _cluster(etcd, "/absent/", 1) as [broker]:
            deletion = Delete(b"conf/topic/absent")
            assert await broker.metadata.transact([Absent(deletion.key)], [deletion]) is not None

    _run(scenario())


def test_each_change_of_metadata_leaves_a_revision_that_nothing_deletes(etcd: Etcd) -> None:
    """By it a store is found to lack the change, when other revisions have been added."""

    async def scenario() -> None:
        async with _cluster(etcd, "/changed/", 1) as [broker]:
            image = broker.metadata.image
            key, revision = b"conf/topic/t", None
            for operation in (Put(key, b"{}"), Delete(key)):
                revision = await broker.metadata.transact([], [operation])
                assert image.changed_revision == revision
            await broker.store.transact([], [Put(b"other", b"{}")])
            await broker.metadata.load()
            assert image.revision > image.changed_revision
            assert image.changed_revision == revision

    _run(scenario())
