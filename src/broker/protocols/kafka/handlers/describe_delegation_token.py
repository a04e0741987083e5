"""DescribeDelegationToken, v1-3. v2 flexible; v3 requesters (KIP-373)."""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.security.tokens import DelegationToken, Tokens
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.model.principal import Principal
from broker.model.sasl_limits import TOKENS_READ_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.delegation_tokens import tokens_of
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.DescribeDelegationTokenRequest]", session: Session
) -> "bodies.DescribeDelegationTokenResponse":
    """Return the tokens of the named owners or renewers, or all, that the client may see."""
    tokens, named = tokens_of(session), request.body["owners"]
    owners = None
    if named is not None:
        owners = {
            Principal(each["principal_type"], each["principal_name"])
            async for each in in_steps(named, NAMES_READ_PER_STEP)
        }
    found = [
        _described(tokens, each)
        async for each in in_steps(await tokens.all(), TOKENS_READ_PER_STEP)
        if (owners is None or not owners.isdisjoint((each.owner, *each.renewers)))
        and _may_see(session, each)
    ]
    return {"error_code": 0, "tokens": found}


def _may_see(session: Session, token: DelegationToken) -> bool:
    return (
        token.is_of(session.principal)
        or access.may(session, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or access.may(session, Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _described(
    tokens: Tokens, token: DelegationToken
) -> "bodies.DescribeDelegationTokenResponseToken":
    return {
        "principal_type": token.owner.type,
        "principal_name": token.owner.name,
        "token_requester_principal_type": token.requester.type,
        "token_requester_principal_name": token.requester.name,
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.ends_ms,
        "token_id": token.token_id,
        "hmac": tokens.password(token.token_id),
        "renewers": [
            {"principal_type": each.type, "principal_name": each.name} for each in token.renewers
        ],
    }


def _refuse(error: RequestError) -> "bodies.DescribeDelegationTokenResponse":
    return {"error_code": errors.number(error.code), "tokens": []}


API = Api(
    41,
    "DescribeDelegationToken",
    range(1, 4),
    handle,
    (
        *on_each(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        *on_each(Operation.DESCRIBE_TOKENS, ResourceType.USER),
    ),
    _refuse,
)
