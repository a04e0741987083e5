"""Requests to the other brokers of the cluster.

    call ── connect, unless connected ── ApiVersions ── request ──> in flight ──> answer

There is one connection per broker, with several requests in flight: a Kafka broker answers the
requests of a connection in their order, so the oldest request in flight gets the next answer. One
that waits delays those behind it: requests that wait for a disk have connections (a `Peers`) of
their own.

A connection that fails, or whose oldest request is not answered in time, is closed, and every
request on it fails with Unreachable. Such a request may have been served: a caller sends only what
may be served twice. The next call connects again. A request whose caller no longer waits keeps its
place until its answer has come.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, Protocol

from broker import codec
from broker.codec import Fields
from broker.core.dialing import KAFKA, Dialer
from broker.model.address import Address
from broker.model.errors import CodecError, ErrorCode, PeerError, Unreachable
from broker.model.identifiers import BROKERS_CLIENT_ID
from broker.model.limits import (
    CODEC_FRAME_BYTES_MAX,
    PEER_CONNECT_SECONDS,
    PEER_REQUESTS_IN_FLIGHT_MAX,
)

_SIZE_BYTES = 4
_KEYS = {name: key for key, name in codec.API_KEYS.items()}
_CODES: Final = {code.number: code for code in ErrorCode if code is not ErrorCode.DISK_FULL}
_log = logging.getLogger(__name__)


def code_of(number: int) -> ErrorCode:
    """Return the error code of an answer; UNKNOWN_SERVER_ERROR for a number of a later version."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


class Calls(Protocol):
    """What sends requests to other brokers: Peers."""

    async def call(
        self, broker_id: int, api: str, versions: range, body: Fields, *, timeout_seconds: float
    ) -> tuple[int, dict[str, Any]]:
        """Send a request; return version and answer. Raises Unreachable or PeerError."""


class Peers:
    """The connections of this broker to others."""

    def __init__(
        self, address_of: Callable[[int], Address | None], dialer: Dialer | None = None
    ) -> None:
        """Connect to nothing yet; `address_of` returns where a broker listens, None if it is gone.

        A broker whose address has changed gets a new connection.
        """
        self._dialer = dialer or Dialer()
        self._address_of = address_of
        self._channels: dict[int, _Channel] = {}

    async def call(
        self, broker_id: int, api: str, versions: range, body: Fields, *, timeout_seconds: float
    ) -> tuple[int, dict[str, Any]]:
        """Send a request in the newest version that both sides know; return version and answer.

        The caller need not be a task: a handler may run before it is one (scheduling/eager.py).

        Args:
            broker_id: of the broker that gets the request.
            api: the name of the API.
            versions: those that the caller knows.
            body: of the request.
            timeout_seconds: until the answer, with all waiting before the request is sent.

        Raises:
            Unreachable: the broker is gone, or has not answered in time.
            PeerError: it has answered with something else, or knows none of the versions.
        """
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        return await asyncio.ensure_future(self._call(broker_id, api, versions, body, deadline))

    async def _call(
        self, broker_id: int, api: str, versions: range, body: Fields, deadline: float
    ) -> tuple[int, dict[str, Any]]:
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._channel(broker_id)
                return await channel.call(api, versions, body, deadline)
        except TimeoutError:
            raise Unreachable(f"broker {broker_id} has not answered {api} in time") from None

    def retain(self, broker_ids: AbstractSet[int]) -> None:
        """Close the connections to all brokers but these."""
        for broker_id in self._channels.keys() - broker_ids:
            self._channels.pop(broker_id).close("the broker has left the cluster")

    def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self.retain(frozenset())

    async def _channel(self, broker_id: int) -> "_Channel":
        address = self._address_of(broker_id)
        if address is None:
            raise Unreachable(f"broker {broker_id} is not in the cluster now")
        channel = self._channels.get(broker_id)
        if channel is None or channel.is_closed or channel.address != address:
            if channel is not None:
                channel.close("the broker has another address now")
            channel = self._channels[broker_id] = _Channel(address, self._dialer)
        await channel.opened()
        return channel


class _InFlight(NamedTuple):
    """A request that was sent."""

    api: str
    version: int
    correlation_id: int
    deadline: float  # by the loop's clock
    answer: asyncio.Future[dict[str, Any]]


