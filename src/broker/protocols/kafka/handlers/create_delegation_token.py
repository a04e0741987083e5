"""CreateDelegationToken, v1-3. v2 flexible; v3 for another owner (KIP-373)."""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.security.acls import Operation, ResourceType
from broker.core.security.audit import AccountChange
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.principal import USER, Principal
from broker.model.sasl_limits import DELEGATION_TOKEN_RENEWERS_MAX
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.delegation_tokens import recorded, tokens_of
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_FOR_OTHERS_SINCE = 3


async def handle(
    request: "Request[bodies.CreateDelegationTokenRequest]", session: Session
) -> "bodies.CreateDelegationTokenResponse":
    """Create a token of the client, or of another user; the answer has its password."""
    tokens, body = tokens_of(session), request.body
    owner = session.principal
    if request.version >= _FOR_OTHERS_SINCE and body["owner_principal_name"]:
        owner = Principal(body["owner_principal_type"] or USER, body["owner_principal_name"])
    renewers = [
        Principal(each["principal_type"], each["principal_name"]) for each in body["renewers"]
    ]
    if any(each.type != USER for each in (owner, *renewers)):
        raise RequestError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(renewers) > DELEGATION_TOKEN_RENEWERS_MAX:
        text = f"{len(renewers)} renewers, and {DELEGATION_TOKEN_RENEWERS_MAX} are possible"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if owner != session.principal:
        access.check(session, Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
    creating = tokens.create(owner, session.principal, renewers, body["max_lifetime_ms"])
    token = await recorded(session, creating, AccountChange.CREATE)
    return {
        "error_code": 0,
        "principal_type": owner.type,
        "principal_name": owner.name,
        "token_requester_principal_type": session.principal.type,
        "token_requester_principal_name": session.principal.name,
        "issue_timestamp_ms": token.issued_ms,
        "expiry_timestamp_ms": token.expires_ms,
        "max_timestamp_ms": token.ends_ms,
        "token_id": token.token_id,
        "hmac": tokens.password(token.token_id),
    }


def _refuse(error: RequestError) -> "bodies.CreateDelegationTokenResponse":
    return {
        "error_code": errors.number(error.code),
        "principal_type": "",
        "principal_name": "",
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
        "token_id": "",
        "hmac": b"",
    }


API = Api(
    38,
    "CreateDelegationToken",
    range(1, 4),
    handle,
    on_each(Operation.CREATE_TOKENS, ResourceType.USER),
    _refuse,
)
