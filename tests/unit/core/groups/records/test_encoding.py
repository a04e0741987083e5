"""Group records are Kafka's own (kafka-messages.txt: OffsetCommitKey 1, GroupMetadataKey 2)."""

from struct import pack

import pytest

from broker.core.groups.records.classic import GroupImage, GroupRecord, Member
from broker.core.groups.records.encoding import Record, decode, encode
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.model.errors import CodecError

MEMBER = Member("m-1", "i", "c", "/h", 60_000, 10_000, b"sub", b"assigned")
IMAGE = GroupImage(3, "consumer", "range", "m-1", 1_700_000_000_000, {"m-1": MEMBER})
RECORDS: list[Record] = [
    OffsetRecord("g", "t", 2, CommittedOffset(42, 7, "note", 1_700_000_000_000)),
    OffsetRecord("g", "t", 2, None),
    GroupRecord("g", IMAGE),
    GroupRecord("g", GroupImage(4, "consumer", None, None, 5, {})),
    GroupRecord("g", GroupImage(4, "consumer", "range", "m-1", None, {"m-1": MEMBER})),
    GroupRecord("g", None),
]


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def test_an_offset_commit_is_written_as_kafka_writes_it() -> None:
    key, value = encode(RECORDS[0])

    assert key == pack(">h", 1) + text("g") + text("t") + pack(">i", 2)
    assert value == pack(">hqi", 3, 42, 7) + text("note") + pack(">q", 1_700_000_000_000)


def test_a_group_is_written_as_kafka_writes_it() -> None:
    key, value = encode(RECORDS[2])

    assert key == pack(">h", 2) + text("g")
    head = pack(">h", 3) + text("consumer") + pack(">i", 3) + text("range") + text("m-1")
    member = text("m-1") + text("i") + text("c") + text("/h") + pack(">ii", 60_000, 10_000)
    payloads = pack(">i", 3) + b"sub" + pack(">i", 8) + b"assigned"
    assert value == head + pack(">qi", 1_700_000_000_000, 1) + member + payloads


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decode(*encode(record)) == record


def test_members_keep_their_order() -> None:
    members = {name: Member(name, None, "", "", 0, 1) for name in ("z", "a", "m")}

    record = decode(*encode(GroupRecord("g", GroupImage(members=members))))

    assert isinstance(record, GroupRecord)
    assert record.image is not None
    assert list(record.image.members) == ["z", "a", "m"]


def test_a_group_of_version_0_uses_its_session_timeout_for_both() -> None:
    """Version 0 had neither the rebalance timeout nor the time of the state."""
    head = pack(">h", 0) + text("consumer") + pack(">i", 3) + text("range") + text("m")
    member = text("m") + text("c") + text("/h") + pack(">i", 10_000) + pack(">ii", 0, 0)

    record = decode(pack(">h", 2) + text("g"), head + pack(">i", 1) + member)

    expected = Member("m", None, "c", "/h", 10_000, 10_000)
    assert record == GroupRecord("g", GroupImage(3, "consumer", "range", "m", 0, {"m": expected}))


@pytest.mark.parametrize("kind", [0, 4, 10, 23])
def test_records_of_other_kinds_of_groups_are_skipped(kind: int) -> None:
    assert decode(pack(">h", kind) + text("g"), b"") is None


@pytest.mark.parametrize("record", [RECORDS[0], RECORDS[2]])
def test_a_record_truncated_anywhere_is_refused(record: Record) -> None:
    key, value = encode(record)
    assert value is not None

    for size in range(len(value)):
        with pytest.raises(CodecError):
            decode(key, value[:size])
    for size in range(len(key)):
        with pytest.raises(CodecError):
            decode(key[:size], value)


def test_a_value_of_an_unknown_version_is_refused() -> None:
    key, value = encode(RECORDS[0])
    assert value is not None

    with pytest.raises(CodecError, match="version 9"):
        decode(key, pack(">h", 9) + value[2:])


@pytest.mark.parametrize(
    "image",
    [
        IMAGE._replace(generation=-1),
        IMAGE._replace(members={"m-1": MEMBER._replace(session_timeout_ms=0)}),
        IMAGE._replace(members={"m-1": MEMBER._replace(session_timeout_ms=-5)}),
    ],
)
def test_a_group_record_with_impossible_values_is_refused(image: GroupImage) -> None:
    """A session that ends before it begins would end again and again."""
    with pytest.raises(CodecError):
        decode(*encode(GroupRecord("g", image)))