class _Channel:
    """One connection; it is closed for good by its first failure."""

    def __init__(self, address: Address, dialer: Dialer) -> None:
        self.address = address
        self._dialer = dialer
        self.is_closed = False
        self._versions: dict[int, range] = {}
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._room = asyncio.Semaphore(PEER_REQUESTS_IN_FLIGHT_MAX)
        self._writer: asyncio.StreamWriter | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(_retrieved)
        self._opening = asyncio.ensure_future(self._open())
        self._reading: asyncio.Future[None] | None = None

    async def opened(self) -> None:
        """Wait until the connection is made; several callers may wait."""
        await asyncio.shield(self._opened)

    async def call(
        self, api: str, versions: range, body: Fields, deadline: float
    ) -> tuple[int, dict[str, Any]]:
        """Send a request, once there is room for it, and wait for its answer."""
        version = self._newest(api, versions)
        await self._room.acquire()
        if self.is_closed:
            self._room.release()
            raise Unreachable(f"the connection to {self.address} was closed")
        in_flight = self._send(api, version, body, deadline)
        in_flight.answer.add_done_callback(self._answered)
        try:
            return version, await asyncio.shield(in_flight.answer)
        except asyncio.CancelledError:
            self._close_if_stuck()
            raise

    def _close_if_stuck(self) -> None:
        """Close the connection if its oldest request, of whatever caller, is late."""
        if self._in_flight:
            oldest = self._in_flight[0]
            if asyncio.get_running_loop().time() >= oldest.deadline:
                self.close(f"{oldest.api} was not answered in time")

    def _answered(self, answer: asyncio.Future[dict[str, Any]]) -> None:
        _retrieved(answer)
        self._room.release()

    def close(self, reason: str) -> None:
        """Close the connection; every request on it fails."""
        if self.is_closed:
            return
        self.is_closed = True
        _log.debug("connection to a broker closed: address=%s reason=%s", self.address, reason)
        error = Unreachable(f"the broker at {self.address} cannot be reached: {reason}")
        if not self._opened.done():
            self._opened.set_exception(error)
        self._opening.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
        for each in self._in_flight:
            if not each.answer.done():
                each.answer.set_exception(error)
        self._in_flight.clear()

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(PEER_CONNECT_SECONDS):
                reader, self._writer = await self._dialer.dial(self.address, KAFKA)
                self._reading = asyncio.ensure_future(self._read(reader))
                answer = await self._send("ApiVersions", 0, {}, float("inf")).answer
        except (OSError, EOFError, TimeoutError, UnicodeError) as error:
            self.close(str(error) or "no connection in time")
            return
        except (Unreachable, PeerError, CodecError) as error:
            self.close(str(error))
            return
        self._versions = {
            each["api_key"]: range(each["min_version"], each["max_version"] + 1)
            for each in answer["api_keys"]
        }
        self._opened.set_result(None)

    def _newest(self, api: str, versions: range) -> int:
        supported = self._versions.get(_KEYS[api], range(0))
        newest = min(supported.stop, versions.stop) - 1
        if newest < max(supported.start, versions.start):
            raise PeerError(f"the broker at {self.address} knows no version of {api} in {versions}")
        return newest

    def _send(self, api: str, version: int, body: Fields, deadline: float) -> _InFlight:
        assert self._writer is not None
        self._correlation_id += 1
        frame = codec.request_frame(
            api, version, body, correlation_id=self._correlation_id, client_id=BROKERS_CLIENT_ID
        )
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        in_flight = _InFlight(api, version, self._correlation_id, deadline, answer)
        self._in_flight.append(in_flight)
        self._writer.write(frame)
        return in_flight

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
                if size > CODEC_FRAME_BYTES_MAX:
                    self.close(f"it announced a response of {size} bytes")
                    return
                self._take(await reader.readexactly(size))
        except (OSError, EOFError) as error:
            self.close(str(error) or "it closed the connection")
        except (CodecError, PeerError) as error:
            self.close(f"its response is invalid: {error}")

    def _take(self, frame: bytes) -> None:
        if not self._in_flight:
            raise PeerError("a response without a request")
        asked = self._in_flight.popleft()
        try:
            response = codec.read_response(asked.api, asked.version, frame)
            if response.correlation_id != asked.correlation_id:
                raise PeerError("the correlation id of another request")
        except (CodecError, PeerError) as error:
            if not asked.answer.done():
                asked.answer.set_exception(PeerError(f"{self.address}: {error}"))
            raise
        if not asked.answer.done():
            asked.answer.set_result(response.body)


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Read a future's exception: asyncio logs one that nobody has read, as of a gone caller."""
    if not future.cancelled():
        future.exception()
