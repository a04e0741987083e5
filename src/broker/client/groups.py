"""The groups of a cluster: the list, members and their partitions, deletion, committed offsets.

A group is classic (its members assign partitions, JoinGroup) or consumer (the coordinator does,
KIP-848); other types are listed, and described as far as DescribeGroups knows them.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker import codec
from broker.client.brokers import live_brokers
from broker.client.connection import Api
from broker.client.coordinators import GROUP, coordinator
from broker.client.metadata import Cluster, Partition, by_topic
from broker.client.retry import check
from broker.model.address import Address
from broker.model.errors import CodecError, ErrorCode, PeerError, RequestError

if TYPE_CHECKING:
    from broker.codec import bodies

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
CONSUMER_PROTOCOL: Final = "consumer"  # the protocol type whose assignments are known
DEAD: Final = "Dead"
# States without members, in which offsets may be set.
INACTIVE: Final = frozenset({"Empty", DEAD})

_LIST: "Api[bodies.ListGroupsRequest, bodies.ListGroupsResponse]" = Api("ListGroups", range(6))
_DESCRIBE: "Api[bodies.DescribeGroupsRequest, bodies.DescribeGroupsResponse]" = Api(
    "DescribeGroups", range(7)
)
_DESCRIBE_CONSUMER: "Api[bodies.ConsumerGroupDescribeRequest, bodies.ConsumerGroupDescribeResponse]"
_DESCRIBE_CONSUMER = Api("ConsumerGroupDescribe", range(2))
_DELETE: "Api[bodies.DeleteGroupsRequest, bodies.DeleteGroupsResponse]" = Api(
    "DeleteGroups", range(4)
)
_DELETE_OFFSETS: "Api[bodies.OffsetDeleteRequest, bodies.OffsetDeleteResponse]" = Api(
    "OffsetDelete", range(1)
)
# Since version 10 topics have ids, not names.
_COMMIT: "Api[bodies.OffsetCommitRequest, bodies.OffsetCommitResponse]" = Api(
    "OffsetCommit", range(2, 10)
)
_NO_MEMBER_EPOCH = -1  # a commit of an administrator, not of a member
# What a commit that is of no member gets if there are some.
_OF_MEMBERS: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_NOT_FOUND: Final = codec.error_named("GROUP_ID_NOT_FOUND").code


class Listed(NamedTuple):
    """A group in the list; kind and state are "" if the broker does not tell."""

    group: str
    kind: str
    protocol_type: str
    state: str
    coordinator: int


class Member(NamedTuple):
    """A member of a group.

    epoch is that of a consumer group's member. target has the partitions that it is to have when
    the reconciliation is done, None for a classic member.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    subscribed: tuple[str, ...]
    assigned: tuple[Partition, ...]
    target: tuple[Partition, ...] | None


class Group(NamedTuple):
    """A described group; epoch is that of a consumer group."""

    group: str
    kind: str
    protocol_type: str
    state: str
    assignor: str
    epoch: int | None
    coordinator: Address
    members: tuple[Member, ...]


def list_groups(
    cluster: Cluster, *, states: Collection[str] = (), kinds: Collection[str] = ()
) -> list[Listed]:
    """Ask every broker for the groups that it coordinates; sorted by name.

    Args:
        cluster: the cluster.
        states: only groups in one of these; empty: in all.
        kinds: only groups of one of these types; empty: of all.

    Raises:
        RequestError: a broker refuses.
        Unreachable: a broker does not respond.
    """
    # The filters are the client's: brokers before Kafka 2.6 and 3.8 have none.
    wanted_states = {each.casefold() for each in states}
    wanted_kinds = {each.casefold() for each in kinds}
    found = []
    for broker_id, address in live_brokers(cluster).items():
        found += cluster.retried(partial(_listed, cluster, broker_id, address))
    return sorted(
        each
        for each in found
        if (not wanted_states or each.state.casefold() in wanted_states)
        and (not wanted_kinds or each.kind.casefold() in wanted_kinds)
    )


def _listed(cluster: Cluster, broker_id: int, address: Address) -> list[Listed]:
    body: bodies.ListGroupsRequest = {"states_filter": [], "types_filter": []}
    answer = cluster.ask(address, _LIST, body)
    check(answer["error_code"], f"{address}: the list of groups")
    return [
        Listed(
            each["group_id"],
            each.get("group_type", ""),
            each["protocol_type"],
            each.get("group_state", ""),
            broker_id,
        )
        for each in answer["groups"]
    ]


def describe_group(cluster: Cluster, group: str) -> Group:
    """Describe a group; one that does not exist raises GROUP_ID_NOT_FOUND.

    Raises:
        RequestError: the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """

    def ask() -> Group:
        address = coordinator(cluster, group, GROUP)
        return _consumer(cluster, address, group) or _classic(cluster, address, group)

    return cluster.retried(ask)


