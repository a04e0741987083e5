"""Which partitions of a topic -p means."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from broker.client.metadata import Partition
from broker.client.topics import TopicState
from broker.model.errors import ErrorCode, RequestError


def partition_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -p, which it takes as `numbers`."""
    return click.option(
        "-p",
        "--partition",
        "numbers",
        multiple=True,
        type=int,
        metavar="N",
        help="Only this partition; may be repeated.",
    )(function)


def chosen(topic: TopicState, numbers: Sequence[int]) -> list[Partition]:
    """Return these partitions of a topic, all if none is named.

    Raises:
        RequestError: one does not exist.
    """
    known = {each.partition for each in topic.partitions}
    missing = sorted(set(numbers) - known)
    if missing:
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic.name} has no partition {', '.join(map(str, missing))}: it has"
            f" {len(known)}, from 0 on",
        )
    return [(topic.name, each) for each in sorted(set(numbers) or known)]
