"""Coordinators' records and the embedded consumer protocol (Kafka's coordinator definitions)."""

from struct import pack
from typing import Any

import pytest

from broker.codec import schema
from broker.codec.coordinator_records import (
    CoordinatorRecord,
    Embedded,
    decode_assignment,
    decode_group_record,
    decode_subscription,
    decode_transaction_record,
    encode_assignment,
    encode_coordinator_record,
    encode_subscription,
    group_record_name,
    transactional_id_of,
)
from broker.codec.schema import Message
from broker.model.errors import CodecError, Truncated, Unsupported
from tests.oracles import schema_oracle as oracle

# Kafka 4.3's CoordinatorRecordType of the group coordinator.
GROUP_TYPES = {*range(9), *range(10, 18), *range(19, 24)}
SHARE_STATE = ("ShareSnapshot", "ShareUpdate")  # of a topic that is not read here
RECORDS = [
    message
    for message in schema.records()
    if message.kind in {"key", "value"} and not message.name.startswith(SHARE_STATE)
]
GROUP_KEYS = [
    message for message in RECORDS if message.kind == "key" and message.name != "TransactionLogKey"
]
OFFSET_KEY = pack(">h", 1) + b"\0\1g\0\1t\0\0\0\2"
OFFSET_VALUE = pack(">hqi", 3, 42, 7) + b"\0\4note" + pack(">q", 1_700_000_000_000)


