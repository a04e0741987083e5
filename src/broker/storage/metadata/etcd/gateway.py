"""Calls to etcd's JSON gateway (`/v3/...`): HTTP/1.1 over asyncio's streams, several endpoints.

    call      POST, one JSON object back. A connection serves one call at a time and is kept.
    stream    POST, then JSON objects, one per line, until either side ends it.

All calls go to one endpoint until it fails: it cannot be reached, does not answer in time, has no
leader or stops. The next call goes to the next endpoint. A call that changes nothing is repeated
there until its deadline; one that changes something is repeated only if no byte of it was sent,
because a request whose answer is lost may have been applied.

Bytes are base64 and 64-bit integers are strings in the gateway's JSON. The gateway of etcd 3.4 to
3.7 is meant; it is on by default.
"""

import asyncio
import json
import logging
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

from broker.model.address import Address
from broker.model.errors import StorageError
from broker.model.limits import (
    ETCD_ANSWER_BYTES_MAX,
    ETCD_ATTEMPT_SECONDS,
    ETCD_CONNECTIONS_KEPT_MAX,
    ETCD_LINE_BYTES_MAX,
)
from broker.storage.metadata import OutcomeUnknown, Unavailable

Body: TypeAlias = Mapping[str, Any]

# Codes of gRPC, as the gateway's answers have them.
_DEADLINE_EXCEEDED = 4
_UNAVAILABLE = 14
_UNAUTHENTICATED = 16
_OK = 200

_log = logging.getLogger(__name__)


class EtcdError(StorageError):
    """etcd has refused a request; nothing was changed."""

    def __init__(self, text: str, code: int) -> None:
        """Keep etcd's text and its gRPC code."""
        super().__init__(text)
        self.code = code


class Credentials(NamedTuple):
    """A user of etcd."""

    name: str
    password: str


