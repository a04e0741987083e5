"""LeaveGroup, v0-5. v1 throttle time; v3 several members, static ones too (KIP-345).

v4 flexible; v5 reason (KIP-800). Below v3 the error of the one member is the top-level error.
"""

from broker.core.groups.commands.classic import LeaveRequest, LeaveResponse, LeavingMember
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, DeferredResponse, Fields, Request, respond_with

_BATCHED_SINCE = 3


def handle(request: Request, session: Session) -> Fields | DeferredResponse:
    """Remove members from their group."""
    body = request.body
    is_batched = request.version >= _BATCHED_SINCE
    members = body["members"] if is_batched else [body]
    leaving = tuple(
        LeavingMember(each["member_id"], each["group_instance_id"], each["reason"] or "")
        if is_batched
        else LeavingMember(each["member_id"])
        for each in members
    )
    left = session.broker.groups.leave_group(LeaveRequest(body["group_id"], leaving))
    return respond_with(left, lambda response: _fields(response, leaving, is_batched=is_batched))


def _fields(
    response: LeaveResponse, leaving: tuple[LeavingMember, ...], *, is_batched: bool
) -> Fields:
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


API = Api(13, "LeaveGroup", range(6), handle)
