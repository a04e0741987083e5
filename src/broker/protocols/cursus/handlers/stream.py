"""STREAM: the records of one partition in a sequence of frames, as they are appended.

There is one stream of a topic, partition and group; a new one replaces it. Streams of the
positional form have no group and do not replace each other.
"""

from functools import partial

from broker.core import access
from broker.core.forwarding import check_led, coordinator_to_ask
from broker.core.topics.lookup import log_of
from broker.protocols.base import Answer
from broker.protocols.cursus import members, permissions
from broker.protocols.cursus.handlers.offsets import committed_offset
from broker.protocols.cursus.reads import stream_of
from broker.protocols.cursus.requests import Request, having_partition
from broker.protocols.cursus.streams import Reader


async def handle(request: Request) -> Answer:
    """Open the stream; close it at once if it cannot start at its offset."""
    read = stream_of(request.command)
    permissions.check_read(request.session, request.command.keyword, read.name, read.group)
    named = request.broker.topics.get(read.name)
    [topic] = having_partition([] if named is None else [named], read)
    check_led(request.session, topic, read.partition)
    call = committed = None
    if read.group:
        call = await members.find_reader(request, topic, read)
        committed = await committed_offset(request, read.group, topic.name, read.partition)
    log = log_of(topic, read.partition)
    reader = Reader(request.broker, request.connection, read, call)
    if request.broker.security.authorizer is not None:
        may_read = partial(access.may_read, request.session, topic.name)
        reader = reader._replace(may_read=may_read)
    if call is not None and request.broker.links is not None:
        session = request.session
        reader = reader._replace(
            check=lambda links: members.check(session, links, call),
            coordinator=lambda: coordinator_to_ask(session, call.group_id),
        )
    return request.state.streams.open_stream(reader, log, committed)
