"""Dispatch of a frame's body: detect what it is, parse the command, call its handler."""

import asyncio
import logging
from typing import Final

from broker._native.protocols.cursus import protocol as native
from broker._native.protocols.cursus.batch import CursusBatch
from broker._native.protocols.cursus.login import CursusGate
from broker._native.protocols.cursus.produce import HAS_NAMED_PRODUCERS, HAS_STREAMS, SPREADS_KEYS
from broker.core import access
from broker.core.broker import Broker
from broker.core.forwarding import ElsewhereError, learn
from broker.core.session import Session
from broker.model.config import Config
from broker.model.errors import CodecError, ErrorCode, PeerError, RequestError, StorageError
from broker.model.limits import CURSUS_NOT_LEADER_SECONDS
from broker.model.topic_config import TopicConfig
from broker.protocols.base import Additions, Answer, Immediate, Reply, SmallFiles, WireProtocol
from broker.protocols.cursus import bodies, permissions
from broker.protocols.cursus.acks import Sent
from broker.protocols.cursus.bodies import Text
from broker.protocols.cursus.connections import ConnectionState, address_of, state_of
from broker.protocols.cursus.errors import RefusedError, of_request
from broker.protocols.cursus.forwarding import forwarded
from broker.protocols.cursus.grammar import BLANKS, decoded, encoded, keyword_of, parse
from broker.protocols.cursus.handlers import event_streams, produce
from broker.protocols.cursus.login import LoginGate
from broker.protocols.cursus.named_producers.tables import NamedProducers
from broker.protocols.cursus.protocol_state import ProtocolState
from broker.protocols.cursus.reads import consume_of
from broker.protocols.cursus.requests import Request
from broker.protocols.cursus.settings import HASH_KEY, IDEMPOTENT, PARTITIONER, TOPIC_SETTINGS
from broker.protocols.cursus.table import ENTRIES, FORMS

_log = logging.getLogger(__name__)
_NOT_LEADER: Final = b"NOT_LEADER LEADER_IS "  # in a text, and in the JSON of READ_STREAM
_HEAD_BYTES: Final = 40
_DISK_FAILED: Final = RequestError(ErrorCode.KAFKA_STORAGE_ERROR)


class Cursus(WireProtocol):
    """The protocol."""

    __slots__ = ("_state",)
    name = "cursus"
    topic_settings = TOPIC_SETTINGS

    def __init__(self, state: ProtocolState | None = None) -> None:
        """Start with an empty state, unless one is given."""
        self._state = state or ProtocolState()

    def native_protocol(self, config: Config) -> native.Cursus:
        """Make its native path, which shares the round robin of partitions with `handle`."""
        streams = self._state.event_streams.native
        cursus = native.Cursus(self, self._state.turns, state_of, streams)
        login_bytes_max = config.integer("sasl.server.max.receive.size")
        cursus.guard_with(CursusGate(LoginGate(self), frame_bytes_max=login_bytes_max))
        return cursus

    @classmethod
    def log_flags(cls, config: TopicConfig) -> int:
        """Return what the native path needs to know of a topic's settings."""
        flags = 0
        if config.flag(IDEMPOTENT):
            flags |= HAS_NAMED_PRODUCERS
        if config.text(PARTITIONER) != HASH_KEY:
            flags |= SPREADS_KEYS
        if config.has_streams:
            flags |= HAS_STREAMS
        return flags

    def attach(self, broker: Broker, files: SmallFiles) -> Additions:  # noqa: ARG002 (see WireProtocol)
        """Keep the sequences of producers, and the streams: both are made from records."""
        producers = self._state.named_producers = NamedProducers(
            broker.clock,
            broker.io_thread,
            lambda: broker.config.integer("producer.id.expiration.ms"),
            broker.recompression.run,
        )
        streams = self._state.event_streams
        broker.topics.when_lost(streams.lost)

        def topic_deleted(name: str) -> None:
            producers.forget_topic(name)
            streams.forget_topic(name)

        return Additions(
            services=(streams,),
            topic_deleted=topic_deleted,
            derived_state=(producers, streams),
            moving_state=(streams,),
        )

    def handle(
        self,
        operation: int,  # noqa: ARG002 (the body contains everything)
        version: int,  # noqa: ARG002
        client_id: str | None,  # noqa: ARG002
        body: bytes,
        session: Session,
    ) -> Reply:
        """Serve one frame."""
        if session.broker.links is None:
            return _answer(body, session, self._state)
        return _answer_in_cluster(body, session, self._state)


