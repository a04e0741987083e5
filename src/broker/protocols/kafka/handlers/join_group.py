"""JoinGroup, v0-9. v1 rebalance timeout; v2 throttle time; v4 MEMBER_ID_REQUIRED (KIP-394).

v5 static members (KIP-345); v6 flexible; v7 protocol type in the response; v8 reason (KIP-800); v9
skip_assignment (KIP-814).
"""

from typing import TYPE_CHECKING

from broker.core.groups.commands.classic import GroupProtocol, JoinRequest, JoinResponse
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, DeferrableResponse, Request, respond_with
from broker.protocols.kafka.operations import on_group

if TYPE_CHECKING:
    from broker.codec import bodies

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBER_ID_REQUIRED_SINCE = 4
_NULL_PROTOCOL_SINCE = 7
_SKIP_ASSIGNMENT_SINCE = 9


def handle(
    request: "Request[bodies.JoinGroupRequest]", session: Session
) -> "DeferrableResponse[bodies.JoinGroupResponse]":
    """Join the next generation; the response may wait for the other members."""
    joined = session.broker.groups.join_group(_command(request, session))
    # While it waits, the request itself is not kept.
    return respond_with(joined, _fields if request.version >= _NULL_PROTOCOL_SINCE else _old_fields)


def _command(request: "Request[bodies.JoinGroupRequest]", session: Session) -> JoinRequest:
    body = request.body
    has_timeout = request.version >= _REBALANCE_TIMEOUT_SINCE
    return JoinRequest(
        group_id=body["group_id"],
        member_id=body["member_id"],
        instance_id=body["group_instance_id"],
        client_id=request.client_id or "",
        client_host=session.java_host,
        session_timeout_ms=body["session_timeout_ms"],
        rebalance_timeout_ms=body["rebalance_timeout_ms" if has_timeout else "session_timeout_ms"],
        protocol_type=body["protocol_type"],
        protocols=tuple(
            GroupProtocol(each["name"], each["metadata"]) for each in body["protocols"]
        ),
        reason=body["reason"] or "",
        requires_member_id=request.version >= _MEMBER_ID_REQUIRED_SINCE,
        supports_skip_assignment=request.version >= _SKIP_ASSIGNMENT_SINCE,
    )


def _old_fields(response: JoinResponse) -> "bodies.JoinGroupResponse":
    return _fields(response._replace(protocol=response.protocol or ""))


def _fields(response: JoinResponse) -> "bodies.JoinGroupResponse":
    return {
        "error_code": errors.number(response.error),
        "generation_id": response.generation,
        "protocol_type": response.protocol_type,
        "protocol_name": response.protocol,
        "leader": response.leader,
        "skip_assignment": response.skip_assignment,
        "member_id": response.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata,
            }
            for member in response.members
        ],
    }


API = Api(11, "JoinGroup", range(10), handle, (on_group(Operation.READ),), has_own_limits=True)
