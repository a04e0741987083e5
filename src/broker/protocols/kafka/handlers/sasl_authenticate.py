"""SaslAuthenticate, v0-2. v1 session lifetime (KIP-368); v2 flexible."""

from typing import TYPE_CHECKING

from broker.codec import schema
from broker.core.security.login import LoggedIn, Stage
from broker.core.security.sasl.outcome import Refused
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.base import Answer, LoginChange
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, Response, refuse_with_message
from broker.protocols.kafka.login import take_message

if TYPE_CHECKING:
    from broker.codec import bodies

_KEY = 36
_TOO_LATE = "SaslAuthenticate request received after successful authentication"


async def handle(
    request: "Request[bodies.SaslAuthenticateRequest]", session: Session
) -> "Response[bodies.SaslAuthenticateResponse]":
    """Pass a message to the chosen mechanism."""
    login = session.login
    if login is None or login.stage is not Stage.EXCHANGING:
        return _fields(ErrorCode.ILLEGAL_SASL_STATE, _TOO_LATE)
    concluded = await take_message(session, request.body["auth_bytes"])
    if isinstance(concluded, Refused):
        fields = _fields(ErrorCode.SASL_AUTHENTICATION_FAILED, concluded.message)
        return Answer(_encoded(request, fields, session), is_last=True)
    fields = _fields(ErrorCode.NONE, None, concluded.message)
    if not isinstance(concluded, LoggedIn):
        return fields
    fields["session_lifetime_ms"] = concluded.lifetime_ms
    change = LoginChange(False, lifetime_ms=concluded.lifetime_ms)
    return Answer(_encoded(request, fields, session), login=change)


def _fields(
    code: ErrorCode, message: str | None, auth_bytes: bytes = b""
) -> "bodies.SaslAuthenticateResponse":
    return {
        "error_code": errors.number(code),
        "error_message": message,
        "auth_bytes": auth_bytes,
        "session_lifetime_ms": 0,
    }


def _encoded(
    request: "Request[bodies.SaslAuthenticateRequest]",
    fields: "bodies.SaslAuthenticateResponse",
    session: Session,
) -> bytes:
    counted = session.broker.metrics.counters.errors[_KEY]
    return schema.response(_KEY).encode(request.version, fields, counted)


API = Api(_KEY, "SaslAuthenticate", range(3), handle, (), refuse_with_message)
