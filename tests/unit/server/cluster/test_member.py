"""A broker whose node.id another one has waits for the end of that one, or gives up."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.core.cluster import records
from broker.core.cluster.membership import Membership, Phase
from broker.core.cluster.records import BrokerState, Endpoint, Registration
from broker.server.cluster import member as driver
from broker.server.cluster.member import Member
from broker.storage.metadata import Put
from tests.support.manual_clock import ManualClock
from tests.support.memory_leases import AsyncMemoryStore

if TYPE_CHECKING:
    from broker.model.errors import ConfigError

OTHER = Registration("other.1", (Endpoint("", "there", 9092),), None, "h2", BrokerState.RUNNING)
KEY = records.broker_key(1)


class Joining:
    """A broker that joins; its clock is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = AsyncMemoryStore()
        self.clock = ManualClock(0)
        monkeypatch.setattr(driver, "monotonic", lambda: self.clock.monotonic_ms() / 1000)
        ours = Registration("", (), None, "h1", BrokerState.RUNNING)
        self.membership = Membership(1, ours, "ours", 1.0)
        self.member = Member(self.store, self.membership, 3)
        self.refusals: list[ConfigError] = []
        self.member.when_refused(self.refusals.append)

    def register_other(self, incarnation: str = "other.1") -> None:
        value = records.registration_value(OTHER._replace(incarnation=incarnation))
        self.store.memory.transact([], [Put(KEY, value)])

    async def look(self) -> None:
        """Look at the registration again, when that is due."""
        for _ in range(10):
            if self.membership.blocked_by is not None:
                break
            await self.member.step()
        self.clock.advance(500)
        await self.member.step()


def test_a_broker_gives_up_when_the_other_one_has_renewed_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joining = Joining(monkeypatch)
    joining.register_other()

    async def scenario() -> None:
        for _ in range(15):  # until 8 s: twice the session, and an election of etcd
            await joining.look()
            assert joining.refusals == []
        await joining.look()

    asyncio.run(scenario())

    [refusal] = joining.refusals
    assert str(refusal) == (
        "node.id=1 is that of another broker of this cluster, which runs on host h2 (there:9092):"
        " give each broker a node.id of its own, or stop that one"
    )
    assert joining.member.phase is not Phase.JOINING


def test_each_incarnation_of_another_broker_is_waited_for_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joining = Joining(monkeypatch)

    async def scenario() -> None:
        for number in range(4):
            joining.register_other(f"other.{number}")
            for _ in range(10):
                await joining.look()

    asyncio.run(scenario())

    assert joining.refusals == []
    assert joining.member.phase is Phase.JOINING


def test_a_broker_is_starting_until_its_first_registration_or_the_end_of_an_earlier_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered, blocked = Joining(monkeypatch), Joining(monkeypatch)
    blocked.register_other()
    assert registered.member.is_starting

    async def scenario() -> None:
        while registered.member.epoch == records.NO_EPOCH:
            await registered.member.step()
        await registered.member.rejoin()
        await blocked.look()

    asyncio.run(scenario())

    assert not registered.member.is_starting
    assert blocked.member.is_starting
    blocked.clock.advance(1000 * blocked.member.join_seconds)
    assert not blocked.member.is_starting
