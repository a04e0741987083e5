"""Early fencing with real connections: brokers whose processes die, restart, or only look dead."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster import fencing, records
from broker.core.cluster.image import Delta
from broker.core.cluster.records import BrokerState, Endpoint, Registration
from broker.model.clock import SystemClock
from broker.model.errors import StorageError
from broker.server.cluster.node import Node
from broker.server.cluster.probing import Probing, _Connection
from broker.storage.metadata import Delete, Guard, Operation, Put
from tests.support.memory_leases import AsyncMemoryStore
from tests.unit.core.cluster.clusters import Cluster

AGAIN_MS = 30
OTHER = 2


class Store(AsyncMemoryStore):
    """A store that fails as often as a test says."""

    failures = 0

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        if self.failures:
            self.failures -= 1
            raise StorageError("the store does not answer")
        return await super().transact(guards, operations)


class OtherBroker:
    """The process of another broker: a listener, and connections that it keeps."""

    def __init__(self) -> None:
        self.accepted = 0
        self.port = 0
        self._connections: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def die(self) -> None:
        assert self._server is not None
        self._server.close()
        self.reset()

    def reset(self) -> None:
        """Close the connections; the process lives."""
        while self._connections:
            self._connections.pop().transport.abort()

    @property
    def connections(self) -> int:
        return sum(not each.is_closing() for each in self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._connections.append(writer)
        with suppress(OSError):
            await reader.read()
        writer.close()


class Probed:
    """Broker 1, which probes broker 2; both have the replicas of a partition."""

    def __init__(self) -> None:
        self.known = Cluster(1)
        self.store = Store()
        self.store.memory = self.known.store
        self.other = OtherBroker()
        self.callbacks: list[Callable[[Delta], None]] = []
        epoch = self.known.image.brokers[1].epoch
        member: Any = SimpleNamespace(epoch=epoch, when_phase_changes=lambda _: None)
        metadata: Any = SimpleNamespace(image=self.known.image, when_changed=self.callbacks.append)
        node = Node(1, self.store, metadata, member, SystemClock(), is_shared=False)
        self.probing = Probing(node)

    def register(self, host: str = "127.0.0.1") -> None:
        """Register broker 2 with the address of its process."""
        value = Registration(
            f"i{self.known.store.revision}",
            (Endpoint("", host, self.other.port),),
            None,
            "h2",
            BrokerState.RUNNING,
        )
        put = Put(records.broker_key(OTHER), records.registration_value(value))
        self.store.memory.transact([], [put])
        self.follow()

    def follow(self) -> None:
        self.known.refresh()
        for callback in self.callbacks:
            callback(Delta())

    @property
    def is_fenced(self) -> bool:
        return self.store.memory.get(records.broker_key(OTHER)) is None


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


def run(scenario: Callable[[Probed], Any], *, host: str = "127.0.0.1") -> None:
    """Run a scenario with a broker that listens and is registered, and has one connection."""

    async def whole() -> None:
        probed = Probed()
        await probed.other.listen()
        probed.register(host)
        probed.known.create("t", (1, OTHER))
        running = asyncio.ensure_future(probed.probing.run())
        try:
            await scenario(probed)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            probed.other.die()

    asyncio.run(whole())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "PROBE_AGAIN_MS", AGAIN_MS)


async def settled() -> None:
    """Wait for longer than any probe takes."""
    await asyncio.sleep(10 * AGAIN_MS / 1000)


def test_a_broker_whose_process_has_died_is_fenced_at_once() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)

        probed.other.die()
        await _until(lambda: probed.is_fenced)

        probed.follow()
        await settled()

    run(scenario)


def test_a_broker_that_closes_connections_and_accepts_others_is_not_fenced() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)

        probed.other.reset()
        await _until(lambda: probed.other.accepted == 2)
        await settled()

        assert probed.other.connections == 1
        assert not probed.is_fenced

    run(scenario)


def test_a_process_that_is_back_before_the_last_probe_is_not_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing, "PROBE_GAP_MS", 200)

    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)
        probed.other.die()
        await asyncio.sleep(0.1)

        await probed.other.listen()
        await _until(lambda: probed.other.accepted == 2)
        await settled()

        assert not probed.is_fenced

    run(scenario)


def test_a_paused_process_is_left_to_its_lease() -> None:
    """Its host accepts connections for it."""

    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)
        probed.other.die()
        with socket.create_server(("127.0.0.1", probed.other.port)):
            await settled()
            assert not probed.is_fenced

    run(scenario)


def test_an_address_that_was_never_reached_is_not_fenced() -> None:
    async def scenario(probed: Probed) -> None:
        probed.other.die()  # before the first connection
        await settled()

        assert probed.other.accepted == 0
        assert not probed.is_fenced

    run(scenario)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "nowhere.invalid"])
def test_a_wildcard_and_an_unknown_host_are_not_probed(host: str) -> None:
    async def scenario(probed: Probed) -> None:
        await settled()
        probed.other.die()
        await settled()

        assert probed.other.accepted == 0
        assert not probed.is_fenced

    run(scenario, host=host)


def test_a_name_with_several_addresses_is_the_one_that_was_reached() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)

        probed.other.die()
        await _until(lambda: probed.is_fenced)

    run(scenario, host="localhost")


def test_a_registration_that_was_deleted_is_not_watched_any_more() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)
        await probed.store.transact([], [Delete(records.broker_key(OTHER))])

        probed.follow()
        await _until(lambda: probed.other.connections == 0)

        probed.register()
        await _until(lambda: probed.other.connections == 1)

    run(scenario)


def test_a_suspected_broker_is_connected_to_anew() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)

        probed.probing.suspect(OTHER)
        probed.probing.suspect(9)
        await _until(lambda: probed.other.accepted == 2)
        await _until(lambda: probed.other.connections == 1)

        assert not probed.is_fenced

    run(scenario)


def test_a_broker_is_fenced_after_the_store_has_failed() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)
        probed.store.failures = 2

        probed.other.die()
        await _until(lambda: probed.is_fenced)

        assert probed.store.failures == 0

    run(scenario)


def test_a_broker_with_an_old_image_fences_nobody() -> None:
    async def scenario(probed: Probed) -> None:
        await _until(lambda: probed.other.connections == 1)
        entry = probed.store.memory.get(records.broker_key(OTHER))
        assert entry is not None
        await probed.store.transact([], [Delete(entry.key)])
        await probed.store.transact([], [Put(entry.key, entry.value)])

        probed.other.die()
        await settled()

        assert not probed.is_fenced

    run(scenario)


def test_a_connection_that_has_ended_before_it_is_reported_has_no_place() -> None:
    connection = _Connection(lambda _: None)

    connection.connection_made(SimpleNamespace(get_extra_info=lambda _: None))  # type: ignore[arg-type]

    assert connection.place is None
