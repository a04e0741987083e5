"""The topics that a classic group's members have subscribed to with the consumer protocol."""

from broker.codec.coordinator_records import decode_subscription
from broker.core.groups.records.classic import CONSUMER_PROTOCOL, GroupImage
from broker.model.errors import CodecError


def subscribed_topics(image: GroupImage) -> frozenset[str] | None:
    """Return the topics of a generation; None if it has another protocol type or is unreadable."""
    if image.protocol_type != CONSUMER_PROTOCOL:
        return None
    try:
        bodies = [decode_subscription(each.subscription).body for each in image.members.values()]
    except CodecError:
        return None
    return frozenset(topic for body in bodies for topic in body["topics"])
