"""Why requests to groups are refused before they reach the group, or for its type."""

from broker.core.coordination.machine import Moment
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.assigned.images import is_assigned
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.classic import NO_MEMBER_ID, JoinRequest
from broker.core.groups.commands.offsets import CommitRequest
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.partition.group_types import Group
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode


def join_error(
    request: JoinRequest,
    group: Group | None,
    now: Moment,
    settings: GroupSettings,
    memory_budget: GroupMemoryBudget,
) -> ErrorCode:
    """Return why a classic member may not join; a group without members may be of any type."""
    if not request.group_id or is_invalid_group_id(request.group_id):
        return ErrorCode.INVALID_GROUP_ID
    if not (
        settings.session_timeout_ms_min
        <= request.session_timeout_ms
        <= settings.session_timeout_ms_max
    ):
        return ErrorCode.INVALID_SESSION_TIMEOUT
    protocols = [protocol.name for protocol in request.protocols]
    names = (request.client_id, request.instance_id or "", request.protocol_type, *protocols)
    if any(len(name.encode()) > limits.CLIENT_ID_BYTES_MAX for name in names):
        return ErrorCode.INVALID_REQUEST  # These are stored.
    if group is None and request.member_id != NO_MEMBER_ID:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_allowed = group is not None or memory_budget.allows_group
    if not (is_allowed and memory_budget.allows_bytes(_added_bytes_of_join(request, group))):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    # The protocol types of assigned groups are reserved for the broker.
    is_taken = isinstance(group, AssignedGroup) and group.has_live_members(now)
    is_inconsistent = is_taken or is_assigned(request.protocol_type)
    return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_inconsistent else ErrorCode.NONE


def _added_bytes_of_join(request: JoinRequest, group: Group | None) -> int:
    """Return by how much its group's size in memory would grow with this member, at most."""
    if isinstance(group, ClassicGroup):
        return group.added_bytes_of_join(request)
    return limits.MEMBER_BYTES + sum(protocol.size for protocol in request.protocols)


def commit_error(group: Group, request: CommitRequest, now: Moment) -> ErrorCode:
    """Return why a consumer may not commit; a producer may commit for any group (KIP-447).

    Producers before KIP-447 name no member; others may commit during a rebalance.
    """
    names_member = request.generation >= 0 or request.member_id or request.instance_id is not None
    is_assigned_here = isinstance(group, AssignedGroup)  # Kafka's producers do not read for it
    if request.transaction is not None and not names_member and not is_assigned_here:
        return ErrorCode.NONE
    error = group.commit_error(request.member_id, request.instance_id, request.generation, now)
    if request.transaction is not None and error is ErrorCode.REBALANCE_IN_PROGRESS:
        return ErrorCode.NONE
    is_epoch = isinstance(group, ConsumerGroup) and group.uses_member_epochs(request.member_id)
    if error is ErrorCode.NONE and is_epoch and not request.knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return error


def is_invalid_group_id(group_id: str) -> bool:
    """Return whether it is too long for a record, or cannot be encoded as UTF-8."""
    try:
        return len(group_id.encode()) > limits.GROUP_ID_BYTES_MAX
    except UnicodeEncodeError:
        return True


def unknown_group_error(group_id: str) -> ErrorCode:
    """Return the error of a member's request to a group that does not exist."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