def sample(message: Message, version: int) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a message with its type or version, and its fields."""
    fields = oracle.sample(message, version)
    before = message.api_key if message.kind == "key" else version
    whole = oracle.complete(message.fields, version, fields)
    return pack(">h", before) + oracle.encode(message, version, fields), whole


# ---- coordinators --------------------------------------------------------------------------------


def test_an_offset_commit_equals_kafkas_bytes() -> None:
    record = decode_group_record(OFFSET_KEY, OFFSET_VALUE)

    assert record.name == "OffsetCommit"
    assert record.version == 3
    assert record.key == {"group": "g", "topic": "t", "partition": 2}
    assert record.value is not None
    assert record.value["offset"] == 42
    assert record.value["leader_epoch"] == 7
    assert record.value["metadata"] == "note"
    assert record.value["topic_id"] == bytes(16)
    assert encode_coordinator_record(record) == (OFFSET_KEY, OFFSET_VALUE)


def test_every_type_of_group_record_is_known() -> None:
    assert {message.api_key for message in GROUP_KEYS} == GROUP_TYPES
    for message in GROUP_KEYS:
        key, _ = sample(message, 0)
        assert f"{group_record_name(key)}Key" == message.name


@pytest.mark.parametrize("message", GROUP_KEYS, ids=lambda message: message.name)
def test_a_group_record_of_every_version_is_read_as_it_was_written(message: Message) -> None:
    name = message.name.removesuffix("Key")
    key, named = sample(message, 0)
    value_message = schema.record(f"{name}Value")

    for version in value_message.versions:
        value, fields = sample(value_message, version)

        record = decode_group_record(key, value)

        assert record == CoordinatorRecord(name, version, named, fields)
        assert encode_coordinator_record(record) == (key, value)


@pytest.mark.parametrize("message", GROUP_KEYS, ids=lambda message: message.name)
def test_a_record_without_a_value_is_a_tombstone(message: Message) -> None:
    key, named = sample(message, 0)

    record = decode_group_record(key, None)

    assert record == CoordinatorRecord(message.name.removesuffix("Key"), None, named, None)
    assert encode_coordinator_record(record) == (key, None)


@pytest.mark.parametrize("version", [0, 1])
def test_a_transaction_is_read_as_it_was_written(version: int) -> None:
    key, named = sample(schema.record("TransactionLogKey"), 0)
    value, fields = sample(schema.record("TransactionLogValue"), version)

    record = decode_transaction_record(key, value)

    assert record == CoordinatorRecord("TransactionLog", version, named, fields)
    assert encode_coordinator_record(record) == (key, value)


def test_a_value_is_written_in_the_latest_version_by_default() -> None:
    key = {"group": "g"}

    _, value = encode_coordinator_record(CoordinatorRecord("GroupMetadata", None, key, {}))

    assert value is not None
    assert value[:2] == b"\0\4"


@pytest.mark.parametrize("kind", [-1, 9, 18, 24])
def test_an_unknown_type_of_key_is_unsupported_and_has_no_name(kind: int) -> None:
    key = pack(">h", kind) + b"\0\1g"

    assert group_record_name(key) is None
    with pytest.raises(Unsupported, match=f"record of type {kind}"):
        decode_group_record(key, None)


def test_the_id_of_a_transaction_record_is_read_from_its_key() -> None:
    assert transactional_id_of(b"\0\0\0\1t") == "t"
    for cut in (b"", b"\0", b"\0\0\0\2t"):
        with pytest.raises(CodecError):
            transactional_id_of(cut)


def test_an_unknown_type_of_transaction_record_is_unsupported_and_has_no_id() -> None:
    assert transactional_id_of(b"\0\1\0\1t") is None
    with pytest.raises(Unsupported, match="record of type 1"):
        decode_transaction_record(b"\0\1\0\1t", None)


def test_an_unknown_version_of_a_value_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="OffsetCommitValue 0-4>, got version 5"):
        decode_group_record(OFFSET_KEY, pack(">h", 5) + OFFSET_VALUE[2:])


def test_an_unknown_record_name_is_a_value_error() -> None:
    for name in ("Nonesuch", "RequestHeader"):
        with pytest.raises(ValueError, match=f"no record named '{name}Key'"):
            encode_coordinator_record(CoordinatorRecord(name, None, {}, None))


@pytest.mark.parametrize("message", RECORDS, ids=lambda message: message.name)
def test_a_record_truncated_anywhere_is_refused(message: Message) -> None:
    decode = decode_transaction_record if "Transaction" in message.name else decode_group_record
    name = message.name.removesuffix("Key").removesuffix("Value")
    key, _ = sample(schema.record(f"{name}Key"), 0)
    whole, _ = sample(message, message.versions[-1])

    for size in range(len(whole)):
        with pytest.raises(CodecError):
            decode(*((whole[:size], None) if message.kind == "key" else (key, whole[:size])))


def test_bytes_after_a_record_are_ignored() -> None:
    record = decode_group_record(OFFSET_KEY + b".", OFFSET_VALUE + b"..")

    assert encode_coordinator_record(record) == (OFFSET_KEY, OFFSET_VALUE)


# ---- consumers -----------------------------------------------------------------------------------

OWNED = [{"topic": "t", "partitions": [0, 1]}]
SUBSCRIPTIONS = [
    b"\0\0" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff",
    b"\0\1" + b"\0\0\0\1\0\1t" + b"\0\0\0\2ud" + b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1",
    b"\0\2" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\5",
    b"\0\3" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\5" + b"\0\1r",
]
ASSIGNMENT = b"\0\1" + b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1" + b"\xff\xff\xff\xff"


@pytest.mark.parametrize("data", SUBSCRIPTIONS)
def test_a_subscription_is_read_and_written_in_every_version(data: bytes) -> None:
    subscription = decode_subscription(data)

    assert subscription.version == data[1]
    assert subscription.body["topics"] == ["t"]
    assert encode_subscription(*subscription) == data


def test_fields_missing_in_a_version_of_a_subscription_have_their_defaults() -> None:
    oldest, second, _, newest = [decode_subscription(data).body for data in SUBSCRIPTIONS]

    assert oldest["owned_partitions"] == []
    assert oldest["generation_id"] == -1
    assert second == {**oldest, "user_data": b"ud", "owned_partitions": OWNED}
    assert newest == {**oldest, "generation_id": 5, "rack_id": "r"}


def test_an_assignment_is_read_and_written() -> None:
    assignment = decode_assignment(ASSIGNMENT)

    assert assignment == Embedded(1, {"assigned_partitions": OWNED, "user_data": None})
    assert encode_assignment(*assignment) == ASSIGNMENT


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b"")])
def test_an_empty_assignment_has_no_partitions(empty: Any) -> None:
    assert decode_assignment(empty) is None


@pytest.mark.parametrize("version", [4, 32767])
def test_of_a_newer_version_the_known_fields_are_read(version: int) -> None:
    newer = pack(">h", version)

    subscription = decode_subscription(newer + SUBSCRIPTIONS[3][2:] + b"what is new")
    assignment = decode_assignment(newer + ASSIGNMENT[2:] + b"what is new")

    assert subscription == Embedded(version, decode_subscription(SUBSCRIPTIONS[3]).body)
    assert assignment == Embedded(version, {"assigned_partitions": OWNED, "user_data": None})


def test_a_negative_version_or_writing_a_newer_one_is_unsupported() -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(Unsupported, match="got version -1"):
            decode(b"\xff\xff" + bytes(20))
    for encode in (encode_subscription, encode_assignment):
        with pytest.raises(Unsupported, match="got version 4"):
            encode(4, {})


@pytest.mark.parametrize("data", [*SUBSCRIPTIONS, ASSIGNMENT])
def test_subscriptions_and_assignments_truncated_anywhere_are_truncated_errors(data: bytes) -> None:
    decode = decode_assignment if data is ASSIGNMENT else decode_subscription

    for size in range(data is ASSIGNMENT, len(data)):
        with pytest.raises(Truncated):
            decode(data[:size])
