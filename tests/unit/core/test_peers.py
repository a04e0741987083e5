"""Requests to other brokers: versions, order, timeouts, broken connections."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from broker.codec import Fields
from broker.core.dialing import Dialer
from broker.core.peers import Peers
from broker.core.scheduling.eager import run_to_first_wait
from broker.model.address import Address
from broker.model.errors import Corrupt, PeerError, Unreachable
from broker.model.limits import PEER_REQUESTS_IN_FLIGHT_MAX
from tests.support.scripted_broker import Answer, ScriptedBroker

_FOUND = {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "node_id": 7}


def _coordinator(api: str, _version: int, body: Fields) -> Fields | None:
    assert api == "FindCoordinator"
    return {**_FOUND, "host": body["key"], "port": 1}


@contextmanager
def _scripted(answer: Answer, versions: dict[str, range] | None = None) -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(answer, versions)
    try:
        yield broker
    finally:
        broker.close()


@asynccontextmanager
async def _peers(address_of: Callable[[int], Address | None]) -> AsyncIterator[Peers]:
    peers = Peers(address_of)
    try:
        yield peers
    finally:
        peers.close()
        await asyncio.sleep(0)


async def _find(peers: Peers, key: str, *, seconds: float = 20) -> str:
    body = {"key": key, "key_type": 0}
    _, answer = await peers.call(7, "FindCoordinator", range(3), body, timeout_seconds=seconds)
    return str(answer["host"])


@pytest.mark.parametrize(
    "error", [Corrupt("no answer of a login"), PeerError("refused"), EOFError()]
)
def test_a_login_that_fails_in_any_way_is_tried_again_by_the_next_call(error: Exception) -> None:
    dialed = 0

    class _Refused(Dialer):
        async def dial(
            self,
            address: Address,  # noqa: ARG002 (see Dialer)
            protocol: str,  # noqa: ARG002
        ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            nonlocal dialed
            dialed += 1
            raise error

    async def run() -> None:
        peers = Peers(lambda _: Address("localhost", 1), _Refused())
        for _ in range(2):
            with pytest.raises(Unreachable):
                await asyncio.wait_for(_find(peers, "g", seconds=2), 1)
        peers.close()

    asyncio.run(run())
    assert dialed == 2


def test_requests_in_flight_together_get_their_own_answers() -> None:
    async def run() -> list[str]:
        async with _peers(lambda _: broker.address) as peers:
            calls = (_find(peers, f"g{each}") for each in range(3 * PEER_REQUESTS_IN_FLIGHT_MAX))
            return await asyncio.gather(*calls)

    with _scripted(_coordinator) as broker:
        assert asyncio.run(run()) == [f"g{each}" for each in range(3 * PEER_REQUESTS_IN_FLIGHT_MAX)]
        assert broker.connections == 1


def test_a_handler_may_call_before_it_is_a_task() -> None:
    async def run() -> str:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[Awaitable[str] | str] = loop.create_future()

        def begin() -> None:
            try:
                begun.set_result(run_to_first_wait(_find)(peers, "g"))
            except RuntimeError as error:
                begun.set_exception(error)

        async with _peers(lambda _: broker.address) as peers:
            loop.call_soon(begin)
            rest = await begun
            assert not isinstance(rest, str)
            return await rest

    with _scripted(_coordinator) as broker:
        assert asyncio.run(run()) == "g"


def test_the_newest_version_that_both_know_is_used() -> None:
    async def run(versions: range) -> int:
        async with _peers(lambda _: broker.address) as peers:
            body = {"key": "g", "key_type": 0}
            call = peers.call(7, "FindCoordinator", versions, body, timeout_seconds=20)
            return (await call)[0]

    with _scripted(_coordinator, {"FindCoordinator": range(1, 3)}) as broker:
        assert asyncio.run(run(range(4))) == 2
        assert asyncio.run(run(range(2))) == 1
        with pytest.raises(PeerError, match="knows no version"):
            asyncio.run(run(range(1)))


def test_a_broker_that_is_not_in_the_cluster_is_unreachable() -> None:
    async def run() -> None:
        async with _peers(lambda _: None) as peers:
            await _find(peers, "g")

    with pytest.raises(Unreachable, match="not in the cluster"):
        asyncio.run(run())


def test_a_closed_connection_fails_all_its_requests_and_the_next_call_connects_again() -> None:
    closing = threading.Event()
    closing.set()

    def answer(api: str, version: int, body: Fields) -> Fields | None:
        return None if closing.is_set() else _coordinator(api, version, body)

    async def run() -> None:
        async with _peers(lambda _: broker.address) as peers:
            calls = (_find(peers, "g") for _ in range(2 * PEER_REQUESTS_IN_FLIGHT_MAX))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(each) for each in results} == {Unreachable}
            closing.clear()
            assert await _find(peers, "g") == "g"

    with _scripted(answer) as broker:
        asyncio.run(run())


def test_a_stalled_oldest_request_closes_the_connection_of_those_behind_it() -> None:
    stalled = threading.Event()

    def answer(api: str, version: int, body: Fields) -> Fields | None:
        if body["key"] == "stalled":
            stalled.wait(30)
        return _coordinator(api, version, body)

    async def run() -> None:
        async with _peers(lambda _: broker.address) as peers:
            first = asyncio.ensure_future(_find(peers, "stalled", seconds=2))
            behind = asyncio.ensure_future(_find(peers, "behind"))
            for each in (first, behind):
                with pytest.raises(Unreachable):
                    await each
            stalled.set()
            assert await _find(peers, "again") == "again"

    with _scripted(answer) as broker:
        asyncio.run(run())
        assert broker.connections == 2


def test_a_caller_that_leaves_does_not_disturb_the_requests_behind_it() -> None:
    left = threading.Event()

    def answer(api: str, version: int, body: Fields) -> Fields | None:
        if body["key"] == "leaves":
            left.wait(30)
        return _coordinator(api, version, body)

    async def run() -> None:
        async with _peers(lambda _: broker.address) as peers:
            leaving = asyncio.ensure_future(_find(peers, "leaves"))
            behind = asyncio.ensure_future(_find(peers, "behind"))
            while not broker.of("FindCoordinator"):
                await asyncio.sleep(0.01)
            leaving.cancel()
            await asyncio.sleep(0)
            left.set()
            assert await behind == "behind"
            # The place of the one that left is free again.
            calls = (_find(peers, str(each)) for each in range(2 * PEER_REQUESTS_IN_FLIGHT_MAX))
            assert len(await asyncio.gather(*calls)) == 2 * PEER_REQUESTS_IN_FLIGHT_MAX

    with _scripted(answer) as broker:
        asyncio.run(run())
        assert broker.connections == 1


def test_a_broker_with_another_address_gets_another_connection() -> None:
    async def run() -> None:
        addresses = [one.address, two.address]
        async with _peers(lambda _: addresses[0]) as peers:
            await _find(peers, "g")
            addresses.pop(0)
            await _find(peers, "g")

    with _scripted(_coordinator) as one, _scripted(_coordinator) as two:
        asyncio.run(run())
        assert (one.connections, two.connections) == (1, 1)


def test_brokers_that_have_left_are_disconnected() -> None:
    async def run() -> None:
        async with _peers(lambda _: broker.address) as peers:
            await _find(peers, "g")
            peers.retain({8})
            await _find(peers, "g")

    with _scripted(_coordinator) as broker:
        asyncio.run(run())
        assert broker.connections == 2


def test_nobody_listening_is_unreachable() -> None:
    with _scripted(_coordinator) as broker:
        address = broker.address

    async def run() -> None:
        async with _peers(lambda _: address) as peers:
            await _find(peers, "g")

    with pytest.raises(Unreachable):
        asyncio.run(run())


@asynccontextmanager
async def _silent(*, closes: bool) -> AsyncIterator[Address]:
    """Listen, and close each connection or never answer it."""
    accepted = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        if closes:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield Address(host, port)
    finally:
        for writer in accepted:
            writer.close()
        server.close()
        await server.wait_closed()


def test_a_broker_that_closes_before_it_says_what_it_knows_is_unreachable() -> None:
    async def run() -> None:
        async with _silent(closes=True) as address, _peers(lambda _: address) as peers:
            calls = (_find(peers, "g") for _ in range(3))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(each) for each in results} == {Unreachable}

    asyncio.run(run())


def test_a_connection_that_is_closed_while_it_is_made_cancels_no_caller() -> None:
    async def run() -> None:
        async with _silent(closes=False) as address, _peers(lambda _: address) as peers:
            waiting = asyncio.ensure_future(_find(peers, "g"))
            await asyncio.sleep(0.05)
            peers.retain(frozenset())
            with pytest.raises(Unreachable):
                await waiting

    asyncio.run(run())


def test_a_silent_connection_is_replaced_even_if_the_oldest_caller_has_left() -> None:
    silent = threading.Event()

    def answer(api: str, version: int, body: Fields) -> Fields | None:
        if body["key"] == "leaves":
            silent.wait(30)
        return _coordinator(api, version, body)

    async def run() -> None:
        async with _peers(lambda _: broker.address) as peers:
            leaving = asyncio.ensure_future(_find(peers, "leaves", seconds=2))
            while not broker.of("FindCoordinator"):
                await asyncio.sleep(0.01)
            leaving.cancel()
            with pytest.raises(Unreachable):
                await _find(peers, "late", seconds=2)
            silent.set()
            assert await _find(peers, "again") == "again"

    with _scripted(answer) as broker:
        asyncio.run(run())
        assert broker.connections == 2
