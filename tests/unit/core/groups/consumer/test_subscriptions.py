"""The topics that a consumer group is subscribed to after a change of its members."""

from typing import Final

import pytest

from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.subscriptions import subscribed_topics
from broker.core.groups.records.consumer import (
    ConsumerMember,
    ConsumerMemberRecord,
    ResolvedRegex,
)

REGEXES: Final = {"pay.*": ResolvedRegex(("payments", "payouts"), 1, 0)}
BY_NAME: Final = ConsumerMember("a", topic_names=("payments", "payouts"))
BY_PATTERN: Final = ConsumerMember("a", topic_regex="pay.*")
each_way = pytest.mark.parametrize("member", [BY_NAME, BY_PATTERN], ids=["name", "pattern"])


def group_of(*members: ConsumerMember) -> Membership:
    group = Membership("g")
    for member in members:
        group.replay(ConsumerMemberRecord("g", member.member_id, member))
    return group


@each_way
def test_a_group_is_subscribed_to_topics_of_its_only_member(member: ConsumerMember) -> None:
    joined = subscribed_topics(group_of(), REGEXES, [], [member])
    unchanged = subscribed_topics(group_of(member), REGEXES, [member], [member])

    assert joined == unchanged == {"payments", "payouts"}


@each_way
def test_a_group_is_subscribed_to_topics_until_the_last_of_their_members_leaves(
    member: ConsumerMember,
) -> None:
    first, last = member, member._replace(member_id="b")

    assert len(subscribed_topics(group_of(first, last), REGEXES, [first], [])) == 2
    assert subscribed_topics(group_of(last), REGEXES, [last], []) == set()
    assert subscribed_topics(group_of(first, last), REGEXES, [first, last], []) == set()


def test_a_pattern_that_is_not_resolved_yet_matches_no_topic() -> None:
    member = ConsumerMember("a", topic_names=("orders",), topic_regex="log.*")

    assert subscribed_topics(group_of(), REGEXES, [], [member]) == {"orders"}
