"""SaslHandshake, v0-1. It chooses the mechanism of a login, or of a re-authentication (KIP-368).

v0: the mechanism's messages follow without headers; v1: in SaslAuthenticate (KIP-152).
"""

from typing import TYPE_CHECKING

from broker.codec import schema
from broker.core.session import Session
from broker.model.errors import ErrorCode, PeerError
from broker.protocols.base import Answer, LoginChange
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, Response
from broker.protocols.kafka.login import hold_back

if TYPE_CHECKING:
    from broker.codec import bodies

_KEY = 17
_IN_REQUESTS_SINCE = 1


async def handle(
    request: "Request[bodies.SaslHandshakeRequest]", session: Session
) -> "Response[bodies.SaslHandshakeResponse]":
    """Let the messages of a mechanism follow; PeerError for another one than before."""
    login, steady_ms = session.login, session.broker.clock.monotonic_ms()
    if login is None or not login.may_choose(steady_ms):
        return {"error_code": errors.number(ErrorCode.ILLEGAL_SASL_STATE), "mechanisms": []}
    is_bare = request.version < _IN_REQUESTS_SINCE
    mechanism = request.body["mechanism"]
    refusal = login.choose(mechanism, steady_ms, is_bare=is_bare)
    offered = list(login.rules.mechanisms)
    if refusal is None:
        fields: bodies.SaslHandshakeResponse = {"error_code": 0, "mechanisms": offered}
        return Answer(_encoded(request, fields), login=LoginChange(True, is_bare=is_bare))
    await hold_back(session, refusal)
    if mechanism in login.rules.mechanisms:
        raise PeerError(refusal.reason)
    code = errors.number(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    return Answer(_encoded(request, {"error_code": code, "mechanisms": offered}), is_last=True)


def _encoded(
    request: "Request[bodies.SaslHandshakeRequest]", fields: "bodies.SaslHandshakeResponse"
) -> bytes:
    return schema.response(_KEY).encode(request.version, fields)


API = Api(_KEY, "SaslHandshake", range(2), handle, ())
