"""What the members of a classic group have subscribed to, in the words of the consumer protocol."""

from broker.codec.coordinator_records import decode_subscription
from broker.core.groups.records import GroupImage
from broker.model.errors import CodecError

CONSUMER_PROTOCOL = "consumer"  # the protocol type of groups that share partitions


def subscribed_topics(image: GroupImage) -> frozenset[str] | None:
    """The topics that a generation reads; None if its subscriptions cannot be read here."""
    if image.protocol_type != CONSUMER_PROTOCOL:
        return None
    try:
        bodies = [decode_subscription(each.subscription).body for each in image.members.values()]
    except CodecError:
        return None
    return frozenset(topic for body in bodies for topic in body["topics"])
