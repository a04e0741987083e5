"""The encoding of the records of groups and offsets, which Kafka's tools read too.

    OffsetCommit     key: group, topic, partition    value: the offset
    GroupMetadata    key: group                      value: its generation and members
    ConsumerGroup*   records of consumer groups, listed in consumer.py

A null value is a tombstone (the bytes: broker.codec.coordinator_records). The versions are those of
Kafka 4.3: OffsetCommitValue 3 (4 adds a topic id; 1 if the client set a retention time), and
GroupMetadataValue 3. Key types of other group types are skipped while loading, as in Kafka.
"""

from typing import TypeAlias

from broker.codec.coordinator_records import (
    decode_group_record,
    encode_coordinator_record,
    group_record_name,
)
from broker.core.groups.records import classic, consumer, offsets
from broker.core.groups.records.classic import GroupRecord
from broker.core.groups.records.consumer import ConsumerRecord
from broker.core.groups.records.offsets import OffsetRecord

Record: TypeAlias = GroupRecord | OffsetRecord | ConsumerRecord


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record."""
    if isinstance(record, OffsetRecord):
        return encode_coordinator_record(offsets.to_log(record))
    if isinstance(record, GroupRecord):
        return encode_coordinator_record(classic.to_log(record))
    return encode_coordinator_record(consumer.to_log(record))


def decode(key: bytes, value: bytes | None) -> Record | None:
    """Return the record of a key and value; None if its key type is not used here.

    Raises:
        CodecError: the bytes are not a valid record.
    """
    name = group_record_name(key)
    if name == offsets.RECORD_NAME:
        return offsets.from_log(decode_group_record(key, value))
    if name == classic.RECORD_NAME:
        return classic.from_log(decode_group_record(key, value))
    if name is not None and name in consumer.READERS:
        record = decode_group_record(key, value)
        return consumer.READERS[name](record.key, record.value)
    return None
