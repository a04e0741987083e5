"""The topics that a group is subscribed to, and a hash that tells whether they have changed.

The hash stands in the group's record, so that a change is seen across a restart too. It is of our
own making: nobody but this broker compares it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from zlib import crc32

from broker._native.kernel.crc32c import crc32c
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.records import ConsumerMember, ResolvedRegex

_INT32_BYTES = 4


class SeenTopic(Protocol):
    """A topic as groups see it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def topic_id(self) -> bytes:
        """The id of this incarnation."""

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""

    @property
    def is_internal(self) -> bool:
        """Whether it is the broker's own."""


class SeenTopics(Protocol):
    """The topics of this broker as groups see them."""

    @property
    def version(self) -> int:
        """A number that grows with every change of a topic's existence or size."""

    def get(self, name: str, /) -> SeenTopic | None:
        """The topic of that name."""

    def by_id(self, topic_id: bytes, /) -> SeenTopic | None:
        """The topic with that id."""

    def names(self) -> Collection[str]:
        """Every topic's name."""


class NoTopics:
    """A broker without topics."""

    version = 0

    def get(self, _name: str, /) -> SeenTopic | None:
        """None of that name."""
        return None

    def by_id(self, _topic_id: bytes, /) -> SeenTopic | None:
        """None with that id."""
        return None

    def names(self) -> Collection[str]:
        """No names."""
        return ()


def subscribed_topics(
    state: Membership,
    regexes: Mapping[str, ResolvedRegex],
    before: Iterable[ConsumerMember],
    after: Iterable[ConsumerMember],
) -> set[str]:
    """The names that a group is subscribed to once some members have changed, or are gone.

    Args:
        state: the group as it is.
        regexes: what patterns match.
        before: the members that change, as they are.
        after: the same members, and new ones, as they will be.
    """
    topics, patterns = dict(state.by_topic), dict(state.by_regex)
    for members, change in ((before, -1), (after, 1)):
        for member in members:
            for topic in member.topic_names:
                topics[topic] = topics.get(topic, 0) + change
            if member.topic_regex:
                patterns[member.topic_regex] = patterns.get(member.topic_regex, 0) + change
    names = {topic for topic, count in topics.items() if count > 0}
    for regex, count in patterns.items():
        if count > 0 and regex in regexes:
            names.update(regexes[regex].topics)
    return names


def metadata_hash(names: Iterable[str], topics: SeenTopics) -> int:
    """A number that changes when one of these topics comes, goes, comes again or grows."""
    found = (topics.get(name) for name in sorted(names))
    data = b"".join(
        topic.topic_id + topic.partition_count.to_bytes(_INT32_BYTES, "big")
        for topic in found
        if topic is not None
    )
    # Two checksums over different polynomials: 63 bits, from what every start has loaded anyway.
    return crc32(data) << 31 ^ crc32c(data) if data else 0
