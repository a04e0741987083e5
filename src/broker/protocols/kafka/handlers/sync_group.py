"""SyncGroup, v0-5. v1 throttle time; v3 static members (KIP-345); v4 flexible; v5 protocol."""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.classic import SyncRequest, SyncResponse
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, DeferrableResponse, Request, respond_with
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_PROTOCOL_NAMES_SINCE = 5


def handle(
    request: "Request[bodies.SyncGroupRequest]", session: Session
) -> "DeferrableResponse[bodies.SyncGroupResponse]":
    """Wait for the leader's assignment."""
    body = request.body
    names = (body["protocol_type"], body["protocol_name"])
    if request.version >= _PROTOCOL_NAMES_SINCE and None in names:
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    access.check_group(session, Operation.READ, body["group_id"])
    command = SyncRequest(
        group_id=body["group_id"],
        member_id=body["member_id"],
        instance_id=body["group_instance_id"],
        generation=body["generation_id"],
        assignments={each["member_id"]: each["assignment"] for each in body["assignments"]},
        protocol_type=body["protocol_type"],
        protocol=body["protocol_name"],
    )
    return respond_with(session.broker.groups.sync_group(command), _fields)


def _fields(response: SyncResponse) -> "bodies.SyncGroupResponse":
    return {
        "error_code": errors.number(response.error),
        "protocol_type": response.protocol_type,
        "protocol_name": response.protocol,
        "assignment": response.assignment,
    }


API = Api(
    14,
    "SyncGroup",
    range(6),
    handle,
    on_each(Operation.READ, ResourceType.GROUP),
    has_own_limits=True,
)
