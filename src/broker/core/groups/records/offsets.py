"""The record of a committed offset (OffsetCommit)."""

from typing import NamedTuple

from broker.codec.coordinator_records import CoordinatorRecord

RECORD_NAME = "OffsetCommit"
_OFFSET_COMMIT_VALUE_VERSION = 3
# The only version with an expiry time of the client's own; it has no leader epoch.
_EXPIRING_OFFSET_VALUE_VERSION = 1
_UNKNOWN_TIMESTAMP = -1


class CommittedOffset(NamedTuple):
    """The next offset that a group will read in a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # None: the broker's retention applies


class OffsetRecord(NamedTuple):
    """A group's new offset of a partition; committed None: it was deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


def to_log(record: OffsetRecord) -> CoordinatorRecord:
    """Return the record as it is stored."""
    key = {"group": record.group_id, "topic": record.topic, "partition": record.partition}
    committed = record.committed
    if committed is None:
        return CoordinatorRecord(RECORD_NAME, None, key, None)
    value = {
        "offset": committed.offset,
        "metadata": committed.metadata,
        "commit_timestamp": committed.commit_timestamp_ms,
    }
    if committed.expire_timestamp_ms is not None:
        value["expire_timestamp"] = committed.expire_timestamp_ms
        return CoordinatorRecord(RECORD_NAME, _EXPIRING_OFFSET_VALUE_VERSION, key, value)
    value["leader_epoch"] = committed.leader_epoch
    return CoordinatorRecord(RECORD_NAME, _OFFSET_COMMIT_VALUE_VERSION, key, value)


def from_log(record: CoordinatorRecord) -> OffsetRecord:
    """Return the record that was stored."""
    key, value = record.key, record.value
    committed = None
    if value is not None:
        expire_ms = value["expire_timestamp"]
        committed = CommittedOffset(
            value["offset"],
            value["leader_epoch"],
            value["metadata"],
            value["commit_timestamp"],
            None if expire_ms == _UNKNOWN_TIMESTAMP else expire_ms,
        )
    return OffsetRecord(key["group"], key["topic"], key["partition"], committed)
