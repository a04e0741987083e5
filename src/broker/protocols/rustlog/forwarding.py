"""Forwarding of RustLog's requests: the mark of a link, and requests to other brokers."""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Final

from broker.core import forwarding
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.model.errors import RequestError
from broker.model.limits import RUSTLOG_FRAME_BYTES_MAX
from broker.protocols.rustlog.binary import (
    FORWARDING,
    describe_topic,
    ends_of,
    group_offset_of,
    offset_fetch,
)
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, refusal
from broker.protocols.rustlog.messages import Accepted, Forwarding

if TYPE_CHECKING:
    from broker.core.links import Dialect

_PING: Final = b"\xff"


@cache
def dialect() -> "Dialect":
    """Return what links need to know of RustLog."""
    from broker.core.links import Dialect, Lengths  # noqa: PLC0415 (for a cluster only)

    framing = Lengths(RUSTLOG_FRAME_BYTES_MAX)
    return Dialect("rustlog", framing, accepted=bytes((FORWARDING,)), greeting=_PING)


async def forwarded(session: Session, broker_id: int, frame: bytes) -> bytes:
    """Return another broker's response to a frame; RequestError if there is none."""
    host = session.client_host.encode()
    revision = forwarding.revision_of(session).to_bytes(8, "big")
    mark = bytes((FORWARDING,)) + len(host).to_bytes(2, "big") + host + revision
    return await forwarding.forwarded(session, broker_id, dialect(), mark, frame)


async def ends_elsewhere(call: Call, topic: Topic) -> list[tuple[int, int]]:
    """Return the last stable offsets of the partitions that other brokers lead.

    Raises:
        RefusalError: a broker cannot tell.
        RequestError: a broker does not answer, or nobody leads a partition.
    """
    others = await forwarding.other_leaders(call.session, topic)
    answers = await asyncio.gather(*(ends_at(call, each, topic) for each in others))
    return [end for answer in answers for end in answer]


async def ends_at(call: Call, broker_id: int, topic: Topic) -> list[tuple[int, int]]:
    """Return the last stable offsets of the partitions that one broker leads.

    Raises RefusalError, RequestError as `ends_elsewhere`.
    """
    return ends_of(await forwarded(call.session, broker_id, describe_topic(topic.name)))


async def group_offset_elsewhere(
    call: Call, coordinator: int, group: str, topic: str, partition: int, failure: Failure
) -> int | None:
    """Return the committed offset that another broker has, None if it has none.

    Raises RefusalError with this failure.
    """
    try:
        request = offset_fetch(group, topic, partition)
        return group_offset_of(await forwarded(call.session, coordinator, request), failure)
    except RequestError as error:
        raise refusal(failure, error) from None


async def accept(request: Forwarding, call: Call) -> Accepted:
    """Take what follows on this connection as forwarded."""
    await forwarding.accept_mark(call.session, request.client_host, request.revision)
    return Accepted()
