"""Records of consumer groups are Kafka's own (kafka-messages.txt, keys 3 to 8 and 16)."""

from struct import pack

import pytest

from broker.core.groups.records.consumer import (
    ClassicMetadata,
    ClassicProtocol,
    ConsumerEpochRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    MemberState,
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetRecord,
    is_deletion,
)
from broker.core.groups.records.encoding import decode, encode

TOPIC_ID = b"0123456789abcdef"
CLASSIC = ClassicMetadata(10_000, (ClassicProtocol("range", b"sub"),))
MEMBER = ConsumerMember("m", "i", "r", "c", "/h", ("a", "b"), "x.*", 60_000, "uniform", CLASSIC)
CURRENT = CurrentAssignment(
    5, 4, MemberState.UNREVOKED_PARTITIONS, {TOPIC_ID: (0, 2)}, {TOPIC_ID: (1,)}
)
KEPT: list[ConsumerRecord] = [
    ConsumerEpochRecord("g", 7, -(1 << 62)),
    ConsumerMemberRecord("g", "m", MEMBER),
    ConsumerMemberRecord("g", "m", ConsumerMember("m")),
    TargetEpochRecord("g", 7),
    TargetRecord("g", "m", {TOPIC_ID: (0, 1)}),
    CurrentRecord("g", "m", CURRENT),
    RegexRecord("g", "x.*", ResolvedRegex(("xa", "xb"), 3, 1_700_000_000_000)),
]
DELETED: list[ConsumerRecord] = [
    ConsumerEpochRecord("g", None),
    ConsumerMemberRecord("g", "m", None),
    TargetEpochRecord("g", None),
    TargetRecord("g", "m", None),
    CurrentRecord("g", "m", None),
    RegexRecord("g", "x.*", None),
]


@pytest.mark.parametrize("record", KEPT + DELETED)
def test_a_record_is_read_as_it_was_written(record: ConsumerRecord) -> None:
    assert decode(*encode(record)) == record


def test_a_tombstone_is_distinguished_from_a_kept_value() -> None:
    assert all(map(is_deletion, DELETED))
    assert not any(map(is_deletion, KEPT))


def test_a_current_assignment_is_written_as_kafka_writes_it() -> None:
    key, value = encode(CurrentRecord("g", "m", CURRENT))

    assert key == pack(">h", 8) + pack(">h", 1) + b"g" + pack(">h", 1) + b"m"
    assigned = b"\x02" + TOPIC_ID + b"\x03" + pack(">ii", 0, 2) + b"\x00"
    revoking = b"\x02" + TOPIC_ID + b"\x02" + pack(">i", 1) + b"\x00"
    assert value == pack(">hiib", 0, 5, 4, 1) + assigned + revoking + b"\x00"


def test_the_order_of_partitions_does_not_matter_and_an_empty_topic_is_dropped() -> None:
    key, value = encode(TargetRecord("g", "m", {TOPIC_ID: (2, 0), bytes(16): ()}))

    assert decode(key, value) == TargetRecord("g", "m", {TOPIC_ID: (0, 2)})


def test_an_unknown_member_state_is_read_as_unreleased_partitions() -> None:
    key, value = encode(CurrentRecord("g", "m", CURRENT))
    assert value is not None
    unknown = value[:10] + b"\x7f" + value[11:]

    record = decode(key, unknown)

    assert record == CurrentRecord(
        "g", "m", CURRENT._replace(state=MemberState.UNRELEASED_PARTITIONS)
    )
