"""Requests that Python serves: from a native connection to the protocol's handler and back."""

import logging
from asyncio import AbstractEventLoop, Future, Task, ensure_future
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from broker._native.wire.connection import Connection
from broker._native.wire.pending_reply import PendingReply
from broker.core.scheduling.fair_clocks import FairClocks
from broker.model.clock import monotonic_ns
from broker.model.errors import CodecError, PeerError
from broker.model.http_limits import CLIENT_TEXT_CHARS_MAX
from broker.model.limits import PYTHON_SHARE_US
from broker.protocols.base import Answer, Deferred, Immediate, WireProtocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker._native.log.partition_log import PartitionLog
    from broker.core.session import Session

_log = logging.getLogger(__name__)
# Reasons that need no warning: clients come and go; a refused request has been logged.
_ORDINARY = frozenset(
    (
        "closed by the peer",
        "reset by the peer",
        "idle",
        "the broker is stopping",
        "closed after its last reply",
        "no TLS connection",
        "closed without an end of TLS",
    )
)


class _Waiting(NamedTuple):
    """A request that has not started, in the order in which they start."""

    clock: int  # of its connection
    number: int  # breaks ties: the first to arrive is served first
    request: PendingReply


class Requests:
    """Serves the requests that the native path does not.

    A connection has one running request at most. Which request starts next is decided by fair
    clocks, which advance by the time that starting a request has taken.
    """

    def __init__(self, loop: AbstractEventLoop, now_ns: Callable[[], int] = monotonic_ns) -> None:
        """Start without requests."""
        self._loop = loop
        self._now_ns = now_ns
        self._clocks = FairClocks()
        self._number = 0
        self._waiting: list[_Waiting] = []  # a heap
        self._left: set[Connection] = set()  # connections with a waiting request
        # Referenced here until they are done; by connection, so that its end cancels them.
        self._running: dict[Connection, Future[Any]] = {}

    @property
    def queued(self) -> int:
        """How many requests wait."""
        return len(self._left)

    def dispatch(self, pending: list[PendingReply]) -> bool:
        """Start requests, for PYTHON_SHARE_US or a little more; return whether some are left."""
        if not self._waiting and len(pending) == 1:
            self._begin(pending[0])  # no other request waits
            return False
        for request in pending:
            self._number += 1
            clock = self._clocks.of(request.connection)
            heappush(self._waiting, _Waiting(clock, self._number, request))
            self._left.add(request.connection)
        begun_ns = self._now_ns()
        ends_ns = begun_ns + PYTHON_SHARE_US * 1_000
        while self._waiting and begun_ns < ends_ns:
            clock, _, request = heappop(self._waiting)
            if request.connection not in self._left:
                continue  # its connection has closed
            self._left.discard(request.connection)
            self._clocks.reach(clock)
            self._begin(request)
            now_ns = self._now_ns()
            self._clocks.advance(request.connection, now_ns - begun_ns)
            begun_ns = now_ns
        return bool(self._waiting)

    def _begin(self, request: PendingReply) -> None:
        protocol, client_id = _protocol(request), request.client_id
        session = cast("Session", request.session)
        if client_id is not None:
            session.client_id = client_id[:CLIENT_TEXT_CHARS_MAX]
        try:
            reply = protocol.handle(
                request.operation, request.version, client_id, request.take_body(), session
            )
        except Exception as error:  # noqa: BLE001 - logged by _give_up
            _give_up(request, error)
            return
        if isinstance(reply, (bytes, Answer)):
            _send(request, reply)
        elif isinstance(reply, Deferred):
            self._running[request.connection] = reply.future
            reply.future.add_done_callback(partial(self._finish, request, reply))
            request.waits()
        else:
            task: Task[None] = ensure_future(_answer(request, reply), loop=self._loop)
            self._running[request.connection] = task
            task.add_done_callback(partial(self._forget, request.connection))
            request.waits()

    def closed(self, connection: Connection, reason: str) -> None:
        """Cancel the requests of a closed connection, free its links, and log its end."""
        self._left.discard(connection)
        task = self._running.pop(connection, None)
        if task is not None:
            # Later: a task that is cancelled before its first step never awaits its coroutine.
            self._loop.call_soon(task.cancel)
        upstreams = cast("Session", connection.session).upstreams
        if upstreams is not None:
            upstreams.close()
        if reason in _ORDINARY:
            _log.debug("connection closed: peer=%s reason=%s", connection.peer_host, reason)
        else:
            _log.warning("connection closed: peer=%s reason=%s", connection.peer_host, reason)

    def _forget(self, connection: Connection, ended: Future[Any]) -> None:
        # The reply is sent before the task has ended: the next request may be running by now.
        if self._running.get(connection) is ended:
            del self._running[connection]

    def _finish(
        self, request: PendingReply, reply: Deferred[Any, Immediate], done: Future[Any]
    ) -> None:
        if done.cancelled():
            return  # the connection has closed
        self._forget(request.connection, done)
        try:
            _send(request, reply.answer())
        except Exception as error:  # noqa: BLE001 - logged by _give_up
            _give_up(request, error)


async def _answer(request: PendingReply, reply: Awaitable[Immediate]) -> None:
    try:
        _send(request, await reply)
    except Exception as error:  # noqa: BLE001 - logged by _give_up
        _give_up(request, error)


def _protocol(request: PendingReply) -> WireProtocol:
    return cast("WireProtocol", request.protocol)


def _send(request: PendingReply, answer: Immediate) -> None:
    if isinstance(answer, bytes):
        request.send(answer, written=_unseen(request))
        return
    if answer.login is not None:
        needs_login, is_bare, lifetime_ms = answer.login
        request.set_login(needs_login=needs_login, is_bare=is_bare, lifetime_ms=lifetime_ms)
    if answer.stream is not None:
        request.begin(answer.stream)
    else:
        request.send(
            answer.body,
            following=answer.following,
            is_last=answer.is_last,
            is_droppable=answer.is_droppable,
            written=_unseen(request),
            throttle_ms=answer.throttle_ms,
        )


def _unseen(request: PendingReply) -> "Sequence[tuple[PartitionLog, int]]":
    written = cast("Session", request.session).take_unseen()
    return cast("Sequence[tuple[PartitionLog, int]]", written)


def _give_up(request: PendingReply, error: Exception) -> None:
    """Log the error and close the connection: no error response exists, or none may be sent."""
    what = request.connection.peer_host, _protocol(request).name, request.operation
    if isinstance(error, (CodecError, PeerError)):
        _log.warning(
            "request refused: peer=%s protocol=%s operation=%d version=%d error=%s",
            *(*what, request.version, error),
        )
    else:
        _log.error(
            "request failed in the broker: peer=%s protocol=%s operation=%d version=%d error=%s",
            *(*what, request.version, error),
            exc_info=error,
        )
    request.close()
