"""The offsets of a stream as JSON, which Spark stores in the checkpoint of a query.

The topic's id is included, so that a deleted and recreated topic is recognized:

    {"version": 1, "topics": {"clicks": {"id": "9f86...", "partitions": {"0": 23, "1": 5}}}}

Spark's own Kafka source writes `{"clicks": {"0": 23, "1": 5}}`. That form is read as well, so that
a query can be changed to this source by its format. A checkpoint with our form cannot be used by
Spark's source. Spark compares offsets as text: topics and partitions are written in a fixed order.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker.model.errors import ConfigError

_VERSION: Final = 1


class TopicOffsets(NamedTuple):
    """A topic's id, empty if it is unknown, and the next offset of each partition."""

    topic_id: str
    offsets: dict[int, int]


Offsets = dict[str, TopicOffsets]  # by topic


def to_json(offsets: Offsets) -> dict[str, Any]:
    """Return offsets as JSON for Spark."""
    return {
        "version": _VERSION,
        "topics": {
            topic: {
                "id": offsets[topic].topic_id,
                "partitions": {
                    str(each): offsets[topic].offsets[each]
                    for each in sorted(offsets[topic].offsets)
                },
            }
            for topic in sorted(offsets)
        },
    }


def from_json(found: Mapping[str, Any]) -> Offsets:
    """Parse either form.

    Raises:
        ConfigError: another form, or one written by a later version of this package.
    """
    try:
        if isinstance(found.get("version"), int):
            if found["version"] != _VERSION:
                raise ConfigError(
                    f"offsets of the checkpoint: expected version {_VERSION}, got"
                    f" {found['version']}: a later polylog has written them"
                )
            return {
                topic: TopicOffsets(str(each["id"]), _numbers(each["partitions"]))
                for topic, each in found["topics"].items()
            }
        return {topic: TopicOffsets("", _numbers(each)) for topic, each in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(
            f"offsets of the checkpoint: expected those of the format polylog or kafka, got {found}"
        ) from None


def _numbers(partitions: Mapping[str, Any]) -> dict[int, int]:
    numbers = {int(partition): offset for partition, offset in partitions.items()}
    if not all(type(each) is int and each >= 0 for each in numbers.values()):
        raise ValueError
    return numbers
