"""Until when a broker acknowledges: it follows the lease, and is never later than that allows."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker._native.log.turn import Turn
from broker.core.cluster.image import Delta
from broker.core.cluster.membership import Phase, Wait
from broker.core.cluster.records import broker_key
from broker.model import config
from broker.server.cluster import cluster, member
from broker.storage.metadata import Delete, KeyValue, renewed_lease
from broker.storage.metadata.renewed_lease import RenewedLease
from tests.unit.core.cluster import clusters

MARGIN = 1.0
SECONDS = 6.0


class Clock:
    """The monotonic clock of the driver."""

    now = 1_000.0


class FakeLease:
    """A lease whose renewals come when a test says so."""

    id = 77

    def __init__(self, valid_until: float, turn: Turn) -> None:
        self.valid_until = valid_until
        self.lost = asyncio.Event()
        self.bound_when_revoked: int | None = None
        self._turn = turn
        self._on_renewal: Callable[[], None] = lambda: None

    def when_renewed(self, callback: Callable[[], None]) -> None:
        self._on_renewal = callback

    def renew(self, valid_until: float) -> None:
        self.valid_until = valid_until
        self._on_renewal()

    async def revoke(self) -> None:
        self.bound_when_revoked = self._turn.serves_until_ns
        self.lost.set()

    async def abandon(self) -> None:
        self.lost.set()


class Broker:
    """Broker 1 of a cluster; in its image it leads partition 0 of a topic, and broker 2 leads 1."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.known = known = clusters.Cluster(2)
        self.topic_id = known.create("t", (1,), (2,))
        self.epoch = known.image.brokers[1].epoch
        self.turn = Turn(None)
        self.lease = FakeLease(clock.now + SECONDS, self.turn)
        store: Any = SimpleNamespace(lease=self._grant, transact=self._register, get=self._look_up)
        self.callbacks: list[Callable[[Delta], None]] = []
        metadata: Any = SimpleNamespace(image=known.image, when_changed=self.callbacks.append)
        settings = ["node.id=1", "broker.session.timeout.ms=6000"]
        self.cluster = cluster.Cluster(config.load(settings), store, metadata)
        self.member = self.cluster.member
        self.cluster.fence(self.turn)
        self.phases: list[Phase] = []
        self.member.when_phase_changes(lambda: self.phases.append(self.member.phase))

    async def _grant(self, _seconds: int) -> FakeLease:
        return self.lease

    async def _register(self, _guards: object, _operations: object) -> int:
        return self.epoch

    def delete_registration(self) -> None:
        """Let another broker fence this one, and the image show it."""
        self.known.store.transact([], [Delete(broker_key(1))])
        self.known.refresh()
        delta = Delta()
        delta.brokers = {1}
        for callback in self.callbacks:
            callback(delta)

    async def join(self) -> None:
        """Get the lease, then register."""
        while self.member.phase is not Phase.ACTIVE:
            await self.member.step()
        assert self.member.phase is Phase.ACTIVE

    async def _look_up(self, key: bytes) -> KeyValue | None:
        return self.known.store.get(key)

    def leads(self, partition: int) -> bool:
        role = self.cluster.role(self.topic_id, partition)
        return role is not None and role.leads


