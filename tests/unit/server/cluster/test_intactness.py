"""A broker registers since when its directory is intact, and anew once it is not."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster.membership import Membership
from broker.core.cluster.records import NO_EPOCH, BrokerState, Registration
from broker.core.scheduling.io_thread import IoThread
from broker.server.cluster.intactness import Intactness
from broker.storage.checkpoints import intact
from broker.storage.checkpoints.intact import Intact


class Broker:
    """A directory, and a member that registers at once.

    Attributes:
        registered: since when the directory is intact, by each registration.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.registered: list[int] = []
        registration = Registration("", (), None, "h", BrokerState.RUNNING)
        self.membership = Membership(1, registration, "p", 1.0)
        self.member = SimpleNamespace(
            epoch=NO_EPOCH, when_phase_changes=self._phase_changes, rejoin=self.join
        )
        self.intact = Intact(path)
        member: Any = self.member
        self.intactness = Intactness(self.intact, self.membership, member, IoThread())

    def _phase_changes(self, callback: Callable[[], None]) -> None:
        self._report = callback

    async def join(self) -> None:
        self.registered.append(self.membership.intact_since)
        self.member.epoch += 70
        if self.membership.intact_since == NO_EPOCH:
            self.membership.set_intact_since(self.member.epoch)
        self._report()

    def run(self, scenario: Callable[[], Any]) -> None:
        async def both() -> None:
            running = asyncio.ensure_future(self.intactness.run())
            try:
                async with asyncio.timeout(10):
                    await scenario()
            finally:
                running.cancel()
                await asyncio.wait([running])

        asyncio.run(both())

    async def noted(self, since: int) -> None:
        while intact.read(self.path) != since:
            await asyncio.sleep(0.001)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_new_directory_is_intact_since_its_first_registration(broker: Broker) -> None:
    async def join() -> None:
        await broker.join()
        await broker.noted(70)

    broker.run(join)

    assert broker.registered == [0]
    assert Broker(broker.path).membership.intact_since == 70


def test_a_directory_that_has_lost_records_is_registered_anew(broker: Broker) -> None:
    intact.write(broker.path, 70)
    again = Broker(broker.path)

    async def join_and_lose() -> None:
        await again.join()
        again.intact.lost()
        await again.noted(140)

    again.run(join_and_lose)

    assert again.registered == [70, 0]


def test_a_directory_that_was_put_back_is_intact_since_the_registration_that_found_it(
    broker: Broker,
) -> None:
    intact.write(broker.path, 30)
    again = Broker(broker.path)

    async def join() -> None:
        again.membership.set_intact_since(70)  # another one was registered since
        await again.join()
        await again.noted(70)

    again.run(join)

    assert Broker(broker.path).membership.intact_since == 70


def test_a_loss_that_the_recovery_finds_is_known_before_the_registration(broker: Broker) -> None:
    intact.write(broker.path, 70)
    again = Broker(broker.path)

    async def until_loaded() -> None:
        await asyncio.sleep(0)
        again.intact.lost()

    asyncio.run(again.intactness.recovered(until_loaded))

    assert again.membership.intact_since == NO_EPOCH


def test_a_recovery_that_takes_long_does_not_delay_the_registration_for_ever(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "broker.server.cluster.intactness"
    monkeypatch.setattr(f"{module}.RECOVERED_BEFORE_JOINING_SECONDS", 0.001)
    intact.write(broker.path, 70)
    again = Broker(broker.path)

    async def for_ever() -> None:
        await asyncio.Event().wait()

    asyncio.run(again.intactness.recovered(for_ever))

    assert again.membership.intact_since == 70
