"""Connections to other brokers, over which requests of clients are forwarded.

    client ── request ──> this broker ── mark, the same request ──> the broker that leads
           <── answer ──              <────── the same answer ──────

A link speaks the protocol of its client. Before a request it sends a mark: a request of that
protocol by which the other broker knows that it must not forward what follows, on whose behalf it
comes, and up to which revision of the metadata its image has to be. The mark is sent again only
when it has changed.

A client's connection has one link at most to each other broker, so that its requests keep their
order there. When it closes, its idle links serve other connections; a link with an unanswered
request is closed. All links together are bounded: for another one, the link that was idle for the
longest time is closed, or a request waits until one becomes idle. What fails here has an unknown
outcome, as if the client's own connection had failed.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Protocol

from broker.core.dialing import Dialer
from broker.core.scheduling.admission import Admission
from broker.model import limits
from broker.model.address import Address
from broker.model.errors import PeerError, Unreachable
from broker.model.listener import UNSECURED, ListenerConfig

_LENGTH_BYTES = 4
_PIECE_BYTES = 256 << 10
_FAILURES = (OSError, EOFError, TimeoutError, UnicodeError, PeerError)


class Framing(Protocol):
    """How a protocol cuts a stream of bytes into requests and answers."""

    def framed(self, body: bytes) -> tuple[bytes, ...]:
        """Return the pieces that are sent for a request's body."""

    async def read(self, reader: asyncio.StreamReader, memory: Admission) -> bytes:
        """Return the body of the next answer; a long one waits for its share of the memory.

        Raises EOFError, OSError; PeerError for an answer that is too long.
        """


class Lengths(NamedTuple):
    """Frames of a uint32 length and a body of at most `size_max` bytes."""

    size_max: int

    def framed(self, body: bytes) -> tuple[bytes, ...]:
        """Return the length and the body."""
        return len(body).to_bytes(_LENGTH_BYTES, "big"), body

    async def read(self, reader: asyncio.StreamReader, memory: Admission) -> bytes:
        """Return the next body, without its length."""
        size = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        if size > self.size_max:
            raise PeerError(f"an answer of {size} bytes was announced")
        if size <= limits.FORWARDED_SHORT_BYTES_MAX:
            return await reader.readexactly(size)
        async with memory.turn(None, 0, size):
            pieces = []
            while size > 0:
                piece = await reader.read(min(size, _PIECE_BYTES))
                if not piece:
                    raise EOFError("it closed the connection within an answer")
                pieces.append(piece)
                size -= len(piece)
            return b"".join(pieces)


class Lines(NamedTuple):
    """Lines of at most `size_max` bytes; there is never more than one answer to be read."""

    size_max: int

    def framed(self, body: bytes) -> tuple[bytes, ...]:
        """Return the line and its newline."""
        return body, b"\n"

    async def read(self, reader: asyncio.StreamReader, memory: Admission) -> bytes:
        """Return the next line, with its newline."""
        with suppress(asyncio.LimitOverrunError):
            return await reader.readuntil()
        async with memory.turn(None, 0, self.size_max):
            pieces: list[bytes] = []
            left = self.size_max
            while not (pieces and pieces[-1].endswith(b"\n")):
                pieces.append(await reader.read(_PIECE_BYTES))
                left -= len(pieces[-1])
                if not pieces[-1]:
                    raise EOFError("it closed the connection within an answer")
                if left < 0:
                    raise PeerError(f"an answer has more than {self.size_max} bytes")
            return b"".join(pieces)


class Dialect(NamedTuple):
    """What a protocol's links need to know of it."""

    protocol: str
    framing: Framing
    accepted: bytes  # the answer to a mark
    greeting: bytes = b""  # the first request of a connection, by which the protocol is detected


class Nodes(Protocol):
    """The brokers of the cluster, as this one knows them."""

    @property
    def revision(self) -> int:
        """The revision of this broker's image of the metadata."""

    def address_of(self, broker_id: int, protocol: str) -> Address | None:
        """Return where a broker serves a protocol, None if it is gone or does not serve it."""

    async def follow(self, revision: int) -> None:
        """Wait, for a bounded time, until this broker serves what a revision has made it lead."""

    async def learn(self, topic: str) -> None:
        """Look up a topic in the store; if it is there, wait as `follow` does until it is known."""


