"""Serves a request: look up its API, decode it, call the handler, encode the response."""

import logging
from collections.abc import Awaitable
from typing import Final, cast

from broker._native.protocols.kafka import protocol as native
from broker._native.protocols.kafka.fetch import FetchSessions
from broker._native.protocols.kafka.login import KafkaGate
from broker.codec import schema
from broker.core.scheduling.admission import Admission, Parked, Share
from broker.core.scheduling.parking import Parking
from broker.core.session import Session
from broker.model import limits
from broker.model.config import Config
from broker.model.errors import CodecError, PeerError, RequestError
from broker.protocols.base import Answer, Deferred, Immediate, Reply, WireProtocol
from broker.protocols.kafka import table
from broker.protocols.kafka.api import Api, Body, DeferredResponse, KnownResponse, Request, Response
from broker.protocols.kafka.authorization import authorize
from broker.protocols.kafka.bodies import decoded, encoded, freed
from broker.protocols.kafka.handlers import api_versions
from broker.protocols.kafka.login_gate import LoginGate
from broker.protocols.kafka.throttling import Meter, quota_of

_log = logging.getLogger(__name__)
_NEVER: Final = 32_767  # higher than any API version


class Kafka(WireProtocol):
    """The protocol; it holds the memory admission of its requests."""

    __slots__ = ("_admission",)
    name = "kafka"

    def __init__(self) -> None:
        """Create the admission, without requests."""
        self._admission = Admission(
            limits.REQUEST_OBJECTS_BYTES_MAX,
            limits.LONG_REQUESTS_WAITING_BYTES_MAX,
            Parking(limits.PARKED_REQUESTS_BYTES_MAX),
        )

    def native_protocol(self, config: Config) -> native.Kafka:
        """Create the native part."""
        sessions = FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"),
            limits.FETCH_SESSION_IDLE_MS,
            config.integer("fetch.max.bytes"),
        )
        apis = _served_apis()
        kafka = native.Kafka(self, apis, sessions, frame_bytes_max=config.frame_bytes_max)
        login_bytes_max = config.integer("sasl.server.max.receive.size")
        kafka.guard_with(KafkaGate(LoginGate(self), apis, frame_bytes_max=login_bytes_max))
        return kafka

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request of an API key; `body` is the frame without the request header."""
        api = table.APIS.get(operation)
        if api is None or version not in api.versions:
            return _unsupported(operation, version, session)
        quota = quota_of(session)
        if quota is None:
            return self._serve(api, version, client_id, body, session)
        meter = Meter(quota, session, operation, version, len(body))
        return meter.reply(self._serve(api, version, client_id, body, session))

    def _serve(
        self, api: Api, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        if len(body) > limits.SHORT_REQUEST_BYTES:
            if api.has_own_limits:
                share = self._admission.short(0)
                return _serve_long(api, version, client_id, body, session, share)
            return self._serve_in_turn(api, version, client_id, body, session)
        weight = 0 if api.has_own_limits else len(body) * limits.REQUEST_OBJECTS_PER_BYTE
        share = self._admission.short(weight)
        return _serve_short(api, version, client_id, body, session, share)

    async def _serve_in_turn(
        self, api: Api, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Immediate:
        size = len(body)
        # REQUEST_WEIGHT_MAX bounds the objects of a request to this.
        weight = min(size * limits.REQUEST_OBJECTS_PER_BYTE, limits.REQUEST_OBJECTS_BYTES_MAX)
        async with self._admission.turn(session, size, weight) as share:
            answer = _serve_long(api, version, client_id, body, session, share)
            del body
            return await answer


def _serve_short(
    api: Api, version: int, client_id: str | None, body: bytes, session: Session, share: Share
) -> Reply:
    fields, _ = schema.request(api.key).decode(version, body, weight_max=limits.REQUEST_WEIGHT_MAX)
    response = _response(api, Request(version, client_id, fields, share), session)
    if isinstance(response, (Answer, bytes, dict)):
        share.end()  # it may have been parked, and woken at once
        return _encode(api, version, response, session)
    if isinstance(response, Deferred):
        return Deferred(response.future, lambda _: _answer(api, version, response, session))
    later = cast("Awaitable[KnownResponse]", response)
    return _answer_later(api, version, later, session, share)


async def _serve_long(
    api: Api, version: int, client_id: str | None, body: bytes, session: Session, share: Share
) -> Immediate:
    request = Request(version, client_id, await decoded(api.key, version, body), share)
    del body
    response = _response(api, request, session)
    if isinstance(response, (Deferred, Awaitable)):
        answer = await _answer_later(api, version, response, session, share)
    else:
        answer = await _encode_in_steps(api, version, response, session)
    await freed(request.body)
    return answer


def _response(
    api: Api, request: Request[Body], session: Session
) -> KnownResponse | Awaitable[KnownResponse]:
    try:
        authorize(session, api, request)
        return api.handle(request, session)
    except Exception as error:  # noqa: BLE001 - sorted by _failure
        return _failure(api, request.version, error)


def _served_apis() -> list[tuple[int, int, int, int]]:
    """Return a row per API for native code: key, first, last and first flexible version."""
    rows = []
    for api in table.APIS.values():
        flexible = schema.request(api.key).first_flexible
        last = api.versions.stop - 1
        rows.append((api.key, api.versions.start, last, _NEVER if flexible is None else flexible))
    return rows


def _answer(
    api: Api, version: int, response: DeferredResponse[Body], session: Session
) -> Immediate:
    try:
        fields = response.answer()
    except Exception as error:  # noqa: BLE001 - sorted by _failure
        fields = _failure(api, version, error)
    return _encode(api, version, fields, session)


async def _answer_later(
    api: Api,
    version: int,
    response: DeferredResponse[Body] | Awaitable[KnownResponse],
    session: Session,
    share: Share,
) -> Immediate:
    try:
        try:
            fields = response if isinstance(response, Deferred) else await Parked(response, share)
            if isinstance(fields, Deferred):
                share.park()
                await fields.future
                fields = fields.answer()
        except Exception as error:  # noqa: BLE001 - sorted by _failure
            fields = _failure(api, version, error)
        return await _encode_in_steps(api, version, fields, session)
    finally:
        share.end()


async def _encode_in_steps(
    api: Api, version: int, response: Response[Body], session: Session
) -> Immediate:
    """Encode a response, in steps if it is long."""
    if isinstance(response, (Answer, bytes)):
        return response
    try:
        return await encoded(api.key, version, response, _errors(api.key, session))
    except ValueError as error:  # as of an error that the response has no place for
        raise _failed(api, version, error) from error


def _encode(api: Api, version: int, response: Response[Body], session: Session) -> Immediate:
    if isinstance(response, (Answer, bytes)):
        return response
    try:
        return schema.response(api.key).encode(version, response, _errors(api.key, session))
    except ValueError as error:  # as of an error that the response has no place for
        raise _failed(api, version, error) from error


def _errors(key: int, session: Session) -> dict[int, int]:
    """Return what counts the errors in the answers of an API."""
    return session.broker.metrics.counters.errors[key]


def _failure(api: Api, version: int, error: Exception) -> Body:
    """Return the response to a RequestError; raise any other error to close the connection."""
    if isinstance(error, RequestError):
        return api.refuse(error)
    if isinstance(error, (CodecError, PeerError)):
        raise error
    raise _failed(api, version, error) from error


def _failed(api: Api, version: int, error: Exception) -> PeerError:
    """Log an internal error; return the error that closes this connection only."""
    _log.error("request failed in the broker: api=%s version=%d", api.name, version, exc_info=error)
    return PeerError(f"{api.name} v{version} failed in the broker")


def _unsupported(operation: int, version: int, session: Session) -> Immediate:
    """Respond to an unsupported version: only ApiVersions has a response for it (KIP-35)."""
    if operation != api_versions.KEY:
        raise PeerError(f"API key {operation} version {version} is not supported")
    fields = api_versions.unsupported(table.advertised())
    return schema.response(operation).encode(0, fields, _errors(operation, session))


PROTOCOL = Kafka
