"""Forwarding of Cursus's requests: the mark of a link, and requests of one broker to another.

    FORWARDED          the mark: what follows comes from another broker
    CHECK_MEMBER       a broker that serves a reader asks the coordinator of its group
    COMMITTED_OFFSET   likewise; unlike FETCH_OFFSET it tells 0 from nothing
    STAGE              a transaction's coordinator writes a record to a partition
    STAGE_OFFSETS      likewise, offsets of a group

All but the first are refused to clients, as commands that do not exist.
"""

import asyncio
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from broker.core import forwarding
from broker.core.scheduling.steps import in_steps
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError, Unreachable
from broker.model.limits import CURSUS_FRAME_BYTES_MAX, NAMES_READ_PER_STEP
from broker.protocols.cursus.connections import state_of
from broker.protocols.cursus.errors import RefusedError, quoted
from broker.protocols.cursus.grammar import decoded, encoded, integer
from broker.protocols.cursus.requests import Request

if TYPE_CHECKING:
    from broker.core.links import Dialect, Upstreams

_ACCEPTED: Final = "OK forwarding=true"
_ERROR: Final = "ERROR: "
_CLASS: Final = re.compile(r" class=\w+ retryable=(?:true|false)")
_OFFSETS: Final = "offsets="


@cache
def dialect() -> "Dialect":
    """Return what links need to know of Cursus."""
    from broker.core.links import Dialect, Lengths  # noqa: PLC0415 (for a cluster only)

    return Dialect("cursus", Lengths(CURSUS_FRAME_BYTES_MAX), _ACCEPTED.encode())


def mark_of(session: Session) -> bytes:
    """Return the mark of a connection's links, with what its client has negotiated."""
    is_structured = "true" if state_of(session).has_structured_errors else "false"
    revision = forwarding.revision_of(session)
    return (
        f"FORWARDED client={session.client_host} revision={revision} structured={is_structured}"
    ).encode()


async def forwarded(
    session: Session,
    broker_id: int,
    frame: bytes,
    *,
    unreachable: ErrorCode = ErrorCode.LEADER_NOT_AVAILABLE,
    wait_seconds: float = 0,
) -> bytes:
    """Return another broker's response to a frame; RequestError(unreachable) if there is none."""
    return await forwarding.forwarded(
        session,
        broker_id,
        dialect(),
        mark_of(session),
        frame,
        unreachable=unreachable,
        wait_seconds=wait_seconds,
    )


async def ask(session: Session, broker_id: int, command: str, message: bytes = b"") -> str:
    """Return another broker's response to a command of this broker, with a message after it.

    Raises:
        RefusedError: that is the response.
        RequestError: there is none.
    """
    return _checked(decoded(await forwarded(session, broker_id, encoded(command) + message)))


async def ask_apart(upstreams: "Upstreams", session: Session, broker_id: int, command: str) -> str:
    """Do as `ask`, on links of its own: the client's connection may serve something else."""
    links = session.broker.links
    assert links is not None
    try:
        answer = await links.ask(
            upstreams, broker_id, dialect(), mark_of(session), encoded(command)
        )
    except Unreachable as error:
        raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from None
    return _checked(decoded(answer))


def _checked(answer: str) -> str:
    if not answer.startswith(_ERROR):
        return answer
    code, _, rest = _CLASS.sub("", answer.removeprefix(_ERROR), count=1).partition(" ")
    raise RefusedError(code, rest)


async def offsets_elsewhere(session: Session, topic: Topic) -> dict[int, str]:
    """Return the entries of LIST_OFFSETS of the partitions that other brokers lead.

    Raises RefusedError, RequestError: not all of them are known now.
    """
    others = await forwarding.other_leaders(session, topic)
    asked = (ask(session, each, f"LIST_OFFSETS topic={topic.name}") for each in others)
    found: dict[int, str] = {}
    for answer in await asyncio.gather(*asked):
        _, _, entries = answer.partition(_OFFSETS)
        async for entry in in_steps(entries.split(","), NAMES_READ_PER_STEP):
            if entry:
                found[int(entry[1 : entry.index(":")])] = entry
    return found


async def groups_elsewhere(session: Session) -> list[str]:
    """Return the names of the groups of all other brokers."""
    others = forwarding.other_brokers(session)
    answers = await asyncio.gather(*(ask(session, each, "LIST_GROUPS") for each in others))
    names: list[str] = []
    for answer in answers:
        _, _, listed = answer.partition(" groups=")
        names += filter(None, listed.split(","))
    return names


async def accept(request: Request) -> str:
    """Take what follows on this connection as forwarded."""
    command, session = request.command, request.session
    revision = integer(command.need("revision"))
    if revision is None:
        raise RefusedError("invalid_revision", command=command.keyword)
    state = state_of(session)
    state.has_structured_errors = command.get("structured") == "true"
    state.leader = b""  # who forwards has another address for its client
    await forwarding.accept_mark(session, command.need("client"), revision)
    return _ACCEPTED


def check_internal(request: Request) -> None:
    """Refuse a command that only brokers may send as one that does not exist."""
    if not request.session.is_forwarded:
        raise RefusedError("unknown_command", command=quoted(request.command.keyword))
