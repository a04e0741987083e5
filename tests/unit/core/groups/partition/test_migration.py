from collections.abc import Callable

import pytest

from broker.codec.coordinator_records import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from broker.core.coordination.machine import Moment
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.partition.migration import downgrade_records, upgrade_records
from broker.core.groups.records.classic import GroupImage, GroupRecord, Member
from broker.core.groups.records.consumer import (
    ClassicMetadata,
    ClassicProtocol,
    ConsumerMember,
    ConsumerMemberRecord,
    CurrentAssignment,
    CurrentRecord,
)
from broker.core.groups.settings import ConsumerSettings, GroupSettings, MigrationPolicy
from broker.model.errors import RequestError
from tests.support.fakes import FakeTopics
from tests.unit.core.groups.consumer.migration_simulation import (
    GROUP,
    ClassicClient,
    Client,
    ConsumerClient,
    LoggedGroups,
)

SEEDS = range(30)


def roll(logged: LoggedGroups, make: Callable[[LoggedGroups, str], Client]) -> None:
    """Replace one client after the other."""
    for place, old in enumerate(list(logged.clients)):
        if logged.random.random() < 0.3:
            logged.clients.remove(old)  # It dies, and its session has to end.
        else:
            old.leave()
            logged.clients.remove(old)
        logged.run(logged.random.randrange(6))
        logged.clients.append(make(logged, f"{old.name}{place}"))
        logged.run(logged.random.randrange(40))
        if logged.random.random() < 0.5:
            logged.settle_after_sessions()


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", SEEDS)
def test_three_members_migrated_to_and_fro_never_own_a_partition_twice(
    seed: int, is_cooperative: bool
) -> None:
    logged = LoggedGroups(seed)

    def old(logged: LoggedGroups, name: str) -> Client:
        return ClassicClient(logged, name, is_cooperative=is_cooperative)

    logged.clients = [old(logged, name) for name in "abc"]
    logged.settle()
    assert isinstance(logged.shard.groups[GROUP], ClassicGroup)

    roll(logged, ConsumerClient)
    logged.settle_after_sessions()
    group = logged.shard.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    assert group.state.classic_count == 0

    roll(logged, old)
    logged.settle_after_sessions()
    assert isinstance(logged.shard.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_coordinator_lost_during_migration_changes_nothing(
    seed: int, is_cooperative: bool
) -> None:
    logged = LoggedGroups(seed)
    logged.clients = [
        ClassicClient(logged, name, is_cooperative=is_cooperative) for name in ("a", "b")
    ]
    logged.settle()
    logged.clients.append(ConsumerClient(logged, "c"))
    for _ in range(6):
        logged.run(logged.random.randrange(12))
        logged.lose()
    logged.settle_after_sessions()

    logged.clients.pop().leave()
    logged.lose()
    for _ in range(4):
        logged.run(logged.random.randrange(12))
        logged.lose()

    logged.settle_after_sessions()


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", SEEDS)
def test_instances_that_restart_with_the_other_protocol_never_own_a_partition_twice(
    seed: int, is_cooperative: bool
) -> None:
    logged = LoggedGroups(seed)

    def old(name: str, instance_id: str | None) -> Client:
        return ClassicClient(logged, name, is_cooperative=is_cooperative, instance_id=instance_id)

    def new(name: str, instance_id: str | None) -> Client:
        return ConsumerClient(logged, name, instance_id=instance_id)

    logged.clients = [old(f"{each}0", each) for each in "ABC"]
    logged.settle()

    for make, kind in ((new, ConsumerGroup), (old, ClassicGroup)):
        for place, client in enumerate(list(logged.clients)):
            logged.clients[place] = make(f"{client.name}{place}", client.instance_id)
            logged.run(logged.random.randrange(40))
            if logged.random.random() < 0.3:
                logged.lose()
        logged.settle_after_sessions()
        assert isinstance(logged.shard.groups[GROUP], kind)


@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        (MigrationPolicy.DISABLED, ClassicGroup),
        (MigrationPolicy.DOWNGRADE, ClassicGroup),
        (MigrationPolicy.UPGRADE, ConsumerGroup),
        (MigrationPolicy.BIDIRECTIONAL, ConsumerGroup),
    ],
)
def test_a_group_with_classic_members_is_upgraded_only_if_the_policy_allows_it(
    policy: MigrationPolicy, becomes: type
) -> None:
    logged = LoggedGroups(1, ConsumerSettings(migration=policy))
    logged.clients = [ClassicClient(logged, "a", is_cooperative=False)]
    logged.settle()

    logged.clients.append(ConsumerClient(logged, "b"))
    logged.refuses = becomes is ClassicGroup
    logged.run(10)

    assert isinstance(logged.shard.groups[GROUP], becomes)


