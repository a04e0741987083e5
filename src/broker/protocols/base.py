"""The interface of a wire protocol.

Native code owns the connection: it splits the bytes into frames, reads headers, keeps responses in
order and bounds what is queued. Requests that it does not serve itself go to the protocol, one at a
time. A protocol sees values only: no socket, no task, no byte outside the request's body.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from broker._native.wire.connection import NativeProtocol, Wait
from broker.core.logs.log import Log
from broker.core.session import Session
from broker.model.config import Config
from broker.model.topic_config import TopicConfig


class LastAnswer(NamedTuple):
    """A response after which the connection is closed."""

    body: bytes


class DroppableAnswer(NamedTuple):
    """A response that some clients never read: dropped if earlier responses are still unread.

    Attributes:
        written: the appends of this request that may not be visible yet, as (log, end offset).
            Later requests of the connection that do not write start once they are visible.
    """

    body: bytes
    written: Sequence[tuple[Log, int]] = ()


class SilentAnswer(NamedTuple):
    """No response, as to a write with acks=0; `written` is as in DroppableAnswer."""

    written: Sequence[tuple[Log, int]]


class StreamAnswer(NamedTuple):
    """A stream of frames that native code sends; later requests wait until it ends."""

    stream: Wait


_ResultT = TypeVar("_ResultT")
_AnswerT_co = TypeVar("_AnswerT_co", covariant=True)


class Deferred(Generic[_ResultT, _AnswerT_co]):
    """A future result of core and the function that makes the response from it.

    The server adds a callback to `future`; unlike an awaitable, this needs no task.
    """

    __slots__ = ("_finish", "future")

    def __init__(
        self, future: Future[_ResultT], finish: Callable[[Future[_ResultT]], _AnswerT_co]
    ) -> None:
        """Keep the future and `finish`, which is called with it once it is done."""
        self.future = future
        self._finish = finish

    def answer(self) -> _AnswerT_co:
        """Return the response once the future is done; raise what `finish` raises."""
        return self._finish(self.future)


# A response: its bytes without framing, or one of the classes above.
Answer: TypeAlias = bytes | LastAnswer | DroppableAnswer | SilentAnswer | StreamAnswer
# A response, now or later.
Reply: TypeAlias = Answer | Deferred[Any, Answer] | Awaitable[Answer]


class WireProtocol(Protocol):
    """The base class of PROTOCOL in each package under broker.protocols."""

    @property
    def name(self) -> str:
        """The name in broker.model.protocol_names."""

    def native_protocol(self, config: Config) -> NativeProtocol:
        """Make the native path of its connections, which leaves other requests to `handle`."""

    def log_flags(self, config: TopicConfig) -> int:  # noqa: ARG002 (most need none)
        """Return its bits of PartitionLog.protocol_flags for the logs of a topic."""
        return 0

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request.

        Operation, version and client id are those of the request's header; 0, 0 and None for a
        protocol without them.

        Raises:
            CodecError, PeerError: now or when awaited; the connection is closed.
        """
