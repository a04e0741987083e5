"""RenewDelegationToken, v1-2. v2 flexible."""

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
    request: "Request[bodies.RenewDelegationTokenRequest]", session: Session
) -> "bodies.RenewDelegationTokenResponse":
    """Let a token expire later; its owner and its renewers may."""
    renewing = tokens_of(session).renew(
        request.body["hmac"], session.principal, request.body["renew_period_ms"]
    )
    token = await recorded(session, renewing, AccountChange.CHANGE)
    return {"error_code": 0, "expiry_timestamp_ms": token.expires_ms}


def _refuse(error: RequestError) -> "bodies.RenewDelegationTokenResponse":
    return {"error_code": errors.number(error.code), "expiry_timestamp_ms": -1}


API = Api(39, "RenewDelegationToken", range(1, 3), handle, (), _refuse)
