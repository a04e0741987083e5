"""What a connection may send before it has logged in.

A connection whose listener has a login is served by LoginGate until it has logged in, and between
the start and the end of a re-authentication. docs/security/sasl.md has the order of messages; every
other request ends the connection, with or without an answer, as in Kafka.
"""

from typing import TYPE_CHECKING, Final

from broker._native.protocols.kafka.login import BARE_TOKEN
from broker.codec import schema
from broker.core.security.login import Stage
from broker.core.security.sasl.outcome import Challenge, Refused
from broker.core.session import Session
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.protocols.base import Answer, Immediate, LoginChange, Reply, WireProtocol
from broker.protocols.kafka import table
from broker.protocols.kafka.login import hold_back, take_message

if TYPE_CHECKING:
    from broker._native.wire.connection import NativeProtocol
    from broker.model.config import Config

_HANDSHAKE: Final = 17
_VERSIONS: Final = 18
_AUTHENTICATE: Final = 36
_SUCCESS: Final = b"\0\0"  # the error code at the start of an answer


class LoginGate(WireProtocol):
    """Serves the requests of connections that have not logged in."""

    __slots__ = ("_kafka",)
    name = "kafka"

    def __init__(self, kafka: WireProtocol) -> None:
        """Keep the protocol, which serves the requests that are allowed."""
        self._kafka = kafka

    def native_protocol(self, config: "Config") -> "NativeProtocol":
        """Return that of the protocol behind the gate."""
        return self._kafka.native_protocol(config)

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request, or one message without a header."""
        login = session.login
        assert login is not None
        if operation == BARE_TOKEN:
            return _take_bare(body, session)
        if login.stage is Stage.EXCHANGING:
            if operation != _AUTHENTICATE:
                return _refuse(operation, version, session)
        elif operation == _VERSIONS and login.stage is Stage.BEGUN:
            reply = self._kafka.handle(operation, version, client_id, body, session)
            if isinstance(reply, bytes) and reply.startswith(_SUCCESS):
                login.stage = Stage.VERSIONS
            return reply
        elif operation != _HANDSHAKE:
            name = table.APIS[operation].name
            raise PeerError(f"{name} v{version} of a connection that has not logged in")
        return self._kafka.handle(operation, version, client_id, body, session)


async def _take_bare(message: bytes, session: Session) -> Immediate:
    concluded = await take_message(session, message)
    if isinstance(concluded, Challenge):
        return concluded.message
    if isinstance(concluded, Refused):
        return Answer(None, is_last=True)
    return Answer(concluded.message, login=LoginChange(False, lifetime_ms=concluded.lifetime_ms))


async def _refuse(operation: int, version: int, session: Session) -> Immediate:
    """Answer a request in the middle of a login with its error; the connection ends."""
    api = table.APIS[operation]
    if version not in api.versions:
        raise PeerError(f"{api.name} v{version} during a login")
    assert session.login is not None
    session.login.stage = Stage.FAILED
    await hold_back(session, Refused("another request during the login", detail=api.name))
    error = RequestError(
        ErrorCode.ILLEGAL_SASL_STATE,
        f"Unexpected Kafka request of type {api.name} during SASL authentication.",
    )
    body = schema.response(operation).encode(version, api.refuse(error))
    return Answer(body, is_last=True)
