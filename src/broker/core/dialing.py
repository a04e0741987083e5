"""How this broker connects to others: with TLS, and with a login, if their listener has them.

The listener is the same for all brokers of a cluster (`inter.broker.listener.name`), so that this
broker's own settings say what the others expect. A login speaks Kafka's protocol; connections of
other wire protocols have none, and are of whom their certificate names.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from broker.model.address import Address
from broker.model.errors import PeerError, Unreachable

# Sends a frame's body; returns that of the answer. Raises OSError, EOFError, PeerError.
Exchange: TypeAlias = Callable[[bytes], Awaitable[bytes]]
# Logs in on a new connection. Raises PeerError if it is refused.
Login: TypeAlias = Callable[[Exchange], Awaitable[None]]

KAFKA = "kafka"
_LENGTH_BYTES = 4
_ANSWER_BYTES_MAX = 64 << 10  # of a login
_PIECE_BYTES = 16 << 10


class Channel(NamedTuple):
    """The TLS of a connected socket whose handshake is done, as the native side takes it over."""

    ssl_object: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO


class Dialer:
    """Connects to brokers; without more it sends plain bytes and logs in nowhere."""

    def __init__(self) -> None:
        """Begin with neither."""
        self._context: Callable[[], ssl.SSLContext] | None = None
        self._login: Login | None = None

    def secure_with(self, context: Callable[[], ssl.SSLContext]) -> None:
        """Encrypt every later connection with the context of the time when it is made."""
        self._context = context

    def log_in_with(self, login: Login) -> None:
        """Log in on every later connection of Kafka's protocol."""
        self._login = login

    async def dial(
        self, address: Address, protocol: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection that is secured and logged in; OSError, EOFError or PeerError."""
        if self._context is None:
            reader, writer = await asyncio.open_connection(address.host, address.port)
        else:
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=self._context(), server_hostname=address.host
            )
        if self._login is not None and protocol == KAFKA:

            async def exchange(body: bytes) -> bytes:
                writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
                return await _answer(reader.readexactly)

            try:
                await self._login(exchange)
            except BaseException:
                writer.close()
                raise
        return reader, writer

    async def watch(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        place: tuple[str, int],
        host: str,
    ) -> None:
        """Make a connection over which nothing is sent; OSError.

        Args:
            make: makes its protocol.
            place: host and port to connect to.
            host: the name that the broker's certificate has.
        """
        loop = asyncio.get_running_loop()
        if self._context is None:
            await loop.create_connection(make, *place)
        else:
            await loop.create_connection(make, *place, ssl=self._context(), server_hostname=host)

    async def connect(self, address: Address) -> tuple[socket.socket, Channel | None]:
        """Return a socket for Kafka's protocol that does not block, and its TLS; raises as `dial`.

        Everything that was received is in the channel.
        """
        connected = await connect(address)
        try:
            channel = None
            if self._context is not None:
                channel = await _secured(connected, self._context(), address.host)
            if self._login is not None:
                await self._login(_Frames(connected, channel).exchange)
        except BaseException:
            connected.close()
            raise
        return connected, channel


async def connect(address: Address) -> socket.socket:
    """Return a connected socket that does not block; OSError if there is none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    failure = OSError(f"no address of {address.host}")
    for family, kind, number, _, place in found:
        opened = socket.socket(family, kind, number)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(opened, place)
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise failure


async def _secured(connected: socket.socket, context: ssl.SSLContext, host: str) -> Channel:
    loop = asyncio.get_running_loop()
    channel = Channel(
        ssl_object=context.wrap_bio(
            incoming := ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname=host
        ),
        incoming=incoming,
        outgoing=outgoing,
    )
    is_done = False
    while not is_done:
        with suppress(ssl.SSLWantReadError):
            channel.ssl_object.do_handshake()
            is_done = True
        await loop.sock_sendall(connected, outgoing.read())
        if not is_done:
            received = await loop.sock_recv(connected, _PIECE_BYTES)
            if not received:
                raise Unreachable("it closed the connection during the TLS handshake")
            incoming.write(received)
    return channel


class _Frames:
    """Frames over a socket that is not one of asyncio's transports."""

    def __init__(self, connected: socket.socket, channel: Channel | None) -> None:
        self._socket = connected
        self._channel = channel

    async def exchange(self, body: bytes) -> bytes:
        """Send a frame; return the body of the answer."""
        data = len(body).to_bytes(_LENGTH_BYTES, "big") + body
        if self._channel is not None:
            self._channel.ssl_object.write(data)
            data = self._channel.outgoing.read()
        await asyncio.get_running_loop().sock_sendall(self._socket, data)
        return await _answer(self._exactly)

    async def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = await self._some(size - len(received))
            if not piece:
                raise EOFError("it closed the connection during the login")
            received += piece
        return received

    async def _some(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        if self._channel is None:
            return await loop.sock_recv(self._socket, size)
        while True:
            try:
                return self._channel.ssl_object.read(size)
            except ssl.SSLWantReadError:
                received = await loop.sock_recv(self._socket, _PIECE_BYTES)
            if not received:
                return b""
            self._channel.incoming.write(received)


async def _answer(exactly: Callable[[int], Awaitable[bytes]]) -> bytes:
    size = int.from_bytes(await exactly(_LENGTH_BYTES), "big")
    if size > _ANSWER_BYTES_MAX:
        raise PeerError(f"an answer of {size} bytes was announced to a login")
    return await exactly(size)
