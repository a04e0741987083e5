"""Which partitions a command line names: TOPIC or TOPIC:0,3."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from broker.model.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from broker.client.metadata import Cluster, Partition


def partition_text(partition: "Partition") -> str:
    """Return TOPIC-PARTITION."""
    return f"{partition[0]}-{partition[1]}"


def partitions_of(cluster: "Cluster", wanted: Sequence[str]) -> "list[Partition]":
    """Return the partitions that TOPIC and TOPIC:0,3 name.

    Raises:
        ConfigError: a number is invalid.
        RequestError: there is no such topic or partition.
    """
    parsed = [_parsed(each) for each in wanted]
    topics = cluster.topics({name for name, _ in parsed})
    found = sorted(
        {(name, each) for name, numbers in parsed for each in numbers or topics[name].partitions}
    )
    check_existing(cluster, found)
    return found


def check_existing(cluster: "Cluster", partitions: "Collection[Partition]") -> None:
    """Raise RequestError if one of the partitions does not exist."""
    topics = cluster.topics({topic for topic, _ in partitions})
    unknown = sorted(key for key in partitions if key[1] not in topics[key[0]].partitions)
    if unknown:
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{cluster}: there is no partition {', '.join(map(partition_text, unknown))}",
        )


def _parsed(text: str) -> tuple[str, list[int] | None]:
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    try:
        return name, [int(each) for each in numbers.split(",")]
    except ValueError:
        raise ConfigError(f"{text!r}: expected TOPIC or TOPIC:0,3") from None
