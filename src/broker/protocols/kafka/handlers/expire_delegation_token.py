"""ExpireDelegationToken, v1-2. v2 flexible."""

from typing import TYPE_CHECKING

from broker.core.security.audit import AccountChange
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.delegation_tokens import recorded, tokens_of

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.ExpireDelegationTokenRequest]", session: Session
) -> "bodies.ExpireDelegationTokenResponse":
    """Set when a token expires, or remove it; its owner and its renewers may."""
    period_ms = request.body["expiry_time_period_ms"]
    expiring = tokens_of(session).expire(request.body["hmac"], session.principal, period_ms)
    kind = AccountChange.DELETE if period_ms < 0 else AccountChange.CHANGE
    token = await recorded(session, expiring, kind)
    return {"error_code": 0, "expiry_timestamp_ms": token.expires_ms}


def _refuse(error: RequestError) -> "bodies.ExpireDelegationTokenResponse":
    return {"error_code": errors.number(error.code), "expiry_timestamp_ms": -1}


API = Api(40, "ExpireDelegationToken", range(1, 3), handle, (), _refuse)
