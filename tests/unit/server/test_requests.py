"""Requests that Python answers: who is under way, and what ends with its connection."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.protocols.base import Deferred
from broker.server.requests import Requests

if TYPE_CHECKING:
    from broker._native.wire.connection import Connection

KNOWN: dict[str, bytes] = {}
LONG_SECONDS = 300
WAIT_SECONDS = 20


class FakeConnection:
    """A connection as far as its requests are concerned; its next request waits for an answer."""

    peer_host = "here"

    def __init__(self, requests: Requests, *bodies: str) -> None:
        """Hand over the first request."""
        self.requests = requests
        self.left = list(bodies)
        self.sent: list[Any] = []
        self.served = Protocol()
        self.go_on()

    def go_on(self) -> None:
        """Hand over the next request."""
        if self.left:
            requests: list[Any] = [FakeRequest(self, self.left.pop(0))]
            self.requests.dispatch(requests)

    def close(self) -> None:
        """End."""
        self.requests.closed(cast("Connection", self), "closed by the peer")


class FakeRequest:
    """One request; once it is answered, the turn of the next one comes."""

    api_key = api_version = 0
    client_id = session = None

    def __init__(self, connection: FakeConnection, body: str) -> None:
        """Wait for an answer."""
        self.connection = connection
        self.protocol = connection.served
        self.body = body

    def close(self) -> None:
        """End the connection instead."""
        self.connection.sent.append("closed")

    def send(self, answer: Any) -> None:
        """Answer, as natively: what follows is served in a turn that is asked for."""
        self.connection.sent.append(answer)
        asyncio.get_running_loop().call_soon(self.connection.go_on)


class Protocol:
    """Answers at once, in a moment, or after so long that no test sees it."""

    name = "fake"

    def __init__(self) -> None:
        """Serve nothing yet."""
        self.waiting: set[str] = set()

    def handle(self, _key: int, _version: int, _client: None, body: str, _session: None) -> Any:
        """Do as the body says."""
        if body == "deferred":
            future = asyncio.get_running_loop().create_future()
            future.get_loop().call_soon(future.set_result, None)
            return Deferred(future, lambda _: b"deferred")
        if body == "fails":
            raise KeyError(body)
        if body == "fails deferred":
            future = asyncio.get_running_loop().create_future()
            future.get_loop().call_soon(future.set_result, None)
            return Deferred(future, lambda _: KNOWN[body])
        return self._answer(body)

    async def _answer(self, body: str) -> bytes:
        if body == "long":
            self.waiting.add(body)
            try:
                await asyncio.sleep(LONG_SECONDS)
            finally:
                self.waiting.discard(body)
        if body == "fails later":
            raise KeyError(body)
        return body.encode()


async def until(is_so: Any) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_so():
            await asyncio.sleep(0.001)


def test_a_request_that_follows_another_ends_with_its_connection() -> None:
    async def scenario() -> None:
        requests = Requests(asyncio.get_running_loop())
        for first in ("short", "deferred"):
            connection = FakeConnection(requests, first, "long")
            await until(lambda: connection.served.waiting)  # noqa: B023 - awaited here
            await asyncio.sleep(0.01)  # all that the first one leaves behind has run

            connection.close()
            await until(lambda: not connection.served.waiting)  # noqa: B023

            assert connection.sent == [first.encode()]

    asyncio.run(scenario())


def test_nothing_is_remembered_of_requests_that_are_answered() -> None:
    async def scenario() -> None:
        requests = Requests(asyncio.get_running_loop())
        connection = FakeConnection(requests, "short", "deferred", "short")

        await until(lambda: len(connection.sent) == 3)
        await asyncio.sleep(0.01)

        assert not requests._running

    asyncio.run(scenario())


@pytest.mark.parametrize("body", ["fails", "fails later", "fails deferred"])
def test_a_mistake_ends_the_connection_that_it_was_made_for_and_no_other(
    body: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        requests = Requests(asyncio.get_running_loop())
        failing, other = FakeConnection(requests), FakeConnection(requests)
        pending: list[Any] = [FakeRequest(failing, body), FakeRequest(other, "short")]

        requests.dispatch(pending)
        await until(lambda: failing.sent and other.sent)

        assert failing.sent == ["closed"]
        assert other.sent == [b"short"]

    asyncio.run(scenario())
    assert "KeyError" in caplog.text
