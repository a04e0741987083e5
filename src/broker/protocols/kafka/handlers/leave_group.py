"""LeaveGroup, v0-5. v1 throttle time; v3 several members, static ones too (KIP-345).

v4 flexible; v5 reason (KIP-800). Below v3 the error of the one member is the top-level error.
"""

from typing import TYPE_CHECKING

from broker.core.groups.commands.classic import LeaveRequest, LeaveResponse, LeavingMember
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, DeferrableResponse, Request, respond_with
from broker.protocols.kafka.operations import on_group

if TYPE_CHECKING:
    from broker.codec import bodies

_BATCHED_SINCE = 3


def handle(
    request: "Request[bodies.LeaveGroupRequest]", session: Session
) -> "DeferrableResponse[bodies.LeaveGroupResponse]":
    """Remove members from their group."""
    body = request.body
    is_batched = request.version >= _BATCHED_SINCE
    leaving = (
        tuple(
            LeavingMember(each["member_id"], each["group_instance_id"], each["reason"] or "")
            for each in body["members"]
        )
        if is_batched
        else (LeavingMember(body["member_id"]),)
    )
    left = session.broker.groups.leave_group(LeaveRequest(body["group_id"], leaving))
    return respond_with(left, lambda response: _fields(response, leaving, is_batched=is_batched))


def _fields(
    response: LeaveResponse, leaving: tuple[LeavingMember, ...], *, is_batched: bool
) -> "bodies.LeaveGroupResponse":
    if response.error is not ErrorCode.NONE:
        return {"error_code": errors.number(response.error)}
    if not is_batched:
        return {"error_code": errors.number(response.members[0])}
    return {
        "error_code": 0,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "error_code": errors.number(code),
            }
            for member, code in zip(leaving, response.members, strict=True)
        ],
    }


API = Api(13, "LeaveGroup", range(6), handle, (on_group(Operation.READ),))
