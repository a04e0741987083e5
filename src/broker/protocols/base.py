"""The interface of a wire protocol.

Native code owns the connection: it cuts frames, reads their headers, keeps answers in order and
bounds what waits. What it does not serve itself it hands, one request at a time, to the protocol.
A protocol sees values only: no socket, no task, no byte outside the request's body.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from broker.core.session import Session

# The answer's bytes without framing; None: nothing is ever sent; an awaitable: later.
Answer: TypeAlias = bytes | None
Reply: TypeAlias = Answer | Awaitable[Answer]


_ResultT = TypeVar("_ResultT")
_AnswerT_co = TypeVar("_AnswerT_co", covariant=True)


class Deferred(Awaitable[_AnswerT_co], Generic[_ResultT, _AnswerT_co]):
    """A result that core will give, and the answer that becomes of it.

    It can be awaited; whoever serves many adds a callback to `future`, which takes no task.
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

    def __await__(self) -> Generator[Any, None, _AnswerT_co]:
        """Wait for the future."""
        with suppress(Exception):  # `finish` finds it
            yield from self.future.__await__()
        return self.answer()


class WireProtocol(Protocol):
    """What a package under broker.protocols exports as PROTOCOL."""

    @property
    def name(self) -> str:
        """The name in logs and metrics."""

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request; a CodecError or PeerError, now or awaited, closes the connection."""
