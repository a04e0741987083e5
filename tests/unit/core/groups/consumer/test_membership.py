"""What a consumer group's members are subscribed to."""

from broker.core.groups.consumer.membership import Membership
from broker.core.groups.records.consumer import (
    ConsumerMember,
    ConsumerMemberRecord,
    RegexRecord,
    ResolvedRegex,
)


def test_a_group_is_subscribed_to_topics_that_members_name_or_their_patterns_match() -> None:
    group = Membership("g")
    named = ConsumerMember("a", topic_names=("orders",))
    matching = ConsumerMember("b", topic_regex="pay.*")
    unresolved = ConsumerMember("c", topic_regex="log.*")
    for member in (named, matching, unresolved):
        group.replay(ConsumerMemberRecord("g", member.member_id, member))
    group.replay(RegexRecord("g", "pay.*", ResolvedRegex(("payments",), 1, 0)))
    group.replay(RegexRecord("g", "old.*", ResolvedRegex(("older",), 1, 0)))  # of no member

    asked = ["orders", "payments", "logs", "older", "pay.*"]

    assert [topic for topic in asked if group.is_subscribed_to(topic)] == ["orders", "payments"]
