"""DescribeClientQuotas, v0-1. v1 flexible. There are no quotas, and none can be set (KIP-546).

Filters are validated as by Kafka's QuotaImage, so that an invalid one gets an error here too.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, message
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies

_EXACT = 0
_MATCH_TYPES = range(3)  # an exact name, the default entity, any name
_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"


def handle(
    request: "Request[bodies.DescribeClientQuotasRequest]", _session: Session
) -> "bodies.DescribeClientQuotasResponse":
    """Return no entries; RequestError for an invalid filter."""
    components = request.body["components"]
    types = [each["entity_type"] for each in components]
    for each in components:
        _check(each)
    if len(set(types)) < len(types):
        raise _invalid("an entity type appears more than once in the filter")
    if _IP in types and len(types) > 1:
        raise _invalid("the entity type ip is not combined with user or client-id")
    return {"error_code": 0, "error_message": None, "entries": []}


def _check(component: "bodies.DescribeClientQuotasRequestComponent") -> None:
    entity_type = component["entity_type"]
    if not entity_type:
        raise _invalid("an entity type is empty")
    if entity_type not in (_USER, _CLIENT_ID, _IP):
        text = f"entity type {entity_type!r:.100} is not user, client-id or ip"
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, text)
    match_type, name = component["match_type"], component["match"]
    if match_type not in _MATCH_TYPES:
        raise _invalid(f"unknown match type {match_type}")
    if (match_type == _EXACT) != (name is not None):
        raise _invalid("a name to match belongs to match type 0 (exact), and to no other")


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
