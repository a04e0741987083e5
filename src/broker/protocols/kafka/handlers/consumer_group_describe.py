"""ConsumerGroupDescribe, v0-1. v1 says which members speak the classic protocol (KIP-1099)."""

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.consumer import ConsumerGroupDescription, DescribedConsumerMember
from broker.core.groups.records.consumer import Partitions
from broker.core.scheduling.steps import StepBudget, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, message, unique
from broker.protocols.kafka.operations import NOT_ASKED, authorized, on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_CLASSIC, _CONSUMER = 0, 1
_MEMBER_COST = 4  # of a member, where each of its topics costs 1


async def handle(
    request: "Request[bodies.ConsumerGroupDescribeRequest]", session: Session
) -> "bodies.ConsumerGroupDescribeResponse":
    """Describe one group after the other, each as it was in its step.

    A group may have a thousand members, and each of them thousands of partitions.
    """
    groups = session.broker.groups
    wanted = await unique(request.body["group_ids"])
    is_asked = request.body["include_authorized_operations"]

    async def describe(group_id: str) -> "bodies.ConsumerGroupDescribeResponseGroup":
        group = ConsumerGroupDescription(ErrorCode.NONE, group_id)
        try:
            access.check_group(session, Operation.DESCRIBE, group_id)
            group = await groups.consumer_group_describe(group_id)
            await _check_topics(session, group)
        except RequestError as error:
            refused = ConsumerGroupDescription(error.code, group_id, message(error) or "")
            return await _group(refused, NOT_ASKED)
        is_shown = is_asked and group.error is ErrorCode.NONE
        operations = authorized(session, ResourceType.GROUP, group_id, is_asked=is_shown)
        return await _group(group, operations)

    return {"groups": [await describe(group_id) async for group_id in in_steps(wanted, 1)]}


async def _check_topics(session: Session, group: ConsumerGroupDescription) -> None:
    """Raise RequestError if a member subscribes to, or has, a topic that may not be described."""
    if session.broker.security.authorizer is None:
        return
    names = (name for each in group.members for name in each.member.topic_names)
    named = chain(group.topic_names.values(), names)
    async for name in in_steps(named, access.per_step(session, NAMES_READ_PER_STEP)):
        access.check_topic(session, Operation.DESCRIBE, name)


async def _group(
    group: ConsumerGroupDescription, operations: int
) -> "bodies.ConsumerGroupDescribeResponseGroup":
    members = []
    budget = StepBudget(PARTITIONS_ANSWERED_PER_STEP)
    for each in group.members:
        members.append(_member(each, group.topic_names))
        topics = len(each.current.assigned) + len(each.target)
        await budget.spend(_MEMBER_COST + topics)
    return {
        "error_code": errors.number(group.error),
        "error_message": group.message or errors.message(group.error),
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": group.assignor,
        "members": members,
        "authorized_operations": operations,
    }


def _member(
    described: DescribedConsumerMember, names: Mapping[bytes, str]
) -> "bodies.ConsumerGroupDescribeResponseMember":
    member = described.member
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": described.current.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topic_names),
        "subscribed_topic_regex": member.topic_regex,
        "assignment": _assignment(described.current.assigned, names),
        "target_assignment": _assignment(described.target, names),
        "member_type": _CONSUMER if member.classic is None else _CLASSIC,
    }


def _assignment(
    partitions: Partitions, names: Mapping[bytes, str]
) -> "bodies.ConsumerGroupDescribeResponseAssignment":
    """Return an assignment without deleted topics, which have no name."""
    return {
        "topic_partitions": [
            {"topic_id": topic, "topic_name": names[topic], "partitions": list(numbers)}
            for topic, numbers in partitions.items()
            if topic in names
        ]
    }


API = Api(
    69,
    "ConsumerGroupDescribe",
    range(2),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.GROUP, ResourceType.TOPIC),
)