@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        (MigrationPolicy.UPGRADE, ConsumerGroup),
        (MigrationPolicy.BIDIRECTIONAL, ClassicGroup),
    ],
)
def test_a_group_is_downgraded_when_its_last_consumer_member_leaves_if_the_policy_allows_it(
    policy: MigrationPolicy, becomes: type
) -> None:
    logged = LoggedGroups(1, ConsumerSettings(migration=policy))
    logged.clients = [ClassicClient(logged, "a", is_cooperative=False)]
    logged.settle()
    logged.clients.append(ConsumerClient(logged, "b"))
    logged.settle()

    logged.clients.pop().leave()
    logged.settle()

    assert isinstance(logged.shard.groups[GROUP], becomes)


@pytest.mark.parametrize(
    ("protocol", "is_refused"), [("cooperative-sticky", False), ("stream", True)]
)
def test_a_group_whose_assignor_sends_more_than_partitions_is_not_upgraded(
    protocol: str, is_refused: bool
) -> None:
    topics = FakeTopics()
    topics.put("t", 2)
    subscription = encode_subscription(1, {"topics": ["t"], "user_data": None})
    assigned = [{"topic": "t", "partitions": [0, 1]}]
    assignment = encode_assignment(1, {"assigned_partitions": assigned, "user_data": b"tasks"})
    member = Member("m", None, "c", "h", 1, 1, subscription, assignment)
    group = ClassicGroup("g", GroupSettings())
    group.replay(GroupImage(1, "consumer", protocol, "m", 5, {"m": member}))
    group.resume(Moment(0, 0))

    if is_refused:
        with pytest.raises(RequestError, match="would be lost"):
            upgrade_records(group, ConsumerSettings(), topics)
    else:
        records = upgrade_records(group, ConsumerSettings(), topics)
        [current] = [each.current for each in records if isinstance(each, CurrentRecord)]
        assert current is not None
        assert list(current.assigned.values()) == [(0, 1)]


def test_a_stored_member_that_cannot_be_parsed_is_downgraded_with_its_group() -> None:
    topics = FakeTopics()
    topics.put("t", 1)
    topic = topics.get("t")
    assert topic is not None
    offered = (ClassicProtocol("sticky", b"?"),)
    group = ConsumerGroup("g", ConsumerSettings(), topics)
    for member in (ConsumerMember("a", classic=ClassicMetadata(1, offered)), ConsumerMember("c")):
        current = CurrentAssignment(1, assigned={topic.topic_id: (0,)} if member.classic else {})
        group.replay(ConsumerMemberRecord("g", member.member_id, member))
        group.replay(CurrentRecord("g", member.member_id, current))

    leaving = GroupDecision([ConsumerMemberRecord("g", "c", None)])
    records = downgrade_records(group, leaving, ConsumerSettings(), topics)

    assert records is not None
    image = records[-1]
    assert isinstance(image, GroupRecord)
    assert image.image is not None
    assignment = decode_assignment(image.image.members["a"].assignment)
    assert assignment is not None
    assert assignment.body["assigned_partitions"] == [{"topic": "t", "partitions": [0]}]


def test_each_conversion_is_one_batch() -> None:
    logged = LoggedGroups(1)
    logged.clients = [ClassicClient(logged, "a", is_cooperative=True)]
    logged.settle()
    before = len(logged.log)

    logged.clients.append(ConsumerClient(logged, "b"))
    logged.clients[-1].step()
    assert isinstance(logged.shard.groups[GROUP], ConsumerGroup)
    assert len(logged.log) == before + 1

    before = len(logged.log)
    logged.clients.pop().leave()
    assert isinstance(logged.shard.groups[GROUP], ClassicGroup)
    assert len(logged.log) == before + 1
