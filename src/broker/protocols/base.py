"""The interface of a wire protocol.

Native code owns the connection: it splits the bytes into frames, reads headers, keeps responses in
order and bounds what is queued. Requests that it does not serve itself go to the protocol, one at a
time. A protocol sees values only: no socket, no task, no byte outside the request's body.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from broker._native.wire.connection import NativeProtocol, Wait
from broker.core.broker import Broker
from broker.core.service import Service
from broker.core.session import Session
from broker.core.topics.derived_state import DerivedState, MovingState
from broker.model.config import Config
from broker.model.settings import Setting
from broker.model.topic_config import TopicConfig


class LoginChange(NamedTuple):
    """What an answer changes of its connection's login.

    Attributes:
        needs_login: whether requests are left to the protocol's gate from now on.
        is_bare: whether the next frames have no header.
        lifetime_ms: after which it must log in again; 0: never.
    """

    needs_login: bool
    is_bare: bool = False
    lifetime_ms: int = 0


class Answer(NamedTuple):
    """A response with more than its bytes.

    Attributes:
        body: its bytes without framing; None for no response, as to a write with acks=0.
        is_last: the connection is closed after it.
        is_droppable: some clients never read it: it is dropped if earlier responses are unread.
        stream: a native flow that sends frames instead of `body`; later requests wait until it
            ends.
        throttle_ms: for so long nothing more is read from the connection.
        login: what it changes of the connection's login, before it is sent.
        following: the body of a second frame after it, where frames are a length and a body.
    """

    body: bytes | None
    is_last: bool = False
    is_droppable: bool = False
    stream: Wait | None = None
    throttle_ms: int = 0
    login: LoginChange | None = None
    following: bytes | None = None


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


# A response that is there now: its bytes without framing, or these with more.
Immediate: TypeAlias = bytes | Answer
# A response, now or later.
Reply: TypeAlias = Immediate | Deferred[Any, Immediate] | Awaitable[Immediate]


class SmallFiles(Protocol):
    """The small files of the data directory; implemented by the server."""

    @property
    def folder(self) -> Path:
        """The data directory."""

    async def write(self, work: Callable[[], None], /) -> bool:
        """Run work in the I/O thread; return whether it succeeded. Its errors are logged."""


class Additions(NamedTuple):
    """What a protocol adds to a broker.

    Attributes:
        services: started after the coordinators, in order, and stopped before them.
        before_serving: awaited when all services have started, before the first connection is
            accepted; may raise StorageError, which ends the broker.
        topic_deleted: called with the name of each deleted topic.
        derived_state: what checkpoints of logs have to cover first.
        moving_state: what has files beside logs that move between directories.
    """

    services: tuple[Service, ...] = ()
    before_serving: Callable[[], Awaitable[None]] | None = None
    topic_deleted: Callable[[str], None] | None = None
    derived_state: tuple[DerivedState, ...] = ()
    moving_state: tuple[MovingState, ...] = ()


class WireProtocol(Protocol):
    """The base class of PROTOCOL in each package under broker.protocols; one object per broker.

    Attributes:
        name: the name in broker.model.protocol_names.
        topic_settings: keys of topics that only this protocol has; `polylog.<name>.` is their
            prefix.
    """

    name: ClassVar[str]
    topic_settings: ClassVar[tuple[Setting, ...]] = ()

    def native_protocol(self, config: Config) -> NativeProtocol:
        """Make the native path of its connections, which leaves other requests to `handle`."""

    @classmethod
    def log_flags(cls, config: TopicConfig) -> int:  # noqa: ARG003 (most need none)
        """Return its bits of PartitionLog.protocol_flags for the logs of a topic."""
        return 0

    def attach(self, broker: Broker, files: SmallFiles) -> Additions:  # noqa: ARG002 (for subclasses)
        """Use a broker, before anything is started; return what is added to it."""
        return Additions()

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request.

        Operation, version and client id are those of the request's header; 0, 0 and None for a
        protocol without them.

        Raises:
            CodecError, PeerError: now or when awaited; the connection is closed.
        """