class Gateway:
    """The endpoints of one etcd cluster."""

    def __init__(
        self,
        endpoints: Sequence[Address],
        *,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """Use these endpoints, the first one first; nothing is connected yet."""
        self._endpoints = deque(endpoints)
        self._tls = tls
        self._credentials = credentials
        self._token = ""
        self._idle: list[_Connection] = []  # all to the first endpoint
        self._streams: set[_Connection] = set()

    @property
    def endpoint(self) -> Address:
        """The endpoint that gets the next call."""
        return self._endpoints[0]

    async def call(self, path: str, body: Body, *, seconds: float, changes: bool) -> dict[str, Any]:
        """Return the answer to a request.

        Args:
            path: below `/v3/`, as in `kv/range`.
            body: the request, as the gateway's JSON has it.
            seconds: the deadline of all attempts together.
            changes: whether the request changes something, so that it must not be sent twice.

        Raises:
            EtcdError: etcd has refused the request.
            Unavailable: nobody answered; the request has not been applied.
            OutcomeUnknown: only if it changes something: its answer was lost.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        failures: list[str] = []
        while True:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise Unavailable(f"etcd does not answer: {'; '.join(failures) or 'no time left'}")
            endpoint = self.endpoint
            try:
                return await self._attempt(path, body, min(left, ETCD_ATTEMPT_SECONDS))
            except _Failure as failure:
                failures = [*failures[-(len(self._endpoints) - 1) :], f"{endpoint}: {failure}"]
                self._rotate(endpoint)
                if changes and failure.is_sent:
                    raise OutcomeUnknown(f"the answer of etcd was lost: {failures[-1]}") from None
                if len(failures) >= len(self._endpoints):
                    await asyncio.sleep(min(left, ETCD_ATTEMPT_SECONDS) / 10)

    async def stream(
        self, path: str, body: Body, *, silence_seconds: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the objects of a streamed answer until it ends.

        It ends when its endpoint fails, or has sent nothing for `silence_seconds`. The caller asks
        again, which the next endpoint answers if this one has failed.

        Raises:
            EtcdError: etcd has refused the request.
        """
        endpoint = self.endpoint
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(ETCD_ATTEMPT_SECONDS):
                await self._authenticate()
                connection = await self._connect(endpoint)
                self._streams.add(connection)
                await connection.send(path, body, self._token)
                status = await connection.read_head()
            if status != _OK:
                async with asyncio.timeout(ETCD_ATTEMPT_SECONDS):
                    _raise_refusal(await connection.read_body())
            async for line in connection.lines(silence_seconds):
                answer = _parse(line)
                if "error" in answer:
                    _raise_refusal(line)
                yield answer["result"]
        except EtcdError as error:
            if self._has_expired(error):
                return
            if error.code not in _OF_THE_ENDPOINT:
                raise
            _log.debug("watch ended: endpoint=%s error=%s", endpoint, error)
            self._rotate(endpoint)
        except (OSError, TimeoutError, _Failure, _ProtocolError) as error:
            _log.debug("watch ended: endpoint=%s error=%r", endpoint, error)
            self._rotate(endpoint)
        finally:
            if connection is not None:
                self._streams.discard(connection)
                connection.close()

    async def close(self) -> None:
        """Close all connections; streams end."""
        closing = (*self._idle, *self._streams)
        self._idle.clear()
        for connection in closing:
            connection.close()
        for connection in closing:
            await connection.wait_closed()

    async def _attempt(self, path: str, body: Body, seconds: float) -> dict[str, Any]:
        progress = _Progress()
        try:
            async with asyncio.timeout(seconds):
                await self._authenticate()
                return await self._exchange(path, body, progress)
        except TimeoutError:
            raise _Failure("no answer in time", is_sent=progress.is_sent) from None
        except (OSError, _ProtocolError) as error:
            text = str(error) or type(error).__name__
            raise _Failure(text, is_sent=progress.is_sent) from error
        except EtcdError as error:
            if self._has_expired(error):
                raise _Failure(str(error), is_sent=False) from error
            if error.code in _OF_THE_ENDPOINT:
                raise _Failure(str(error), is_sent=True) from error
            raise

    async def _authenticate(self) -> None:
        if self._credentials and not self._token:
            body = {"name": self._credentials.name, "password": self._credentials.password}
            answer = await self._exchange("auth/authenticate", body, _Progress())
            self._token = str(answer["token"])

    def _has_expired(self, error: EtcdError) -> bool:
        """Whether a request was refused for its token; the next attempt asks for another."""
        if error.code != _UNAUTHENTICATED or not self._token:
            return False
        self._token = ""
        return True

    async def _exchange(self, path: str, body: Body, progress: "_Progress") -> dict[str, Any]:
        async with self._connection() as connection:
            progress.is_sent = True
            await connection.send(path, body, self._token)
            status = await connection.read_head()
            answer = await connection.read_body()
        if status != _OK:
            _raise_refusal(answer)
        return _parse(answer)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator["_Connection"]:
        """Lend a connection to the present endpoint; it is closed if its exchange does not end."""
        endpoint = self.endpoint
        connection = self._take_idle() or await self._connect(endpoint)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if endpoint == self.endpoint and len(self._idle) < ETCD_CONNECTIONS_KEPT_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    def _take_idle(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    async def _connect(self, endpoint: Address) -> "_Connection":
        try:
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=self._tls, limit=ETCD_LINE_BYTES_MAX
            )
        except OSError as error:
            raise _Failure(str(error), is_sent=False) from error
        return _Connection(endpoint, reader, writer)

    def _rotate(self, failed: Address) -> None:
        """Send the next call to the next endpoint, unless another call has done that already."""
        if failed != self.endpoint:
            return
        self._endpoints.rotate(-1)
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        if len(self._endpoints) > 1:
            _log.info("etcd endpoint changed: from=%s to=%s", failed, self.endpoint)


class _Progress:
    """How far an attempt has come."""

    is_sent = False  # some bytes of the request may have reached etcd


class _Failure(Exception):  # noqa: N818 (of one attempt, never seen outside)
    """An attempt at one endpoint has failed; another one may succeed."""

    def __init__(self, text: str, *, is_sent: bool) -> None:
        super().__init__(text)
        self.is_sent = is_sent  # the request may have been applied


class _ProtocolError(Exception):
    """The answer is not HTTP/1.1 as the gateway speaks it."""


class _Connection:
    """One connection, which has at most one exchange at a time."""

    def __init__(
        self, endpoint: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._is_chunked = False
        self._length = 0

    @property
    def is_usable(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def send(self, path: str, body: Body, token: str) -> None:
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
            raise _ProtocolError(f"the answer has no end of its headers: {error}") from error
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length", "0")
        if version != "HTTP/1.1" or not status[:3].isdigit() or not length.isdigit():
            raise _ProtocolError(f"not an answer of etcd's gateway: {first[:80]!r}")
        self._length = int(length)
        return int(status[:3])

    async def read_body(self) -> bytes:
        if not self._is_chunked:
            if self._length > ETCD_ANSWER_BYTES_MAX:
                raise _ProtocolError(f"an answer of {self._length} bytes")
            return await self._exactly(self._length)
        body = bytearray()
        while chunk := await self._chunk():
            body += chunk
            if len(body) > ETCD_ANSWER_BYTES_MAX:
                raise _ProtocolError(f"an answer of more than {ETCD_ANSWER_BYTES_MAX} bytes")
        return bytes(body)

    async def lines(self, silence_seconds: float) -> AsyncIterator[bytes]:
        """Yield the lines of a chunked answer."""
        rest = b""
        while True:
            async with asyncio.timeout(silence_seconds):
                chunk = await self._chunk()
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > ETCD_ANSWER_BYTES_MAX:
                raise _ProtocolError(f"a line of more than {ETCD_ANSWER_BYTES_MAX} bytes")
            for line in lines:
                if line.strip():
                    yield line

    async def _chunk(self) -> bytes:
        """Return the next chunk; b"" after the last one and its trailers."""
        size_line = await self._line()
        try:
            size = int(size_line.split(b";")[0], 16)
        except ValueError:
            raise _ProtocolError(f"not the size of a chunk: {size_line[:40]!r}") from None
        if size > ETCD_ANSWER_BYTES_MAX:
            raise _ProtocolError(f"a chunk of {size} bytes")
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
            raise _ProtocolError(f"the answer ends within a line: {error}") from error

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise _ProtocolError(f"the answer ends early: {error}") from error

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ETCD_ATTEMPT_SECONDS):
                await self._writer.wait_closed()


# Another member may answer what this one could not.
_OF_THE_ENDPOINT = frozenset({_DEADLINE_EXCEEDED, _UNAVAILABLE})


def _parse(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _ProtocolError(f"not JSON: {text[:80]!r}") from error
    if not isinstance(value, dict):
        raise _ProtocolError(f"not a JSON object: {text[:80]!r}")
    return value


def _raise_refusal(body: bytes) -> None:
    """Raise the EtcdError of an answer; a stream's has it one level deeper."""
    answer = _parse(body)
    error = answer.get("error", answer)
    fields = error if isinstance(error, dict) else answer
    text = str(fields.get("message") or fields.get("error") or answer)
    raise EtcdError(text, int(fields.get("code") or fields.get("grpc_code") or 2))
