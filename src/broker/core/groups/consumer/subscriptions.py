"""The topics that a group is subscribed to, and a hash to detect changes of them.

The hash is stored in the group's record, so that a change is detected across a restart too. It is
not Kafka's hash: only this broker compares it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from zlib import crc32

from broker._native.kernel.checksum import crc32c
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.records.consumer import ConsumerMember, ResolvedRegex

_INT32_BYTES = 4


class TopicView(Protocol):
    """The properties of a topic that groups use."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def topic_id(self) -> bytes:
        """The topic id, which a topic created again does not share."""

    @property
    def partition_count(self) -> int:
        """The number of partitions."""

    @property
    def is_internal(self) -> bool:
        """Whether it is an internal topic."""


class TopicsView(Protocol):
    """The topics of this broker, for groups."""

    @property
    def version(self) -> int:
        """A number that is incremented when a topic is created, deleted or enlarged."""

    def get(self, name: str, /) -> TopicView | None:
        """Return the topic of that name."""

    def by_id(self, topic_id: bytes, /) -> TopicView | None:
        """Return the topic with that id."""

    def names(self) -> Collection[str]:
        """Return the names of all topics."""


def subscribed_topics(
    state: Membership,
    regexes: Mapping[str, ResolvedRegex],
    before: Iterable[ConsumerMember],
    after: Iterable[ConsumerMember],
) -> set[str]:
    """Return the topic names that a group is subscribed to after a change of members.

    Args:
        state: the group before the change.
        regexes: the topics that patterns match.
        before: the former state of members that change or leave.
        after: the new state of members that change or join.
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


def metadata_hash(names: Iterable[str], topics: TopicsView) -> int:
    """Return a hash that changes if one of these topics is created, deleted or enlarged."""
    found = (topics.get(name) for name in sorted(names))
    data = b"".join(
        topic.topic_id + topic.partition_count.to_bytes(_INT32_BYTES, "big")
        for topic in found
        if topic is not None
    )
    # Two checksums over different polynomials: 63 bits, from modules that are loaded anyway.
    return crc32(data) << 31 ^ crc32c(data) if data else 0
