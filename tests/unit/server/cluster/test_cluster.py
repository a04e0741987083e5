"""One broker of a cluster: its services, its connections to the others, and how it stops."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker._native.log.turn import Turn
from broker.codec.control_records import Marker
from broker.core.transactions.commands import Producer
from broker.core.transactions.other_brokers import OwedMarker
from broker.model.config import load
from broker.model.errors import ErrorCode, Unreachable
from broker.server.cluster import cluster as cluster_module
from broker.server.cluster.cluster import Cluster
from broker.server.cluster.failed_logs import GivingUp
from broker.server.cluster.handover import HandingOver
from broker.server.cluster.isr import InSync
from broker.server.cluster.metadata import ClusterMetadata
from broker.server.cluster.probing import Probing
from broker.server.cluster.replicating import Replicating
from tests.unit.core.cluster.clusters import Cluster as SimulatedCluster

_ID = load().integer("node.id")


class FakePeers:
    """One connection per broker: an answer waits for those before it; markers wait for a disk."""

    def __init__(self, _address_of: object, _dialer: object) -> None:
        self.before: asyncio.Event | None = None

    async def call(
        self, _broker_id: int, api: str, *_: object, **__: object
    ) -> tuple[int, dict[str, Any]]:
        if api == "WriteTxnMarkers":
            self.before = asyncio.Event()
        if self.before is not None:
            await self.before.wait()
        raise Unreachable("it has answered, for this test")


def test_a_broker_that_waits_for_its_disk_is_asked_about_transactions_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "Peers", FakePeers)
    nothing: Any = None

    async def scenario() -> None:
        cluster = Cluster(load(), nothing, ClusterMetadata(nothing))
        others = cluster.other_brokers(lambda _: None, lambda _: 0)
        monkeypatch.setattr(cluster.view, "leader_of", lambda *_: 2)
        marker = Marker(1, 0, True, 0)
        owed = OwedMarker(("t", 0), marker, 0, lambda: True, lambda _: None)
        others.leaders.write(owed)
        await asyncio.sleep(0)
        asking = others.coordinators.admit(Producer("x", 1, 0), [("t", 1)], adds=False)
        assert await asyncio.wait_for(asking, 1) == [ErrorCode.NETWORK_EXCEPTION]
        others.leaders.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("replicas", "isr", "waits"),
    [
        ((_ID,), (_ID,), False),
        ((_ID, _ID + 1), (_ID, _ID + 1), True),
        ((_ID, _ID + 1), (_ID,), False),  # nobody else has everything
        ((_ID + 1, _ID), (_ID + 1, _ID), False),
    ],
)
def test_a_broker_that_stops_waits_if_another_one_could_lead_what_it_leads(
    replicas: tuple[int, ...], isr: tuple[int, ...], waits: bool
) -> None:
    nothing: Any = None
    cluster = SimulatedCluster(3)
    topic_id = cluster.create("t", replicas)
    cluster.put(topic_id, 0, cluster.state(topic_id)._replace(isr=isr, partition_epoch=1))
    metadata = ClusterMetadata(nothing)
    metadata.image = cluster.image

    async def scenario() -> None:
        assert await Cluster(load(), nothing, metadata)._must_wait() is waits

    asyncio.run(scenario())


@pytest.mark.parametrize("workers", [(), (_ID, _ID + 1)])
def test_only_brokers_with_own_directories_have_the_services_of_replicas(
    workers: tuple[int, ...],
) -> None:
    ignore = {"when_busy": print, "when_followed": print, "when_unfollowed": print}
    topics: Any = SimpleNamespace(**ignore)
    configs: Any = SimpleNamespace(current=load(), when_altered=print)
    nothing: Any = SimpleNamespace()
    native: Any = (Turn(None), nothing)

    async def scenario() -> set[type]:
        cluster = Cluster(load(), nothing, ClusterMetadata(nothing), workers)
        cluster.know_topics(topics, configs)
        return {type(each) for each in cluster.services(nothing, native, nothing, nothing)}

    made = asyncio.run(scenario())

    assert HandingOver in made
    of_replicas = {InSync, GivingUp, Replicating, Probing}
    assert made & of_replicas == (set() if workers else of_replicas)


def test_throttles_have_the_rates_of_the_settings_whenever_those_are_altered() -> None:
    altered: list[Any] = []
    topics: Any = SimpleNamespace(when_busy=print, when_followed=print, when_unfollowed=print)
    settings = ["leader.replication.throttled.rate=5", "follower.replication.throttled.rate=6"]
    configs: Any = SimpleNamespace(current=load(settings), when_altered=altered.append)
    nothing: Any = SimpleNamespace()
    turn = Turn(None)
    native: Any = (turn, nothing)

    async def scenario() -> None:
        cluster = Cluster(load(), nothing, ClusterMetadata(nothing))
        cluster.know_topics(topics, configs)
        cluster.services(nothing, native, nothing, nothing)

    asyncio.run(scenario())
    assert (turn.leader_throttle.rate, turn.follower_throttle.rate) == (5, 6)

    altered[0](load(settings[:1]))
    assert turn.leader_throttle.rate == 5
    assert turn.follower_throttle.rate == load().integer("follower.replication.throttled.rate")