class Link:
    """One connection to another broker, used for one request at a time."""

    def __init__(self, broker_id: int, dialect: Dialect, memory: Admission) -> None:
        """Connect to nothing yet."""
        self.broker_id = broker_id
        self.dialect = dialect
        self.idle_since = 0.0
        self._memory = memory
        self._mark = b""  # the last one that was accepted
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it is connected, as far as is known here."""
        if self._reader is None or self._writer is None:
            return False
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def connect(self, address: Address, dialer: Dialer) -> None:
        """Connect, and let the other side detect the protocol."""
        async with asyncio.timeout(limits.PEER_CONNECT_SECONDS):
            connecting = dialer.dial(address, self.dialect.protocol)
            self._reader, self._writer = await connecting
        connected = self._writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, limits.KEEPALIVE_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, limits.KEEPALIVE_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, limits.KEEPALIVE_PROBES)
        if self.dialect.greeting:
            await self._send(self.dialect.greeting)
            await self.next()

    async def request(self, mark: bytes, body: bytes) -> None:
        """Send a request, after its mark if that is another one than before."""
        if mark != self._mark:
            self._mark = b""
            await self._send(mark)
            answer = await self.next()
            if answer != self.dialect.accepted:
                raise PeerError(f"broker {self.broker_id} refuses forwarded requests: {answer!r}")
            self._mark = mark
        await self._send(body)

    async def next(self) -> bytes:
        """Return the next answer, or the next frame of a stream."""
        assert self._reader is not None
        return await self.dialect.framing.read(self._reader, self._memory)

    def close(self) -> None:
        """Close it at once."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def _send(self, body: bytes) -> None:
        """Send a body in pieces, so that no copy of it waits for the socket."""
        assert self._writer is not None
        for part in self.dialect.framing.framed(body):
            for start in range(0, len(part), _PIECE_BYTES):
                self._writer.write(part[start : start + _PIECE_BYTES])
                await self._writer.drain()


_Key = tuple[int, str]  # a broker and a protocol


class NoRoomError(Unreachable):
    """This broker relays as many streams as it may."""


class Upstreams:
    """The idle links of one client's connection."""

    __slots__ = ("_links", "held", "is_closed")

    def __init__(self, links: "Links") -> None:
        """Hold none yet."""
        self._links = links
        self.held: dict[_Key, Link] = {}
        self.is_closed = False

    def close(self) -> None:
        """Let other connections use the links: the client has gone."""
        self.is_closed = True
        for key in tuple(self.held):
            self._links.free(self, key)