async def _answer(body: bytes, session: Session, state: ProtocolState) -> Immediate:
    connection = state_of(session)
    try:
        found = await bodies.read(body, session.broker.recompression)
        if isinstance(found, Text):
            return await _command(found, session, connection, state, body)
        if isinstance(found, RefusedError):
            return produce.refusal_of(found, Sent(), session)
        return await _batch(found, session, state, body)
    except RefusedError as error:
        return _refused(error, connection)
    except RequestError as error:
        return _refused(of_request(error, address_of(session)), connection)


async def _answer_in_cluster(body: bytes, session: Session, state: ProtocolState) -> Immediate:
    """Let a client wait that gets NOT_LEADER: some ask again at once, a few times or for ever."""
    answer = await _answer(body, session, state)
    if isinstance(answer, bytes) and _NOT_LEADER in answer[:_HEAD_BYTES]:
        await asyncio.sleep(CURSUS_NOT_LEADER_SECONDS)
    return answer


async def _batch(
    batch: CursusBatch, session: Session, state: ProtocolState, body: bytes
) -> Immediate:
    try:
        if session.broker.links is not None:
            await learn(session, decoded(batch.topic))
        access.begin(session, "cursus", "batch")
        return await produce.batch(batch, session, state)
    except ElsewhereError as elsewhere:
        answer = await forwarded(session, elsewhere.broker_id, body)
        return produce.relayed(batch, answer, state_of(session))
    except Exception as error:
        _log.exception("batch failed: topic=%s", batch.topic.decode("utf-8", "replace"))
        raise PeerError("a batch failed in the broker") from error


async def _command(
    text: Text, session: Session, connection: ConnectionState, state: ProtocolState, body: bytes
) -> Immediate:
    if text.is_enveloped and not keyword_of(text.body.strip(BLANKS)[:32]):
        # As in the original, an envelope without a command closes the connection.
        raise RefusedError("malformed_input", reason="missing_topic_or_payload", is_last=True)
    command = parse(text.body, FORMS)
    try:
        request = Request(command, session, connection, state, body)
        if session.broker.links is not None and command.get("topic"):
            await learn(session, command.get("topic"))
        entry = ENTRIES[command.keyword]
        access.begin(session, "cursus", command.keyword)
        permissions.check_needs(session, entry.needs, command)
        try:
            answer = await entry.handle(request)
        except ElsewhereError as elsewhere:
            answer = await _relayed(request, elsewhere)
    except RefusedError as error:
        refusal = error
    except RequestError as error:
        refusal = of_request(error, address_of(session), "command_failed")
    except (StorageError, CodecError) as error:
        _log.warning("command failed: command=%s error=%s", command.keyword, error)
        refusal = of_request(_DISK_FAILED, address_of(session), "command_failed")
    except Exception as error:
        _log.exception("command failed: command=%s", command.keyword)
        raise PeerError(f"{command.keyword} failed in the broker") from error
    else:
        return encoded(answer) if isinstance(answer, str) else answer
    if command.keyword == "READ_STREAM":
        return event_streams.refusal(refusal)
    return _refused(refusal, connection)


async def _relayed(request: Request, elsewhere: ElsewhereError) -> Immediate:
    """Return another broker's response to a command, or its stream."""
    command = request.command
    if command.keyword == "STREAM":
        from broker.protocols.cursus.relays import open_relay  # noqa: PLC0415 (for a cluster only)

        return open_relay(request, elsewhere.broker_id)
    wait_ms = consume_of(command).wait_ms if command.keyword == "CONSUME" else 0
    answer = await forwarded(
        request.session,
        elsewhere.broker_id,
        request.body,
        unreachable=elsewhere.unreachable,
        wait_seconds=wait_ms / 1000,
    )
    if command.keyword == "READ_STREAM":
        return event_streams.relayed(answer)
    if command.keyword == "PUBLISH":
        return produce.relayed_publish(command, answer, request.connection)
    return answer


def _refused(refusal: RefusedError, connection: ConnectionState) -> Immediate:
    text = encoded(refusal.text(is_structured=connection.has_structured_errors))
    return Answer(text, is_last=True) if refusal.is_last else text


PROTOCOL = Cursus
