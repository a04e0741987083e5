"""The interface of a wire protocol.

Native code owns the connection: it cuts frames, reads their headers, keeps answers in order and
bounds what waits. What it does not serve itself it hands, one request at a time, to the protocol.
A protocol sees values only: no socket, no task, no byte outside the request's body.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from broker._native.wire.connection import NativeProtocol, ResponseStream
from broker.core.log import Log
from broker.core.session import Session
from broker.model.config import Config


class LastAnswer(NamedTuple):
    """An answer behind which the connection is closed."""

    body: bytes


class DroppableAnswer(NamedTuple):
    """An answer that not every peer reads: nothing of it is sent to one that reads none.

    Attributes:
        written: what was appended for it and may not be visible yet, as (log, end offset). Later
            requests of the connection that are no writes start when it is.
    """

    body: bytes
    written: Sequence[tuple[Log, int]] = ()


class SilentAnswer(NamedTuple):
    """No answer, as to a write with acks=0; `written` is as in DroppableAnswer."""

    written: Sequence[tuple[Log, int]]


class StreamAnswer(NamedTuple):
    """Frames that follow each other until their flow ends, a native one; later requests wait."""

    stream: ResponseStream


_ResultT = TypeVar("_ResultT")
_AnswerT_co = TypeVar("_AnswerT_co", covariant=True)


class Deferred(Generic[_ResultT, _AnswerT_co]):
    """A result that core will give, and the answer that becomes of it.

    Whoever serves it adds a callback to `future`, which takes no task as an awaitable does.
    """

    __slots__ = ("_finish", "future")

    def __init__(
        self, future: Future[_ResultT], finish: Callable[[Future[_ResultT]], _AnswerT_co]
    ) -> None:
        """Answer what `finish` makes of the future once it is done."""
        self.future = future
        self._finish = finish

    def answer(self) -> _AnswerT_co:
        """The answer, once the future is done; raises what `finish` raises."""
        return self._finish(self.future)


# The answer's bytes without framing, or one that is more than bytes; the others: later.
Answer: TypeAlias = bytes | LastAnswer | DroppableAnswer | SilentAnswer | StreamAnswer
Reply: TypeAlias = Answer | Deferred[Any, Answer] | Awaitable[Answer]


class WireProtocol(Protocol):
    """What a package under broker.protocols exports as PROTOCOL."""

    @property
    def name(self) -> str:
        """The name in broker.model.protocol_names."""

    def native_protocol(self, config: Config) -> NativeProtocol:
        """Make what serves its connections natively and leaves the rest to this protocol."""

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request; a CodecError or PeerError, now or awaited, closes the connection.

        Operation, version and client id are 0, 0 and None where a dialect has none of them in
        front of its requests.
        """
