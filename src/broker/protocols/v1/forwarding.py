"""Forwarding of V1's requests: the mark of a link, and how a line is sent to another broker."""

from functools import cache
from typing import TYPE_CHECKING, Final

from broker.core import forwarding
from broker.core.forwarding import ElsewhereError
from broker.core.session import Session
from broker.model.limits import V1_FORWARDED_BYTES_MAX
from broker.protocols.v1.commands import Request, integer

if TYPE_CHECKING:
    from broker.core.links import Dialect

_ACCEPTED: Final = "forwarding=true"


@cache
def dialect() -> "Dialect":
    """Return what links need to know of V1."""
    from broker.core.links import Dialect, Lines  # noqa: PLC0415 (for a cluster only)

    return Dialect("v1", Lines(V1_FORWARDED_BYTES_MAX), f"V1|0|OK|{_ACCEPTED}\n".encode())


async def forwarded(session: Session, elsewhere: ElsewhereError, line: bytes) -> bytes:
    """Return another broker's response to a line; RequestError if there is none."""
    revision = forwarding.revision_of(session)
    mark = f"V1|0|BROKER_FORWARDING|{session.client_host} {revision}".encode()
    return await forwarding.forwarded(
        session, elsewhere.broker_id, dialect(), mark, line, unreachable=elsewhere.unreachable
    )


async def accept(request: Request) -> str:
    """Take what follows on this connection as forwarded."""
    client_host, revision = request.args
    await forwarding.accept_mark(request.session, client_host, integer(revision, "revision"))
    return _ACCEPTED