def _consumer(cluster: Cluster, address: Address, group: str) -> Group | None:
    """Return a consumer group; None if it is none, or the broker has none."""
    body: bodies.ConsumerGroupDescribeRequest = {
        "group_ids": [group],
        "include_authorized_operations": False,
    }
    try:
        answer = cluster.ask(address, _DESCRIBE_CONSUMER, body)
    except PeerError:
        return None  # before Kafka 3.7
    [found] = answer["groups"]
    if found["error_code"] == _NOT_FOUND:
        return None
    check(found["error_code"], f"{address}: group {group!r}")
    members = [
        Member(
            each["member_id"],
            each.get("instance_id"),
            each["client_id"],
            each["client_host"].removeprefix("/"),
            each["member_epoch"],
            tuple(sorted(each["subscribed_topic_names"]))
            + ((f"/{regex}/",) if (regex := each.get("subscribed_topic_regex")) else ()),
            _pairs(each["assignment"]["topic_partitions"]),
            _pairs(each["target_assignment"]["topic_partitions"]),
        )
        for each in found["members"]
    ]
    return Group(
        group,
        CONSUMER,
        CONSUMER_PROTOCOL,
        found["group_state"],
        found["assignor_name"],
        found["group_epoch"],
        address,
        tuple(sorted(members)),
    )


def _pairs(
    assigned: "Iterable[bodies.ConsumerGroupDescribeResponseTopicPartition]",
) -> tuple[Partition, ...]:
    return tuple(
        sorted((each["topic_name"], number) for each in assigned for number in each["partitions"])
    )


def _classic(cluster: Cluster, address: Address, group: str) -> Group:
    body: bodies.DescribeGroupsRequest = {"groups": [group], "include_authorized_operations": False}
    [found] = cluster.ask(address, _DESCRIBE, body)["groups"]
    check(found["error_code"], f"{address}: group {group!r}")
    if found["group_state"] == DEAD:  # what brokers before Kafka 4 answer for an unknown group
        check(_NOT_FOUND, f"{address}: group {group!r}")
    is_known = found["protocol_type"] == CONSUMER_PROTOCOL
    members = [
        Member(
            each["member_id"],
            each.get("group_instance_id"),
            each["client_id"],
            each["client_host"].removeprefix("/"),
            None,
            _subscribed(each["member_metadata"]) if is_known else (),
            _assigned(each["member_assignment"]) if is_known else (),
            None,
        )
        for each in found["members"]
    ]
    return Group(
        group,
        CLASSIC,
        found["protocol_type"],
        found["group_state"],
        found["protocol_data"],
        None,
        address,
        tuple(sorted(members, key=lambda each: each.member_id)),
    )


def _subscribed(metadata: bytes) -> tuple[str, ...]:
    # A member's own bytes, which the broker does not check; while a group rebalances, none.
    try:
        return tuple(sorted(codec.decode_subscription(metadata).body["topics"]))
    except CodecError:
        return ()


def _assigned(assignment: bytes) -> tuple[Partition, ...]:
    try:
        found = codec.decode_assignment(assignment)
    except CodecError:
        return ()
    if found is None:
        return ()
    return tuple(
        sorted(
            (each["topic"], number)
            for each in found.body["assigned_partitions"]
            for number in each["partitions"]
        )
    )


def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group with its committed offsets.

    Raises:
        RequestError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, or the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """

    def ask() -> None:
        address = coordinator(cluster, group, GROUP)
        body: bodies.DeleteGroupsRequest = {"groups_names": [group]}
        [result] = cluster.ask(address, _DELETE, body)["results"]
        check(result["error_code"], f"{address}: group {group!r}")

    cluster.retried(ask)


def delete_offsets(cluster: Cluster, group: str, partitions: Collection[Partition]) -> None:
    """Delete the committed offsets of partitions.

    Raises:
        RequestError: GROUP_SUBSCRIBED_TO_TOPIC, or the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """
    body: bodies.OffsetDeleteRequest = {
        "group_id": group,
        "topics": [
            {"name": name, "partitions": [{"partition_index": each} for each in numbers]}
            for name, numbers in by_topic(partitions).items()
        ],
    }

    def ask() -> None:
        address = coordinator(cluster, group, GROUP)
        answer = cluster.ask(address, _DELETE_OFFSETS, body)
        check(answer["error_code"], f"{address}: group {group!r}")
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                what = f"{address}: {topic['name']}-{each['partition_index']} of group {group!r}"
                check(each["error_code"], what)

    cluster.retried(ask)


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Set committed offsets of a group without members; a group that does not exist is created.

    Raises:
        RequestError: NON_EMPTY_GROUP, the group has members; or the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """
    body: bodies.OffsetCommitRequest = {
        "group_id": group,
        "generation_id_or_member_epoch": _NO_MEMBER_EPOCH,
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": each,
                        "committed_offset": offsets[name, each],
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for each in numbers
                ],
            }
            for name, numbers in by_topic(offsets).items()
        ],
    }

    def ask() -> None:
        address = coordinator(cluster, group, GROUP)
        answer = cluster.ask(address, _COMMIT, body)
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                what = f"{address}: {topic['name']}-{each['partition_index']} of group {group!r}"
                check(each["error_code"], what)

    try:
        # A topic that is unknown was deleted: nobody creates it while this waits.
        cluster.retried(ask, final=frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    except RequestError as error:
        if error.code not in _OF_MEMBERS:
            raise
        raise RequestError(
            ErrorCode.NON_EMPTY_GROUP,
            f"{cluster}: group {group!r} has members, which commit its offsets: stop them",
        ) from None


def group_or_none(cluster: Cluster, group: str) -> Group | None:
    """Describe a group; return None if it does not exist.

    Raises:
        RequestError, Unreachable: as `describe_group`.
    """
    try:
        return describe_group(cluster, group)
    except RequestError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise
