"""The records of partitions, in ranges of offsets, and those that are still to come."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from broker import codec
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster, Partition
from broker.client.offsets import LATEST, list_offsets
from broker.codec import Record

_POLL_SECONDS: Final = 0.1


class Read(NamedTuple):
    """A record and its partition."""

    topic: str
    partition: int
    record: Record


def read(cluster: Cluster, part: Range, *, is_committed: bool = True) -> Iterator[Read]:
    """Yield the records of an offset range; RequestError, Unreachable, PeerError as `fetch`."""
    for chunk in fetch(cluster, part, is_committed=is_committed):
        for each in codec.records(chunk.data, aborted=chunk.aborted):
            if part.start <= each.offset < part.end:
                yield Read(part.topic, part.partition, each)


def follow(
    cluster: Cluster,
    starts: Mapping[Partition, int],
    topic_ids: Mapping[str, str],
    *,
    is_committed: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Read | None]:
    """Yield the records from offsets on, without an end; None when there are no more at the moment.

    Raises:
        RequestError, Unreachable, PeerError: as `fetch`.
    """
    positions = dict(starts)
    while True:
        ends = list_offsets(
            cluster,
            dict.fromkeys(positions, LATEST),
            is_committed=is_committed,
            topic_ids=topic_ids,
        )
        new = {key: found.offset for key, found in ends.items() if found.offset > positions[key]}
        for (topic, partition), end in sorted(new.items()):
            part = Range(topic, topic_ids[topic], partition, positions[topic, partition], end)
            yield from read(cluster, part, is_committed=is_committed)
            positions[topic, partition] = end
        if not new:
            yield None
            sleep(_POLL_SECONDS)
