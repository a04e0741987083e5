"""How far a group is behind: in records, in time, and in what retention leaves.

    start            committed        end
      |---- read -------|---- lag -----|
      |<------------ the log --------->|      retention: lag / log

The time lag is the age of the first record that is not read. At 100 % of retention the oldest
record that the group has not read is the next one that retention deletes.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster, Partition, Topic
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.codec import decode_columns
from broker.model.errors import ErrorCode, RequestError

_OffsetT = TypeVar("_OffsetT")
_FIRST_BATCH_BYTES: Final = 1  # a broker returns one whole batch


class Lag(NamedTuple):
    """The lag in one partition.

    Attributes:
        committed: the next offset to read; None: nothing is committed.
        start: the first offset of the log.
        end: the offset after the last record.
        records: how many records are not read; those that retention has deleted do not count.
        seconds: the age of the first of them; 0 without a lag, None if nobody knows.
        deleted: how many records were deleted before the group has read them.
        retention_percent: how much of the log is not read.
    """

    committed: int | None
    start: int
    end: int
    records: int
    seconds: float | None
    deleted: int
    retention_percent: float


def lags(
    cluster: Cluster,
    committed: Mapping[Partition, int | None],
    topics: Mapping[str, Topic],
    now_ms: int,
    *,
    with_time: bool = True,
) -> dict[Partition, Lag]:
    """Return the lag in each partition; all of them exist.

    Args:
        cluster: the cluster.
        committed: the committed offsets; None counts from the start of the log.
        topics: the partitions' topics.
        now_ms: the time that ages are measured from.
        with_time: whether to fetch the first unread record of each partition for its age.

    Raises:
        RequestError, Unreachable: as list_offsets and fetch.
    """
    starts, ends = (
        list_offsets(cluster, dict.fromkeys(committed, what)) for what in (EARLIEST, LATEST)
    )
    found = {}
    for key, offset in committed.items():
        start, end = starts[key].offset, ends[key].offset
        first = start if offset is None else max(offset, start)
        records = max(end - first, 0)
        seconds: float | None = 0.0
        if records:
            seconds = (
                seconds_behind(cluster, topics[key[0]], key[1], first, end, now_ms)
                if with_time
                else None
            )
        found[key] = Lag(
            offset,
            start,
            end,
            records,
            seconds,
            0 if offset is None else max(start - offset, 0),
            round(100 * records / (end - start), 1) if end > start else 0.0,
        )
    return found


def seconds_behind(
    cluster: Cluster, topic: Topic, partition: int, first: int, end: int, now_ms: int
) -> float | None:
    """Return the age of the first record from an offset on; None if it has been deleted.

    Raises:
        RequestError, Unreachable, PeerError: as fetch.
    """
    part = Range(topic.name, topic.topic_id, partition, first, end)
    try:
        for chunk in fetch(cluster, part, bytes_max=_FIRST_BATCH_BYTES):
            columns = decode_columns(chunk.data, columns=["timestamp"], min_offset=first)
            if len(columns):
                return max(now_ms - memoryview(columns.column("timestamp"))[0], 0) / 1000
    except RequestError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return None
    return 0.0  # only control records are left to read


def existing(
    offsets: Mapping[Partition, _OffsetT], topics: Mapping[str, Topic]
) -> dict[Partition, _OffsetT]:
    """Leave out deleted partitions, whose offsets stay until they expire; sorted."""
    return {
        (topic, partition): offset
        for (topic, partition), offset in sorted(offsets.items())
        if topic in topics and partition in topics[topic].partitions
    }
