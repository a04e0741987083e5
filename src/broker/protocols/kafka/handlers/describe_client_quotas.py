"""DescribeClientQuotas, v0-1. v1 flexible (KIP-546)."""

from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation
from broker.core.security.quotas.entities import DEFAULT, IP, TYPES
from broker.core.security.quotas.table import Match
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.security_limits import QUOTA_ENTITIES_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, message
from broker.protocols.kafka.operations import on_cluster
from broker.protocols.kafka.quota_entities import entity_fields

if TYPE_CHECKING:
    from broker.codec import bodies

_EXACT, _DEFAULT, _ANY = range(3)  # Kafka's types of a match


async def handle(
    request: "Request[bodies.DescribeClientQuotasRequest]", session: Session
) -> "bodies.DescribeClientQuotasResponse":
    """Return the quotas of all entities that match; RequestError for an invalid filter."""
    wanted = _filter(request.body["components"])
    entries: list[bodies.DescribeClientQuotasResponseEntry] = []
    quotas = session.broker.security.quotas
    found = () if quotas is None else quotas.described(wanted, is_strict=request.body["strict"])
    async for each in in_steps(found, QUOTA_ENTITIES_PER_STEP):
        if each is not None:
            entity, values = each
            entries.append(
                {
                    "entity": entity_fields(entity),
                    "values": [{"key": key, "value": values[key]} for key in sorted(values)],
                }
            )
    return {"error_code": 0, "error_message": None, "entries": entries}


def _filter(components: "list[bodies.DescribeClientQuotasRequestComponent]") -> list[Match]:
    wanted = [_match(each) for each in components]
    kinds = [each.kind for each in wanted]
    if len(set(kinds)) < len(kinds):
        raise _invalid("an entity type appears more than once in the filter")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("the entity type ip is not combined with user or client-id")
    return wanted


def _match(component: "bodies.DescribeClientQuotasRequestComponent") -> Match:
    kind = component["entity_type"]
    if not kind:
        raise _invalid("an entity type is empty")
    if kind not in TYPES:
        text = f"entity type {kind!r:.100} is not user, client-id or ip"
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, text)
    match_type, name = component["match_type"], component["match"]
    if match_type not in (_EXACT, _DEFAULT, _ANY):
        raise _invalid(f"unknown match type {match_type}")
    if (match_type == _EXACT) != (name is not None):
        raise _invalid("a name to match belongs to match type 0 (exact), and to no other")
    return Match(kind, DEFAULT if match_type == _DEFAULT else name)


def _invalid(text: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, text)


def _refuse(error: RequestError) -> "bodies.DescribeClientQuotasResponse":
    return {
        "error_code": errors.number(error.code),
        "error_message": message(error),
        "entries": None,
    }


API = Api(
    48, "DescribeClientQuotas", range(2), handle, (on_cluster(Operation.DESCRIBE_CONFIGS),), _refuse
)