def ns(seconds: float) -> int:
    return int(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(member, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def broker(clock: Clock) -> Broker:
    async def make() -> Broker:
        return Broker(clock)

    return asyncio.run(make())


def test_a_broker_that_has_not_registered_acknowledges_nothing(broker: Broker) -> None:
    assert broker.turn.serves_until_ns == 0

    asyncio.run(broker.member.step())

    assert broker.member.phase is Phase.JOINING, "it has a lease, and no registration"
    assert broker.turn.serves_until_ns == 0


def test_a_registered_broker_acknowledges_until_the_margin_before_the_end_of_its_lease(
    broker: Broker,
) -> None:
    asyncio.run(broker.join())

    assert broker.turn.serves_until_ns == ns(broker.lease.valid_until - MARGIN)


def test_the_native_path_knows_the_present_registration(broker: Broker) -> None:
    """What was begun under an earlier one is not acknowledged, however soon the next one comes."""

    async def scenario() -> None:
        await broker.join()
        assert broker.turn.broker_epoch == broker.epoch
        broker.lease.lost.set()
        await broker.member.step()
        assert broker.turn.broker_epoch == broker.epoch, "nothing was registered yet"
        broker.lease = FakeLease(broker.clock.now + SECONDS, broker.turn)
        broker.epoch += 5
        await broker.join()

    asyncio.run(scenario())
    assert broker.turn.broker_epoch == broker.epoch
    assert broker.turn.serves_until_ns == ns(broker.lease.valid_until - MARGIN)


def test_each_renewal_moves_the_bound_at_once(broker: Broker) -> None:
    async def scenario() -> None:
        await broker.join()
        for seconds in (2, 4, 6):
            broker.clock.now += 2
            broker.lease.renew(1_000 + SECONDS + seconds)
            assert broker.turn.serves_until_ns == ns(1_000 + SECONDS + seconds - MARGIN)

    asyncio.run(scenario())
    assert broker.phases == [Phase.ACTIVE], "renewals in time change nothing else"


def test_the_loss_of_the_lease_ends_all_acknowledgements(broker: Broker) -> None:
    async def scenario() -> None:
        await broker.join()
        broker.lease.lost.set()
        await broker.member.step()

    asyncio.run(scenario())
    assert broker.turn.serves_until_ns == 0
    assert broker.phases == [Phase.ACTIVE, Phase.JOINING], "what it has led is looked at again"


def test_a_broker_that_leaves_acknowledges_nothing_from_before_it_gives_up_its_lease(
    broker: Broker,
) -> None:
    async def scenario() -> None:
        await broker.join()
        broker.member.leave()
        assert broker.turn.serves_until_ns == 0
        await broker.member.step()

    asyncio.run(scenario())
    assert broker.lease.bound_when_revoked == 0


def test_a_fenced_broker_leads_nothing_whatever_its_image_says(broker: Broker) -> None:
    assert not broker.leads(0)

    asyncio.run(broker.join())
    assert (broker.leads(0), broker.leads(1)) == (True, False)

    broker.clock.now = broker.lease.valid_until - MARGIN
    assert not broker.leads(0)


def test_a_broker_that_was_fenced_looks_at_what_it_leads_again_after_a_late_renewal(
    broker: Broker,
) -> None:
    async def scenario() -> None:
        await broker.join()
        broker.clock.now = broker.lease.valid_until - MARGIN / 2
        broker.lease.renew(broker.lease.valid_until + SECONDS)

    asyncio.run(scenario())
    assert broker.phases == [Phase.ACTIVE, Phase.ACTIVE]
    assert broker.leads(0)


def test_a_renewal_counts_from_the_moment_before_it_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(renewed_lease, "monotonic", lambda: clock.now)
    found: list[float] = []

    async def scenario() -> None:
        renewed = asyncio.Event()

        async def renew(_seconds: float) -> float:
            clock.now += 1.5  # until the answer arrives
            return 1.0

        async def end() -> None:
            pass

        clock.now = 1_000.0
        lease = RenewedLease(1, 0.003, 1_000.003, renew=renew, end=end)

        def note() -> None:
            found.append(lease.valid_until)
            renewed.set()

        lease.when_renewed(note)
        clock.now = 1_000.001
        await renewed.wait()
        await lease.abandon()

    asyncio.run(scenario())
    assert found == [1_000.001 + 0.003]


def test_a_broker_that_was_fenced_by_another_one_stops_at_once_and_registers_again(
    broker: Broker,
) -> None:
    async def scenario() -> None:
        await broker.join()
        broker.epoch += 5

        broker.delete_registration()
        await broker.member.step()

        assert broker.member.phase is Phase.JOINING
        assert broker.turn.serves_until_ns == 0
        assert not broker.leads(0)
        await broker.join()

    asyncio.run(scenario())
    assert broker.turn.broker_epoch == broker.member.epoch == broker.epoch
    assert broker.turn.serves_until_ns == ns(broker.lease.valid_until - MARGIN)


def test_an_image_from_before_the_registration_is_no_reason_to_look_it_up(broker: Broker) -> None:
    async def scenario() -> None:
        broker.epoch = broker.known.image.revision + 9
        await broker.join()

        broker.delete_registration()

        assert isinstance(broker.cluster._membership.action(broker.clock.now), Wait)

    asyncio.run(scenario())
