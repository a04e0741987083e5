"""The deadlines of a consumer group's members."""

from broker.core.coordination.machine import Moment
from broker.core.groups.commands.consumer import ConsumerHeartbeat
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.settings import GroupSettings
from tests.support.fakes import FakeTopics

SESSION_MS = 45_000


def join(shard: GroupShard, member_id: str, *, is_appended: bool = True) -> None:
    """Let a member join; the records of its join are lost if they are not appended."""
    request = ConsumerHeartbeat(
        "g", member_id, 0, None, None, 5_000, ("x",), owned={}, client_id="c", client_host="h"
    )
    decision = shard.consumer_heartbeat(request, object(), Moment(0, 0))
    for record in decision.records if is_appended else ():
        shard.replay(record)


def test_members_expire_beside_one_whose_join_was_not_appended() -> None:
    shard = GroupShard(GroupSettings(), topics=FakeTopics())
    join(shard, "a")
    join(shard, "b")
    join(shard, "c", is_appended=False)  # the disk is full
    now = Moment(SESSION_MS + 1, SESSION_MS + 1)

    for decision in shard.tick(now):
        for record in decision.records:
            shard.replay(record)

    group = shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert not group.state.members
    assert group.next_deadline_ms() is None
