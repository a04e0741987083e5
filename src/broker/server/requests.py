"""Requests that Python answers: from the native connection to a protocol's handler and back."""

import logging
from asyncio import AbstractEventLoop, Future, Task, ensure_future
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from broker._native.wire.connection import Connection, PendingReply
from broker.model.errors import CodecError, PeerError
from broker.protocols.base import Answer, Deferred, WireProtocol

if TYPE_CHECKING:
    from broker.core.session import Session

_log = logging.getLogger(__name__)
# Ends that need no line: clients come and go, and a refused request has had its own.
_ORDINARY = frozenset(("closed by the peer", "idle", "the broker stops", "answered by closing"))


class Requests:
    """Serves what the native paths hand over."""

    def __init__(self, loop: AbstractEventLoop, protocol: WireProtocol) -> None:
        """Serve one protocol."""
        self._loop = loop
        self._protocol = protocol
        # Owned here until they are done; by connection, so that its end ends them.
        self._running: dict[Connection, Future[Any]] = {}

    def dispatch(self, pending: list[PendingReply]) -> None:
        """Start each request; at most one per connection is ever under way."""
        for request in pending:
            try:
                reply = self._protocol.handle(
                    request.api_key,
                    request.api_version,
                    request.client_id,
                    request.body,
                    cast("Session", request.session),
                )
            except (CodecError, PeerError) as error:
                _refuse(request, error)
                continue
            if reply is None or isinstance(reply, bytes):
                request.send(reply)
            elif isinstance(reply, Deferred):
                self._running[request.connection] = reply.future
                reply.future.add_done_callback(partial(self._finish, request, reply))
            else:
                task: Task[None] = ensure_future(_answer(request, reply), loop=self._loop)
                self._running[request.connection] = task
                task.add_done_callback(partial(self._forget, request.connection))

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection has ended: so do the requests on it."""
        task = self._running.pop(connection, None)
        if task is not None:
            # Not at once: a task that never took its first step leaves its coroutine unawaited.
            self._loop.call_soon(task.cancel)
        if reason in _ORDINARY:
            _log.debug("connection closed: peer=%s reason=%s", connection.peer_host, reason)
        else:
            _log.warning("connection closed: peer=%s reason=%s", connection.peer_host, reason)

    def _forget(self, connection: Connection, _ended: Task[None]) -> None:
        self._running.pop(connection, None)

    def _finish(
        self, request: PendingReply, reply: Deferred[Any, Answer], done: Future[Any]
    ) -> None:
        if done.cancelled():
            return  # the connection has ended
        self._running.pop(request.connection, None)
        try:
            request.send(reply.answer())
        except (CodecError, PeerError) as error:
            _refuse(request, error)


async def _answer(request: PendingReply, reply: Awaitable[Answer]) -> None:
    try:
        request.send(await reply)
    except (CodecError, PeerError) as error:
        _refuse(request, error)


def _refuse(request: PendingReply, error: CodecError | PeerError) -> None:
    """No error response exists, or none may be sent: the end of the connection is the answer."""
    _log.warning(
        "request refused: peer=%s api_key=%d version=%d error=%s",
        request.connection.peer_host,
        request.api_key,
        request.api_version,
        error,
    )
    request.close()
