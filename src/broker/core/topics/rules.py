"""Rules for requests about topics: names, numbers of partitions, configurations. Pure.

A request that is refused raises RequestError with Kafka's error code (CreateTopics;
CreatePartitions, KIP-195).
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.core.topics.topic import INTERNAL_TOPICS, Topic
from broker.model import limits
from broker.model.config import Config
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import TopicConfig

DEFAULT = -1  # Kafka's value for the broker's default: partitions, replication factor
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.TOPIC_NAME_BYTES_MAX}}}")
_NAME_WITH_EQUALS = re.compile(rf"[A-Za-z0-9._=-]{{1,{limits.TOPIC_NAME_BYTES_MAX}}}")


class NewTopic(NamedTuple):
    """A request for a new topic.

    Attributes:
        allows_equals: whether its name may have a `=`: a protocol allows it that its clients use.
    """

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = {}
    config: Mapping[str, str | None] = {}
    allows_equals: bool = False


class Plan(NamedTuple):
    """A new topic that may be created: validated, with defaults filled in."""

    name: str
    partitions: int
    config: TopicConfig
    factor: int = 1  # replicas of each partition


class NewPartitions(NamedTuple):
    """The total number of partitions that a topic shall have; replicas of the new ones."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


def check_name(name: str, *, allows_equals: bool = False) -> None:
    """Refuse an invalid topic name; a folder's name is made of it, too."""
    legal = _NAME_WITH_EQUALS if allows_equals else _NAME
    if not legal.fullmatch(name) or name in (".", ".."):
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"a topic name has 1 to {limits.TOPIC_NAME_BYTES_MAX} of the characters"
            " a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'",
        )


def partition_count(new: NewTopic, config: Config) -> int:
    """Return how many partitions a new topic gets; raises RequestError."""
    count = _assigned_partitions(new) if new.assignments else new.partitions
    return config.integer("num.partitions") if count == DEFAULT else count


def _assigned_partitions(new: NewTopic) -> int:
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment, partitions and replication factor must be -1",
        )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be consecutive from 0"
        )
    return len(new.assignments)


def check_partition_count(count: int, *, existing: int, held: int) -> None:
    """Refuse more partitions than a topic or this broker may have."""
    if not 1 <= count <= limits.PARTITIONS_PER_TOPIC_MAX:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"a topic has 1 to {limits.PARTITIONS_PER_TOPIC_MAX} partitions, not {count}",
        )
    if held + count - existing > limits.PARTITIONS_PER_BROKER_MAX:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"this broker holds {held} of at most {limits.PARTITIONS_PER_BROKER_MAX} partitions",
        )


def check_new_partitions(topic: Topic, new: NewPartitions) -> None:
    """Refuse a request that does not increase the number of partitions."""
    if topic.is_internal:  # keys are hashed to partitions by their number
        text = f"the partitions of '{topic.name}' are as many as at its creation"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if topic.config.has_streams:  # and streams to partitions by their key
        text = f"the streams of '{topic.name}' are distributed over its partitions"
        raise RequestError(ErrorCode.INVALID_PARTITIONS, text)
    existing = len(topic.logs)
    if new.total <= existing:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic has {existing} partitions, {new.total} would not be an increase",
        )
    if new.assignments is None:
        return
    added = new.total - existing
    if len(new.assignments) != added:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions would be added, {len(new.assignments)} are assigned",
        )


def check_durability(name: str, config: TopicConfig) -> None:
    """Refuse a weaker durability of internal topics: acknowledged commits must survive."""
    if name in INTERNAL_TOPICS and not config.is_group_commit:
        text = f"polylog.durability of '{name}' is group-commit, always"
        raise RequestError(ErrorCode.INVALID_CONFIG, text)


def check_streams(name: str, present: TopicConfig, config: TopicConfig) -> None:
    """Refuse to give streams to a topic that exists, or to take them away.

    Records that are there are no events, and whatever removes or writes records could change
    streams meanwhile.
    """
    if present.has_streams != config.has_streams:
        text = f"'{name}' exists: only a new topic is given {EVENT_SOURCING}, for good"
        raise RequestError(ErrorCode.INVALID_CONFIG, text)


def check_may_write(topic: Topic) -> None:
    """Refuse records of clients in a topic whose records are written by their own commands."""
    if topic.is_internal:
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{topic.name}' belongs to the broker"
        )
    if topic.config.has_streams:
        text = f"'{topic.name}' has streams: only their own commands append events, with a version"
        raise RequestError(ErrorCode.POLICY_VIOLATION, text)


def without_null(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return the values that were given; ConfigError names a key with a null value."""
    given = {name: value for name, value in config.items() if value is not None}
    if len(given) < len(config):
        missing = ", ".join(sorted(config.keys() - given.keys()))
        raise ConfigError(f"null is not a value for {missing}")
    return given
