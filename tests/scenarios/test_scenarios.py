"""Runs the scenarios in `*.txt`: a command, `----`, and the expected output (as etcd does).

    join orders client=a
    ----
    record orders generation=1 protocol=range leader=a-1 members=a-1 assigned=no
    a: NONE generation=1 protocol=range leader=a-1 member=a-1 members=a-1

Each file is one shard of groups. A reply is printed when it is sent, with its receiver (`as=`
names the sender of a request, by default its client or member id), a note where it is logged.
`advance` lets time pass, `reload` loads a new shard from the log.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.codec.coordinator_records import decode_subscription, encode_subscription
from broker.core.groups.commands.assigned import AssignedResponse, AssignedStatus
from broker.core.groups.commands.classic import (
    GroupDescription,
    GroupProtocol,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.commands.consumer import ConsumerGroupDescription, ConsumerHeartbeatResponse
from broker.core.groups.commands.decision import Response
from broker.core.groups.commands.listing import ListGroupsRequest, ListGroupsResponse
from broker.core.groups.commands.offsets import (
    CommitRequest,
    CommitResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    OffsetToCommit,
)
from broker.core.groups.coordinator import RECORD_FORMAT
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records.classic import GroupRecord
from broker.core.groups.records.encoding import Record
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.core.groups.settings import GroupSettings
from broker.model.errors import ErrorCode
from tests.scenarios import assigned_scenario, consumer_scenario
from tests.scenarios.assigned_scenario import AssignedScenario
from tests.scenarios.consumer_scenario import ConsumerScenario
from tests.scenarios.scenario import Arguments, check_file
from tests.support.fakes import FakeTopics
from tests.support.subscriptions import place

FOLDER = Path(__file__).parent


class GroupScenario(ConsumerScenario, AssignedScenario):
    """The commands for groups of all kinds."""

    def __init__(self) -> None:
        self.settings = GroupSettings()
        self.topics = FakeTopics()
        self.memory_budget = GroupMemoryBudget(1 << 62)
        super().__init__(RECORD_FORMAT)

    def make_shard(self) -> GroupShard:
        shard = GroupShard(self.settings, self.topics, self.memory_budget)
        self.memory_budget.measure(lambda: [shard.memory_usage])
        return shard

    def shown_record(self, record: Record) -> str:
        return _record(record)

    def shown_response(self, response: Response) -> str:
        if isinstance(response, AssignedResponse):
            return assigned_scenario.answer(response)
        return _response(response)

    # ---- commands: as in commands.py -------------------------------------------------------------

    def do_settings(self, words: Arguments) -> None:
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=words.number("delay", 3_000),
            members_max=words.number("members_max", 1_000),
            metadata_bytes_max=words.number("metadata_bytes_max", 1 << 20),
            offsets_retention_ms=words.number("retention", 7 * 24 * 3_600_000),
        )
        self.settings = consumer_scenario.settings_of(words, self.settings)
        has_room = words.text("room", "yes") == "yes"
        self.memory_budget = GroupMemoryBudget(
            words.number("memory_bytes_max", 1 << 62), 10_000 if has_room else 0
        )
        self.begin_again()

    def do_join(self, words: Arguments) -> None:
        self.ids += 1
        request = JoinRequest(
            group_id=words.group,
            member_id=words.text("member"),
            instance_id=words.named.get("instance"),
            client_id=words.text("client", "client"),
            client_host="127.0.0.1",
            session_timeout_ms=words.number("session", 10_000),
            rebalance_timeout_ms=words.number("rebalance", 60_000),
            protocol_type=words.text("type", "consumer"),
            protocols=consumer_scenario.offers(words)
            or tuple(
                GroupProtocol(name, _subscription(metadata))
                for name, metadata in words.pairs("protocols", "range:")
            ),
            requires_member_id="v4" in words.bare,
            supports_skip_assignment="v9" in words.bare,
            fresh_id=str(self.ids),
            reason=words.text("reason"),
        )
        self.apply(self.shard.classic_group_join(request, words.token, self.now()))

    def do_sync(self, words: Arguments) -> None:
        request = SyncRequest(
            group_id=words.group,
            member_id=words.text("member"),
            instance_id=words.named.get("instance"),
            generation=words.number("generation", -1),
            assignments={name: each.encode() for name, each in words.pairs("assign")}
            | consumer_scenario.gifts(words),
            protocol_type=words.named.get("type"),
            protocol=words.named.get("protocol"),
        )
        self.apply(self.shard.sync(request, words.token, self.now()))

    def do_heartbeat(self, words: Arguments) -> None:
        request = HeartbeatRequest(
            words.group,
            words.text("member"),
            words.named.get("instance"),
            words.number("generation", -1),
        )
        self.apply(self.shard.heartbeat(request, words.token, self.now()))

    def do_leave(self, words: Arguments) -> None:
        reason = words.text("reason")
        members = [LeavingMember(each, reason=reason) for each, _ in words.pairs("member")]
        members += [LeavingMember("", each) for each, _ in words.pairs("instance")]
        request = LeaveRequest(words.group, tuple(members))
        self.apply(self.shard.leave(request, words.text("as", "leave"), self.now()))

    def do_commit(self, words: Arguments) -> None:
        offsets = []
        retention = words.named.get("retention")
        ahead = words.named.get("ahead")  # the commit's own time, that many ms from now
        time_ms = -1 if ahead is None else self.now().wall_ms + int(ahead)
        leader_epoch = 7 if retention is None and ahead is None else -1  # No version has both.
        for where, offset in words.pairs("offsets"):
            topic, partition = place(where)
            number, _, metadata = offset.partition("/")
            offsets.append(
                OffsetToCommit(topic, partition, int(number), leader_epoch, metadata, time_ms)
            )
        request = CommitRequest(
            words.group,
            words.text("member"),
            words.named.get("instance"),
            words.number("generation", -1),
            tuple(offsets),
            retention_ms=None if retention is None else int(retention),
            knows_epochs=words.text("epochs", "known") == "known",
        )
        self.apply(self.shard.commit(request, words.text("as", "commit"), self.now()))

    def do_fetch(self, words: Arguments) -> None:
        request = FetchOffsetsRequest(
            words.group,
            words.partitions() or None,
            member_id=words.named.get("member"),
            member_epoch=words.number("epoch", -1),
        )
        self.apply(self.shard.fetch_offsets(request, "fetch"))

    def do_describe(self, words: Arguments) -> None:
        self.apply(self.shard.describe(words.group, "describe"))

    def do_delete_topic(self, words: Arguments) -> None:
        self.apply_all(self.shard.administration.forget_topic(words.bare[0], self.now().wall_ms))

    def do_expire_offsets(self, _words: Arguments) -> None:
        self.apply_all(self.shard.expire(self.now()))

    def do_list(self, words: Arguments) -> None:
        request = ListGroupsRequest(
            frozenset(state for state, _ in words.pairs("states")),
            frozenset(each for each, _ in words.pairs("types")),
        )
        self.apply_all(self.shard.administration.list_groups(request, "list"))

    def do_delete(self, words: Arguments) -> None:
        self.apply_all(self.shard.administration.delete_group(words.group, "delete"))

    def do_delete_offsets(self, words: Arguments) -> None:
        request = DeleteOffsetsRequest(words.group, words.partitions())
        self.apply_all(self.shard.administration.delete_offsets(request, "delete-offsets"))

    def do_groups(self, _words: Arguments) -> None:
        self.lines.append(" ".join(self.shard.groups) or "none")


# ---- how things are shown ------------------------------------------------------------------------


def _fields(**values: object) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items() if value not in ("", None))


def _names(values: Iterable[str]) -> str:
    return ",".join(values)


def _record(record: Record) -> str:
    if isinstance(record, OffsetRecord):
        place = f"{record.group_id} {record.topic}-{record.partition}"
        return f"{place} {'deleted' if record.committed is None else record.committed.offset}"
    if not isinstance(record, GroupRecord):
        return f"{record.group_id} {consumer_scenario.record(record)}"
    image = record.image
    if image is None:
        return f"{record.group_id} deleted"
    members = _names(
        f"{each.member_id}:{consumer_scenario.assigned(each.assignment)}"
        if each.assignment
        else each.member_id
        for each in image.members.values()
    )
    return f"{record.group_id} " + _fields(
        generation=image.generation,
        protocol=image.protocol,
        leader=image.leader,
        members=members,
        assigned="no" if image.state_timestamp_ms is None else "yes",
    )


def _response(response: Response) -> str:
    if isinstance(response, ErrorCode):
        return response.name
    if isinstance(response, JoinResponse):
        return f"{response.error.name} " + _fields(
            generation=response.generation if response.generation >= 0 else None,
            protocol=response.protocol,
            leader=response.leader,
            member=response.member_id,
            members=_names(
                f"{each.member_id}:{_shown(each.metadata)}" for each in response.members
            ),
            skip_assignment="yes" if response.skip_assignment else None,
        )
    if isinstance(response, SyncResponse):
        assignment = consumer_scenario.assigned(response.assignment)
        return f"{response.error.name} {_fields(assignment=assignment)}"
    if isinstance(response, LeaveResponse):
        return " ".join(each.name for each in (response.error, *response.members))
    if isinstance(response, CommitResponse):
        return " ".join(each.name for each in response.errors)
    if isinstance(response, FetchOffsetsResponse):
        return response.error.name + "".join(
            f" {topic}-{partition}:{_committed(each)}"
            for topic, partitions in response.topics.items()
            for partition, each in partitions.items()
        )
    if isinstance(response, (ConsumerHeartbeatResponse, ConsumerGroupDescription)):
        return consumer_scenario.answer(response)
    if isinstance(response, DeleteOffsetsResponse):
        return response.error.name + "".join(
            f" {topic}:{error.name}" for topic, error in response.topics.items()
        )
    if isinstance(response, ListGroupsResponse):
        return response.error.name + "".join(
            f" {each.group_id}:{each.protocol_type}:{each.state}:{each.group_type}"
            for each in response.groups
        )
    assert not isinstance(response, (AssignedResponse, AssignedStatus))
    return _description(response)


def _subscription(text: str) -> bytes:
    """`topics/t/u` is a subscription to these in the consumer format; other words are raw bytes."""
    kind, *topics = text.split("/")
    if kind != "topics":
        return text.encode()
    return encode_subscription(0, {"topics": topics, "user_data": None})


def _shown(metadata: bytes) -> str:
    if not metadata.startswith(b"\0"):
        return metadata.decode()
    return "/".join(["topics", *decode_subscription(metadata).body["topics"]])


def _committed(committed: CommittedOffset | None) -> str:
    if committed is None:
        return "none"
    return f"{committed.offset}/{committed.leader_epoch}/{committed.metadata}"


def _description(group: GroupDescription) -> str:
    members = _names(
        f"{each.member_id}:{_shown(each.metadata)}:{consumer_scenario.assigned(each.assignment)}"
        for each in group.members
    )
    return f"{group.state.value} " + _fields(
        type=group.protocol_type, protocol=group.protocol, members=members
    )


# ---- the files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_group_scenario_gives_the_written_responses(path: Path) -> None:
    check_file(path, GroupScenario())
