"""The topics of a classic group's members, as far as the broker can decode them."""

from broker.codec.coordinator_records import encode_subscription
from broker.core.groups.classic.subscription import subscribed_topics
from broker.core.groups.records.classic import GroupImage, Member


def image(*subscriptions: bytes, protocol_type: str = "consumer") -> GroupImage:
    members = {
        f"m{number}": Member(f"m{number}", None, "c", "", 1, 1, each)
        for number, each in enumerate(subscriptions)
    }
    return GroupImage(1, protocol_type, "range", "m0", 1, members)


def to(*topics: str, version: int = 0) -> bytes:
    return encode_subscription(version, {"topics": list(topics), "user_data": None})


def test_a_group_subscribes_to_whatever_any_member_subscribes_to() -> None:
    assert subscribed_topics(image(to("t", "u"), to("u", "v"))) == frozenset("tuv")


def test_a_newer_subscription_version_is_read_as_far_as_known() -> None:
    newer = b"\x00\x7f" + to("t", version=3)[2:] + b"what comes later"

    assert subscribed_topics(image(newer)) == frozenset("t")


def test_one_undecodable_subscription_makes_the_groups_topics_unknown() -> None:
    assert subscribed_topics(image(to("t"), b"\x00")) is None
    assert subscribed_topics(image(to("t"), b"\x00\x01\x7f\xff\xff\xff")) is None


def test_groups_of_other_protocol_types_have_no_consumer_subscription() -> None:
    assert subscribed_topics(image(to("t"), protocol_type="connect")) is None


def test_a_group_without_members_subscribes_to_nothing() -> None:
    assert subscribed_topics(image()) == frozenset()
