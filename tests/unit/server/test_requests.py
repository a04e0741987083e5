"""Requests that Python answers: which run, and which end with their connection."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.model.limits import PYTHON_SHARE_US
from broker.protocols.base import Deferred
from broker.server.requests import Requests

if TYPE_CHECKING:
    from broker._native.wire.connection import Connection

KNOWN: dict[str, bytes] = {}
LONG_SECONDS = 300
WAIT_SECONDS = 20


class FakeConnection:
    """A connection as seen by its requests; its next request waits for a response."""

    peer_host = "here"
    session = SimpleNamespace(upstreams=None)

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
    """One request; once it is answered, the next one is handed over."""

    operation = version = 0
    client_id = None
    session = SimpleNamespace(take_unseen=list)

    def __init__(self, connection: FakeConnection, body: str) -> None:
        """Wait for a response."""
        self.connection = connection
        self.protocol = connection.served
        self.body = body

    def take_body(self) -> str:
        """Return what follows the header."""
        return self.body

    def waits(self) -> None:
        """Its answer comes later."""

    def close(self) -> None:
        """Close the connection instead."""
        self.connection.sent.append("closed")

    def send(self, answer: Any, *, written: list[Any]) -> None:
        """Send a response; as natively, the next request is served in a scheduled turn."""
        del written
        self.connection.sent.append(answer)
        asyncio.get_running_loop().call_soon(self.connection.go_on)


class Protocol:
    """Answers at once, after a moment, or later than any test waits."""

    name = "fake"

    def __init__(self) -> None:
        """Begin without requests."""
        self.waiting: set[str] = set()

    def handle(self, _key: int, _version: int, _client: None, body: str, _session: None) -> Any:
        """Do what the body says."""
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


def test_a_request_that_follows_another_is_cancelled_with_its_connection() -> None:
    async def scenario() -> None:
        requests = Requests(asyncio.get_running_loop())
        for first in ("short", "deferred"):
            connection = FakeConnection(requests, first, "long")
            await until(lambda: connection.served.waiting)  # noqa: B023 - awaited here
            await asyncio.sleep(0.01)  # all callbacks of the first one have run

            connection.close()
            await until(lambda: not connection.served.waiting)  # noqa: B023

            assert connection.sent == [first.encode()]

    asyncio.run(scenario())


def test_nothing_is_kept_of_answered_requests() -> None:
    async def scenario() -> None:
        requests = Requests(asyncio.get_running_loop())
        connection = FakeConnection(requests, "short", "deferred", "short")

        await until(lambda: len(connection.sent) == 3)
        await asyncio.sleep(0.01)

        assert not requests._running

    asyncio.run(scenario())


@pytest.mark.parametrize("body", ["fails", "fails later", "fails deferred"])
def test_an_exception_closes_only_its_own_connection(
    body: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        requests = Requests(asyncio.get_running_loop())
        failing, other = FakeConnection(requests), FakeConnection(requests)
        pending: list[Any] = [FakeRequest(failing, body), FakeRequest(other, "short")]

        requests.dispatch(pending)
        while requests.dispatch([]):
            pass
        await until(lambda: failing.sent and other.sent)

        assert failing.sent == ["closed"]
        assert other.sent == [b"short"]

    asyncio.run(scenario())
    assert "KeyError" in caplog.text


# ---- the order of requests
# --------------------------------------------------------------------------

STEP_US = PYTHON_SHARE_US // 5
A_SHARE = 5  # steps


class Steps:
    """A protocol whose requests each take that many steps of the clock, and the clock."""

    name = "fake"

    def __init__(self) -> None:
        """Begin at zero."""
        self.now_ns = 0
        self.begun: list[FakeConnection] = []

    def handle(self, key: int, _version: int, _client: None, _body: str, _session: None) -> Any:
        """Take the steps."""
        self.now_ns += key * STEP_US * 1_000
        return b""


class OneRequest(FakeRequest):
    """A request without a successor until it is asked for."""

    def send(self, answer: Any, *, written: list[Any]) -> None:
        """Answer."""
        del written
        self.connection.sent.append(answer)


class Asker(FakeConnection):
    """A connection whose requests take that many steps, each sent after the last response."""

    def __init__(self, name: str, steps: int, protocol: Steps) -> None:
        """Begin to send."""
        self.name = name
        self.steps = steps
        self.served = protocol  # type: ignore[assignment]
        self.sent = []

    def ask(self) -> Any:
        """Return its next request."""
        request = OneRequest(self, "")
        request.operation = self.steps
        return request


def served(requests: Requests, protocol: Steps, askers: list[Asker], turns: int) -> list[int]:
    """Let all send after each response, for that many turns; return the clock after each turn."""
    times = []
    pending = [asker.ask() for asker in askers]
    for _ in range(turns):
        before = [len(asker.sent) for asker in askers]
        requests.dispatch(pending)
        times.append(protocol.now_ns)
        pending = [
            asker.ask()
            for asker, count in zip(askers, before, strict=True)
            if len(asker.sent) > count
        ]
    return times


def beginning() -> tuple[Requests, Steps]:
    protocol = Steps()
    loop = asyncio.new_event_loop()
    loop.close()
    return Requests(loop, lambda: protocol.now_ns), protocol


def test_requests_are_begun_until_their_share_of_the_turn_is_used_up() -> None:
    requests, protocol = beginning()
    askers = [Asker(str(number), 1, protocol) for number in range(20)]

    assert requests.dispatch([asker.ask() for asker in askers])
    assert sum(len(asker.sent) for asker in askers) == A_SHARE
    turns = 1
    while requests.dispatch([]):
        turns += 1

    assert [len(asker.sent) for asker in askers] == [1] * 20
    assert turns == 20 // A_SHARE - 1


def test_a_request_longer_than_the_share_is_alone_in_its_turn() -> None:
    requests, protocol = beginning()
    askers = [Asker(str(number), 2 * A_SHARE, protocol) for number in range(5)]

    times = served(requests, protocol, askers, 10)

    each = 2 * A_SHARE * STEP_US * 1_000
    assert times == [each * number for number in range(1, 11)]


def test_connections_get_equal_time_whatever_their_requests_cost() -> None:
    requests, protocol = beginning()
    askers = [Asker(str(steps), steps, protocol) for steps in (5, 10, 20)]  # one fills a turn

    served(requests, protocol, askers, 300)

    taken = [len(asker.sent) * asker.steps for asker in askers]
    assert max(taken) - min(taken) <= 2 * 20


def test_an_occasional_request_does_not_wait_for_all_busy_connections() -> None:
    requests, protocol = beginning()
    busy = [Asker(str(number), A_SHARE, protocol) for number in range(50)]
    served(requests, protocol, busy, 200)
    quiet = Asker("quiet", 1, protocol)

    requests.dispatch([quiet.ask()])
    turns = 1
    while not quiet.sent:
        requests.dispatch([])
        turns += 1

    assert turns <= 3


def test_the_request_of_a_closed_connection_is_not_begun() -> None:
    requests, protocol = beginning()
    askers = [Asker(str(number), A_SHARE, protocol) for number in range(3)]
    requests.dispatch([asker.ask() for asker in askers])

    requests.closed(cast("Connection", askers[1]), "closed by the peer")
    while requests.dispatch([]):
        pass

    assert [len(asker.sent) for asker in askers] == [1, 0, 1]
