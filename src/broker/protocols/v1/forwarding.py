"""Forwarding of V1's requests: the mark of a link, and how a line is sent to another broker."""

from typing import Final

from broker.core import forwarding
from broker.core.forwarding import ElsewhereError
from broker.core.links import Dialect, Lines
from broker.core.session import Session
from broker.model.limits import V1_FORWARDED_BYTES_MAX
from broker.protocols.v1.commands import Request, integer

_ACCEPTED: Final = "forwarding=true"
DIALECT: Final = Dialect("v1", Lines(V1_FORWARDED_BYTES_MAX), f"V1|0|OK|{_ACCEPTED}\n".encode())


async def forwarded(session: Session, elsewhere: ElsewhereError, line: bytes) -> bytes:
    """Return another broker's response to a line; RequestError if there is none."""
    revision = forwarding.revision_of(session)
    mark = f"V1|0|BROKER_FORWARDING|{session.client_host} {revision}".encode()
    return await forwarding.forwarded(
        session, elsewhere.broker_id, DIALECT, mark, line, unreachable=elsewhere.unreachable
    )


async def accept(request: Request) -> str:
    """Take what follows on this connection as forwarded."""
    client_host, revision = request.args
    await forwarding.accept_mark(request.session, client_host, integer(revision, "revision"))
    return _ACCEPTED