class Links:
    """All links of this broker."""

    def __init__(
        self,
        nodes: Nodes,
        count_max: Callable[[], int],
        dialer: Dialer | None = None,
        listener: ListenerConfig = UNSECURED,
    ) -> None:
        """Connect to nothing yet; there are at most `count_max` links at the same time.

        `listener` is that of the brokers: over others nobody is taken for one.
        """
        self._dialer = dialer or Dialer()
        self.nodes = nodes
        self.listener = listener
        self._count_max = count_max
        self._memory = Admission(limits.FORWARDED_ANSWERS_BYTES_MAX, 0)
        self._requests = Admission(
            limits.FORWARDED_REQUESTS_BYTES_MAX, limits.FORWARDED_REQUESTS_BYTES_MAX
        )
        self._open: set[Link] = set()
        self._streams = 0
        # Idle links, in the order in which they became idle, and who holds each.
        self._idle: dict[Link, Upstreams | None] = {}
        self._free: dict[_Key, list[Link]] = {}
        self._became_idle = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """The number of links."""
        return len(self._open)

    def upstreams(self) -> Upstreams:
        """Return the place for the links of another connection."""
        return Upstreams(self)

    async def ask(
        self,
        upstreams: Upstreams,
        broker_id: int,
        dialect: Dialect,
        mark: bytes,
        body: bytes,
        *,
        wait_seconds: float = 0,
    ) -> bytes:
        """Send a request to another broker and return its answer.

        Args:
            upstreams: of the connection that the request came on.
            broker_id: the broker that gets it.
            dialect: of the connection.
            mark: a request of the dialect.
            body: the request.
            wait_seconds: how long the other broker may wait before it answers.

        Raises:
            Unreachable: there is no answer; the request may have been served nevertheless.
        """
        seconds = limits.FORWARDED_ANSWER_SECONDS + wait_seconds
        async with self.taken(upstreams, broker_id, dialect, seconds) as link:
            if len(body) <= limits.FORWARDED_SHORT_BYTES_MAX:
                await link.request(mark, body)
                return await link.next()
            async with self._requests.turn(upstreams, len(body), len(body)):
                await link.request(mark, body)
                return await link.next()

    @asynccontextmanager
    async def stream(
        self, upstreams: Upstreams, broker_id: int, dialect: Dialect
    ) -> AsyncIterator[Link]:
        """Use a link as `taken` does, for as long as a stream lasts.

        Every second link is left to requests, which would wait until streams end.

        Raises:
            NoRoomError: the others are used by streams.
            Unreachable: the link has failed, or none became idle in time.
        """
        if self._streams >= max(1, self._count_max() // 2):
            raise NoRoomError(f"{self._streams} streams of other brokers are relayed already")
        self._streams += 1
        try:
            async with self.taken(upstreams, broker_id, dialect, None) as link:
                yield link
        finally:
            self._streams -= 1

    @asynccontextmanager
    async def taken(
        self, upstreams: Upstreams, broker_id: int, dialect: Dialect, seconds: float | None
    ) -> AsyncIterator[Link]:
        """Use a link alone for some time; it is kept for later, unless it fails.

        Without `seconds` it may be used for any time, once it is there.

        Raises Unreachable for every failure, and when `seconds` are over, or
        FORWARDED_ANSWER_SECONDS without a link.
        """
        link: Link | None = None
        in_time = limits.FORWARDED_ANSWER_SECONDS if seconds is None else seconds
        try:
            async with asyncio.timeout(in_time) as timeout:
                link = await self._take(upstreams, broker_id, dialect)
                if seconds is None:
                    timeout.reschedule(None)
                yield link
        except _FAILURES as error:
            text = str(error) or "no answer in time"
            raise Unreachable(f"broker {broker_id}: {text}") from error
        else:
            self._became_idle_of(upstreams, link)
            link = None
        finally:
            if link is not None:
                self._close(link)

    def retain(self, broker_ids: AbstractSet[int]) -> None:
        """Close the links to all brokers but these; requests on them fail."""
        for link in tuple(self._open):
            if link.broker_id not in broker_ids:
                self._close(link)

    def close(self) -> None:
        """Close all links."""
        self.retain(frozenset())

    def free(self, upstreams: Upstreams, key: _Key) -> None:
        """Let others use an idle link of a connection."""
        link = upstreams.held.pop(key)
        self._idle[link] = None
        self._free.setdefault(key, []).append(link)

    # ---- links -----------------------------------------------------------------------------------

    async def _take(self, upstreams: Upstreams, broker_id: int, dialect: Dialect) -> Link:
        address = self.nodes.address_of(broker_id, dialect.protocol)
        if address is None:
            raise PeerError("it is not in the cluster now")
        key = broker_id, dialect.protocol
        while (link := self._idle_link(upstreams, key)) is not None:
            if link.is_usable:
                return link
            self._close(link)
        while len(self._open) >= self._count_max() and not self._evict():
            self._became_idle.clear()
            await self._became_idle.wait()
        link = Link(broker_id, dialect, self._memory)
        self._open.add(link)
        try:
            await link.connect(address, self._dialer)
        except BaseException:
            self._close(link)
            raise
        return link

    def _idle_link(self, upstreams: Upstreams, key: _Key) -> Link | None:
        link = upstreams.held.pop(key, None)
        if link is None:
            unused = self._free.get(key)
            if not unused:
                return None
            link = unused.pop()
        del self._idle[link]
        return link

    def _became_idle_of(self, upstreams: Upstreams, link: Link) -> None:
        key = link.broker_id, link.dialect.protocol
        if key in upstreams.held or link not in self._open:
            self._close(link)
            return
        loop = asyncio.get_running_loop()
        link.idle_since = loop.time()
        upstreams.held[key] = link
        self._idle[link] = upstreams
        if upstreams.is_closed:
            self.free(upstreams, key)
        self._became_idle.set()
        if self._sweep is None:
            self._sweep = loop.call_later(limits.FORWARDING_IDLE_SECONDS, self._close_idle)

    def _evict(self) -> bool:
        """Close the link that has been idle for the longest time; return whether there is one."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        self._close(oldest)
        return True

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        before = loop.time() - limits.FORWARDING_IDLE_SECONDS
        for link in tuple(self._idle):
            if link.idle_since <= before:
                self._close(link)
        if self._idle:
            self._sweep = loop.call_later(limits.FORWARDING_IDLE_SECONDS / 2, self._close_idle)

    def _close(self, link: Link) -> None:
        key = link.broker_id, link.dialect.protocol
        if link in self._idle:
            holder = self._idle.pop(link)
            if holder is not None:
                del holder.held[key]
            else:
                self._free[key].remove(link)
        self._open.discard(link)
        self._became_idle.set()
        link.close()
