"""The interface of a wire protocol.

Native code owns the connection: it cuts frames, reads their headers, keeps answers in order and
bounds what waits. What it does not serve itself it hands, one request at a time, to the protocol.
A protocol sees values only: no socket, no task, no byte outside the request's body.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from broker.core.session import Session

# The answer's bytes without framing; None: nothing is ever sent; an awaitable: later.
Answer: TypeAlias = bytes | None
Reply: TypeAlias = Answer | Awaitable[Answer]


class WireProtocol(Protocol):
    """What a package under broker.protocols exports as PROTOCOL."""

    @property
    def name(self) -> str:
        """The name in logs and metrics."""

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request; a CodecError or PeerError, now or awaited, closes the connection."""
