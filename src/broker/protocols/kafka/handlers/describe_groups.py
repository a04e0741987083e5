"""DescribeGroups, v0-6. v3 authorized operations (KIP-430); v4 static members; v5 flexible.

v6 GROUP_ID_NOT_FOUND for a group that does not exist (KIP-1043); before v6 it is Dead without
error. Each requested group has one result: librdkafka aborts the process if one is missing.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.classic import GroupDescription, GroupState
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, message, unique
from broker.protocols.kafka.operations import NOT_ASKED, authorized, on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_NOT_FOUND_SINCE = 6


async def handle(
    request: "Request[bodies.DescribeGroupsRequest]", session: Session
) -> "bodies.DescribeGroupsResponse":
    """Describe one group after the other; each may have a thousand members."""
    wanted = await unique(request.body["groups"])
    return {
        "groups": [
            await _group(request, session, group_id) async for group_id in in_steps(wanted, 1)
        ]
    }


async def _group(
    request: "Request[bodies.DescribeGroupsRequest]", session: Session, group_id: str
) -> "bodies.DescribeGroupsResponseGroup":
    try:
        access.check_group(session, Operation.DESCRIBE, group_id)
    except RequestError as error:
        return {
            "error_code": errors.number(error.code),
            "error_message": message(error),
            "group_id": group_id,
            "group_state": "",
            "protocol_type": "",
            "protocol_data": "",
            "members": [],
            "authorized_operations": NOT_ASKED,
        }
    return _fields(request, session, await session.broker.groups.describe_group(group_id))


def _fields(
    request: "Request[bodies.DescribeGroupsRequest]", session: Session, group: GroupDescription
) -> "bodies.DescribeGroupsResponseGroup":
    code = group.error
    is_unknown = code is ErrorCode.NONE and group.state is GroupState.DEAD
    if is_unknown and request.version >= _NOT_FOUND_SINCE:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    is_known = group.error is ErrorCode.NONE and not is_unknown
    is_asked = is_known and request.body["include_authorized_operations"]
    return {
        "error_code": errors.number(code),
        "error_message": f"Group {group.group_id} not found." if is_unknown else None,
        "group_id": group.group_id,
        "group_state": group.state.value if group.error is ErrorCode.NONE else "",
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
        "authorized_operations": authorized(
            session, ResourceType.GROUP, group.group_id, is_asked=is_asked
        ),
    }


API = Api(15, "DescribeGroups", range(7), handle, on_each(Operation.DESCRIBE, ResourceType.GROUP))
