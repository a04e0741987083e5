"""ConsumerGroupHeartbeat, v0-1. v1 subscriptions by pattern, member ids made by the client."""

from broker.core.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from broker.core.groups.consumer.records import in_order
from broker.core.session import Session
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Later, Request, refuse_with_message, then
from broker.protocols.kafka.assignments import topic_partitions

_MEMBER_ID_SINCE = 1


def handle(request: Request, session: Session) -> Fields | Later:
    """Keep a member in its group and tell it what it has."""
    body = request.body
    names, owned = body["subscribed_topic_names"], body["topic_partitions"]
    if owned is not None:
        owned = in_order({each["topic_id"]: set(each["partitions"]) for each in owned})
    command = ConsumerHeartbeat(
        group_id=body["group_id"],
        member_id=body["member_id"],
        member_epoch=body["member_epoch"],
        instance_id=body["instance_id"],
        rack_id=body["rack_id"],
        rebalance_timeout_ms=body["rebalance_timeout_ms"],
        topic_names=None if names is None else tuple(names),
        topic_regex=body["subscribed_topic_regex"],
        assignor=body["server_assignor"],
        owned=owned,
        client_id=request.client_id or "",
        client_host=session.java_host,
        requires_member_id=request.version >= _MEMBER_ID_SINCE,
    )
    return then(session.broker.groups.consumer_group_heartbeat(command), _fields)


def _fields(response: ConsumerHeartbeatResponse) -> Fields:
    assignment = response.assignment
    return {
        "error_code": errors.number(response.error),
        "error_message": response.message or errors.message(response.error),
        "member_id": response.member_id,
        "member_epoch": response.member_epoch,
        "heartbeat_interval_ms": response.heartbeat_interval_ms,
        "assignment": None
        if assignment is None
        else {"topic_partitions": topic_partitions(assignment)},
    }


API = Api(68, "ConsumerGroupHeartbeat", range(2), handle, refuse_with_message)
