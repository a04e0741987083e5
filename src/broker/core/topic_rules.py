"""What may be asked of topics: names, numbers of partitions, configurations. Pure.

RequestError says why something is refused, in the words and with the codes of Kafka (CreateTopics;
CreatePartitions, KIP-195).
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.core.topic import INTERNAL_TOPICS, Topic
from broker.model.config import Config
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.limits import (
    PARTITIONS_PER_BROKER_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    TOPIC_NAME_BYTES_MAX,
)
from broker.model.topic_config import TopicConfig

DEFAULT = -1  # Kafka's "as the broker is configured", for partitions and replication factor
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{TOPIC_NAME_BYTES_MAX}}}")


class NewTopic(NamedTuple):
    """What is asked for when a topic is created."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = {}
    config: Mapping[str, str | None] = {}


class Plan(NamedTuple):
    """A new topic that may be created: checked, defaults filled in."""

    name: str
    partitions: int
    config: TopicConfig


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all; who holds the new ones, None: anybody."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


def check_name(name: str) -> None:
    """Refuse what cannot be a topic's name (and its folder's)."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"a topic name has 1 to {TOPIC_NAME_BYTES_MAX} of the characters"
            " a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'",
        )


def metric_name(name: str) -> str:
    """Kafka's metrics replace dots: names that only differ in that may not both exist."""
    return name.replace(".", "_")


def partition_count(new: NewTopic, config: Config) -> int:
    """How many partitions a new topic gets; RequestError refuses."""
    if new.assignments:
        count = _assigned_partitions(new, config.integer("node.id"))
    else:
        if new.replication_factor not in (DEFAULT, 1):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {new.replication_factor}: this cluster has 1 broker",
            )
        count = new.partitions
    if count == DEFAULT:
        count = config.integer("num.partitions")
    return count


def _assigned_partitions(new: NewTopic, node_id: int) -> int:
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment, partitions and replication factor must be -1",
        )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be consecutive from 0"
        )
    if any(list(replicas) != [node_id] for replicas in new.assignments.values()):
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {node_id}")
    return len(new.assignments)


def check_partition_count(count: int, *, existing: int, held: int) -> None:
    """Refuse more partitions than a topic may have, and a broker that holds so many by now."""
    if not 1 <= count <= PARTITIONS_PER_TOPIC_MAX:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"a topic has 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, not {count}",
        )
    if held + count - existing > PARTITIONS_PER_BROKER_MAX:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"this broker holds {held} of at most {PARTITIONS_PER_BROKER_MAX} partitions",
        )


def check_new_partitions(topic: Topic, new: NewPartitions, node_id: int) -> None:
    """Refuse what does not make a topic larger."""
    if topic.is_internal:  # which group lives in which partition depends on their number
        text = f"the partitions of '{topic.name}' are as many as at its creation"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
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
    if any(list(replicas) != [node_id] for replicas in new.assignments):
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {node_id}")


def check_durability(name: str, config: TopicConfig) -> None:
    """What a group was told is still true after a power cut, whatever is asked for."""
    if name in INTERNAL_TOPICS and not config.is_group_commit:
        text = f"polylog.durability of '{name}' is group-commit, always"
        raise RequestError(ErrorCode.INVALID_CONFIG, text)


def without_null(config: Mapping[str, str | None]) -> dict[str, str]:
    """The values that were given; ConfigError names a key without one."""
    given = {name: value for name, value in config.items() if value is not None}
    if len(given) < len(config):
        missing = ", ".join(sorted(config.keys() - given.keys()))
        raise ConfigError(f"null is not a value for {missing}")
    return given
