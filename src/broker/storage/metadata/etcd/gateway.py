"""Calls to etcd's JSON gateway (`/v3/...`) on one of several endpoints.

    call      POST, one JSON object back. A connection serves one call at a time and is kept.
    stream    POST, then JSON objects, one per line, until either side ends it.

All calls go to one endpoint until it fails: it cannot be reached, does not answer in time, has no
leader or stops. The next call goes to the next endpoint. A call that changes nothing is repeated
there until its deadline; one that changes something is repeated only if etcd cannot have applied
it, because a request whose answer is lost may have been applied.

Bytes are base64 and 64-bit integers are strings in the gateway's JSON. The gateway of etcd 3.4 to
3.7 is meant; it is on by default.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

from broker.model.address import Address
from broker.model.errors import StorageError
from broker.model.secret import Secret
from broker.storage.metadata import OutcomeUnknown, Unavailable
from broker.storage.metadata.etcd.connection import (
    Body,
    Connection,
    ProtocolError,
    connect,
    parse,
)
from broker.storage.metadata.store_limits import (
    ETCD_ATTEMPT_SECONDS,
    ETCD_AUTHENTICATION_SECONDS,
    ETCD_CONNECTIONS_KEPT_MAX,
)

# Codes of gRPC, as the gateway's answers have them.
_UNKNOWN = 2
_DEADLINE_EXCEEDED = 4
_UNAVAILABLE = 14
_UNAUTHENTICATED = 16
_OK = 200

# Another member may answer what this one could not.
_OF_THE_ENDPOINT = frozenset({_DEADLINE_EXCEEDED, _UNAVAILABLE})
# etcd refuses a request with this text before it proposes it to the other members.
_NO_LEADER = "etcdserver: no leader"
# The rights have changed since the token was made; its code is that of any bad argument.
_OLD_TOKEN = "revision of auth store is old"  # noqa: S105 (a message of etcd's)

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
    password: Secret


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
        self.is_closed = False
        self._endpoints = deque(endpoints)
        self._tls = tls
        self._credentials = credentials
        self._token = ""
        self._authenticating = asyncio.Lock()
        self._idle: list[Connection] = []  # all to the first endpoint
        self._streams: set[Connection] = set()

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
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        # A short deadline leaves time for a second endpoint.
        longest = min(ETCD_ATTEMPT_SECONDS, seconds / min(2, len(self._endpoints)))
        failures: deque[str] = deque(maxlen=len(self._endpoints))
        cause: BaseException | None = None
        while (left := deadline - clock()) > 0 and not self.is_closed:
            endpoint = self.endpoint
            attempt = ETCD_AUTHENTICATION_SECONDS if self._lacks_token else longest
            try:
                return await self._attempt(path, body, min(left, attempt))
            except _Failure as failure:
                failures.append(f"{endpoint}: {failure}")
                cause = failure.__cause__
                if failure.is_of_the_endpoint:
                    self._rotate(endpoint)
                if changes and failure.is_sent:
                    raise OutcomeUnknown(f"the answer of etcd was lost: {failures[-1]}") from cause
                if len(failures) == failures.maxlen:
                    await asyncio.sleep(longest / 10)
        reason = "the store is closed" if self.is_closed else "; ".join(failures) or "no time left"
        raise Unavailable(f"etcd does not answer: {reason}") from cause

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
        connection: Connection | None = None
        token = ""
        try:
            async with asyncio.timeout(ETCD_AUTHENTICATION_SECONDS):
                token = await self._authenticate()
            async with asyncio.timeout(ETCD_ATTEMPT_SECONDS):
                connection = await connect(endpoint, self._tls)
                self._streams.add(connection)
                await connection.send(path, body, token)
                status = await connection.read_head()
                if status != _OK:
                    raise _refusal(parse(await connection.read_body()))
            async with aclosing(connection.lines(silence_seconds)) as lines:
                async for line in lines:
                    answer = parse(line)
                    if not isinstance(result := answer.get("result"), dict):
                        raise _refusal(answer)
                    yield result
        except EtcdError as error:
            if self._is_of_the_token(error, token):
                return
            if error.code not in _OF_THE_ENDPOINT:
                raise
            _log.debug("watch ended: endpoint=%s error=%s", endpoint, error)
            self._rotate(endpoint)
        except (OSError, TimeoutError, _Failure, ProtocolError) as error:
            _log.debug("watch ended: endpoint=%s error=%r", endpoint, error)
            self._rotate(endpoint)
        finally:
            if connection is not None:
                self._streams.discard(connection)
                connection.close()

    def forget_token(self) -> None:
        """Ask for another token before the next request."""
        self._token = ""

    async def close(self) -> None:
        """Close all connections: streams end, and calls raise Unavailable."""
        self.is_closed = True
        closing = (*self._idle, *self._streams)
        self._idle.clear()
        for connection in closing:
            connection.close()
        for connection in closing:
            await connection.wait_closed()

    async def _attempt(self, path: str, body: Body, seconds: float) -> dict[str, Any]:
        progress = _Progress()
        token = ""
        try:
            async with asyncio.timeout(seconds):
                token = await self._authenticate()
                return await self._exchange(path, body, token, progress)
        except TimeoutError:
            raise _Failure("no answer in time", is_sent=progress.is_sent) from None
        except (OSError, ProtocolError) as error:
            text = str(error) or type(error).__name__
            raise _Failure(text, is_sent=progress.is_sent) from error
        except EtcdError as error:
            if self._is_of_the_token(error, token):
                raise _Failure(str(error), is_sent=False, is_of_the_endpoint=False) from error
            if error.code in _OF_THE_ENDPOINT:
                raise _Failure(str(error), is_sent=_NO_LEADER not in str(error)) from error
            raise

    async def _authenticate(self) -> str:
        """Return the token of the next request; "" without credentials."""
        if self._lacks_token:
            # One call asks for all: etcd hashes a password for 0.1 s, on purpose.
            async with self._authenticating:
                if self._credentials and not self._token:
                    name, password = self._credentials
                    body = {"name": name, "password": password.reveal()}
                    answer = await self._exchange("auth/authenticate", body, "", _Progress())
                    self._token = str(answer.get("token", ""))
        return self._token

    @property
    def _lacks_token(self) -> bool:
        return self._credentials is not None and not self._token

    def _is_of_the_token(self, error: EtcdError, token: str) -> bool:
        """Whether a request was refused for its token; the next attempt asks for another."""
        if not token or (error.code != _UNAUTHENTICATED and _OLD_TOKEN not in str(error)):
            return False
        if self._token == token:  # no other call has asked for one since
            self.forget_token()
        return True

    async def _exchange(
        self, path: str, body: Body, token: str, progress: "_Progress"
    ) -> dict[str, Any]:
        async with self._connection() as connection:
            progress.is_sent = True
            await connection.send(path, body, token)
            status = await connection.read_head()
            answer = parse(await connection.read_body())
        if status != _OK or "error" in answer:
            raise _refusal(answer)
        return answer

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Lend a connection to the present endpoint; it is closed if its exchange does not end."""
        endpoint = self.endpoint
        connection = self._take_idle() or await connect(endpoint, self._tls)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        is_kept = endpoint == self.endpoint and len(self._idle) < ETCD_CONNECTIONS_KEPT_MAX
        if is_kept and connection.is_usable and not self.is_closed:
            self._idle.append(connection)
        else:
            connection.close()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def _rotate(self, failed: Address) -> None:
        """Send the next call to the next endpoint, unless another call has done that already."""
        if failed != self.endpoint:
            return
        self._endpoints.rotate(-1)
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        if len(self._endpoints) > 1 and not self.is_closed:
            _log.info("etcd endpoint changed: from=%s to=%s", failed, self.endpoint)


class _Progress:
    """How far an attempt has come."""

    is_sent = False  # some bytes of the request may have reached etcd


class _Failure(Exception):  # noqa: N818 (of one attempt, never seen outside)
    """An attempt has failed; another one may succeed."""

    def __init__(self, text: str, *, is_sent: bool, is_of_the_endpoint: bool = True) -> None:
        super().__init__(text)
        self.is_sent = is_sent  # the request may have been applied
        self.is_of_the_endpoint = is_of_the_endpoint


def _refusal(answer: dict[str, Any]) -> EtcdError:
    """Return the error that an answer states; a stream's has it one level deeper."""
    error = answer.get("error", answer)
    fields = error if isinstance(error, dict) else answer
    text = str(fields.get("message") or fields.get("error") or answer)
    code = fields.get("code") or fields.get("grpc_code")
    return EtcdError(text, code if isinstance(code, int) else _UNKNOWN)
