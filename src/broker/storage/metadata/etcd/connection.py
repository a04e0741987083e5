"""One HTTP/1.1 connection to etcd's JSON gateway, which has at most one exchange at a time."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from broker.model.address import Address
from broker.storage.metadata.store_limits import (
    ETCD_ANSWER_BYTES_MAX,
    ETCD_ATTEMPT_SECONDS,
    ETCD_LINE_BYTES_MAX,
)

Body: TypeAlias = Mapping[str, Any]


class ProtocolError(Exception):
    """The answer is not HTTP/1.1 as the gateway speaks it."""


class Connection:
    """An open connection."""

    def __init__(
        self, endpoint: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Use a connected pair of streams; `connect` makes them."""
        self._endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._is_chunked = False
        self._is_last = False  # the server closes the connection after this answer
        self._length = 0

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return not (self._is_last or self._reader.at_eof() or self._writer.is_closing())

    async def send(self, path: str, body: Body, token: str) -> None:
        """Send a request to `/v3/<path>`."""
        content = json.dumps(body, separators=(",", ":")).encode()
        head = (
            f"POST /v3/{path} HTTP/1.1\r\nHost: {self._endpoint}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
            # A member without a leader ends a watch instead of being silent for ever.
            "Grpc-Metadata-Hasleader: true\r\n"
        )
        if token:
            head += f"Authorization: {token}\r\n"
        self._writer.write(head.encode() + b"\r\n" + content)
        await self._writer.drain()

    async def read_head(self) -> int:
        """Read the status line and the headers; return the status."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ProtocolError(f"the answer has no end of its headers: {error}") from error
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self._is_last = headers.get("connection", "").lower() == "close"
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length", "0")
        if version != "HTTP/1.1" or not status[:3].isdigit() or not length.isdigit():
            raise ProtocolError(f"not an answer of etcd's gateway: {first[:80]!r}")
        self._length = int(length)
        return int(status[:3])

    async def read_body(self) -> bytes:
        """Read the rest of an answer."""
        if not self._is_chunked:
            if self._length > ETCD_ANSWER_BYTES_MAX:
                raise ProtocolError(f"an answer of {self._length} bytes")
            return await self._exactly(self._length)
        body = bytearray()
        while chunk := await self._chunk():
            body += chunk
            if len(body) > ETCD_ANSWER_BYTES_MAX:
                raise ProtocolError(f"an answer of more than {ETCD_ANSWER_BYTES_MAX} bytes")
        return bytes(body)

    async def lines(self, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a chunked answer until it ends, or is silent for so long."""
        line = bytearray()
        while True:
            try:
                async with asyncio.timeout(silence_seconds):
                    chunk = await self._chunk()
            except TimeoutError:
                return
            if not chunk:
                return
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line += end
                if line.strip():
                    yield bytes(line)
                line.clear()
            line += rest
            if len(line) > ETCD_ANSWER_BYTES_MAX:
                raise ProtocolError(f"a line of more than {ETCD_ANSWER_BYTES_MAX} bytes")

    async def _chunk(self) -> bytes:
        """Return the next chunk; b"" after the last one and its trailers."""
        size_line = await self._line()
        try:
            size = int(size_line.split(b";")[0], 16)
        except ValueError:
            raise ProtocolError(f"not the size of a chunk: {size_line[:40]!r}") from None
        if size > ETCD_ANSWER_BYTES_MAX:
            raise ProtocolError(f"a chunk of {size} bytes")
        if size == 0:
            while await self._line():
                pass
            return b""
        chunk = await self._exactly(size)
        await self._exactly(len(b"\r\n"))
        return chunk

    async def _line(self) -> bytes:
        try:
            return (await self._reader.readuntil(b"\r\n"))[:-2]
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ProtocolError(f"the answer ends within a line: {error}") from error

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ProtocolError(f"the answer ends early: {error}") from error

    def close(self) -> None:
        """Close it at once: what is left of an exchange is not waited for."""
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until it is closed."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ETCD_ATTEMPT_SECONDS):
                await self._writer.wait_closed()


async def connect(endpoint: Address, tls: ssl.SSLContext | None) -> Connection:
    """Connect to an endpoint; OSError, also of TLS, when that fails."""
    reader, writer = await asyncio.open_connection(
        endpoint.host, endpoint.port, ssl=tls, limit=ETCD_LINE_BYTES_MAX
    )
    return Connection(endpoint, reader, writer)


def parse(text: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer; ProtocolError when it is something else."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"not JSON: {text[:80]!r}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"not a JSON object: {text[:80]!r}")
    return value
