"""Records of `__consumer_offsets` and `__transaction_state`, and the consumer protocol.

The key of a coordinator's record begins with its type (Kafka's coordinator message definitions):

    key    int16 type, then the body of that type's key
    value  int16 version, then the body; a null value is a tombstone

The embedded protocol of type "consumer" (subscriptions in JoinGroup, assignments in SyncGroup, both
in a group's record) is an int16 version, then the body, never flexible.

Bodies are dictionaries, see schema.py. Bytes after a body are ignored, as in Kafka.

    >>> committed = CoordinatorRecord(
    ...     "OffsetCommit", 3, {"group": "g", "topic": "t", "partition": 0}, {"offset": 42}
    ... )
    >>> key, value = encode_coordinator_record(committed)
    >>> record = decode_group_record(key, value)
    >>> record.name, record.key["group"], record.value["offset"]
    ('OffsetCommit', 'g', 42)
"""

from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, NamedTuple

from broker.codec import schema
from broker.codec.schema import Fields
from broker.model.errors import Truncated, Unsupported

if TYPE_CHECKING:
    from typing_extensions import Buffer

_VERSION = Struct(">h")
_TRANSACTION_LOG = "TransactionLog"
# All other types of key belong to __consumer_offsets. The share group state has a topic of its own.
_NOT_OF_GROUPS = {_TRANSACTION_LOG, "ShareSnapshot", "ShareUpdate"}


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator.

    Attributes:
        name: Kafka's name of the record, without Key and Value: "OffsetCommit", "GroupMetadata".
        version: of the value; None if there is no value. None when encoding: the newest.
        key: the fields of the key.
        value: the fields of the value; None for a tombstone.
    """

    name: str
    version: int | None
    key: Fields
    value: Fields | None


class Embedded(NamedTuple):
    """A consumer's subscription or assignment, and its version."""

    version: int
    body: Fields


# ---- coordinators --------------------------------------------------------------------------------


def decode_group_record(key: "Buffer", value: "Buffer | None") -> CoordinatorRecord:
    """Decode a record of `__consumer_offsets`: of classic, consumer, share and streams groups.

    Raises:
        Unsupported: an unknown type of key or version of a value. Kafka skips such records;
            `group_record_name` and `transactional_id_of` return None for an unknown type.
        CodecError: the bytes are not such a record.
    """
    return _decode(_kinds_of_groups(), key, value)


def decode_transaction_record(key: "Buffer", value: "Buffer | None") -> CoordinatorRecord:
    """Decode a record of `__transaction_state`, a "TransactionLog"; like `decode_group_record`."""
    return _decode(_kind_of_transactions(), key, value)


def group_record_name(key: "Buffer") -> str | None:
    """Return the name of a record of `__consumer_offsets`, or None if its type is unknown.

    Raises:
        Truncated: the key is too short for a type.
    """
    found = _kinds_of_groups().get(_version_of(key))
    return None if found is None else found.name


def transactional_id_of(key: "Buffer") -> str | None:
    """Return the transactional id in a key of `__transaction_state`, or None for an unknown type.

    Raises:
        CodecError: the bytes are not such a key.
    """
    kind = _kind_of_transactions().get(_version_of(key))
    if kind is None:
        return None
    named, _ = kind.key.decode(0, key, _VERSION.size)
    transactional_id: str = named["transactional_id"]
    return transactional_id


def encode_coordinator_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record. A decoded record encodes to the same bytes.

    Raises:
        ValueError: there is no record of that name, a value has the wrong type, or a name is not
            that of a field.
        Unsupported: the value has no such version.
    """
    kind = _kind(record.name)
    key = kind.type + kind.key.encode(0, record.key)
    if record.value is None:
        return key, None
    version = kind.value.versions[-1] if record.version is None else record.version
    return key, _VERSION.pack(version) + kind.value.encode(version, record.value)


class _Kind(NamedTuple):
    """One type of key."""

    name: str
    type: bytes  # the first bytes of its keys
    key: schema.Message
    value: schema.Message


def _decode(kinds: dict[int, _Kind], key: "Buffer", value: "Buffer | None") -> CoordinatorRecord:
    number = _version_of(key)
    kind = kinds.get(number)
    if kind is None:
        raise Unsupported(f"a coordinator record of type {number}", 0)
    named, _ = kind.key.decode(0, key, _VERSION.size)
    if value is None:
        return CoordinatorRecord(kind.name, None, named, None)
    version = _version_of(value)
    body, _ = kind.value.decode(version, value, _VERSION.size)
    return CoordinatorRecord(kind.name, version, named, body)


@cache
def _kind(name: str) -> _Kind:
    key = schema.record(f"{name}Key")
    assert key.api_key is not None, "every key has a type"
    return _Kind(name, _VERSION.pack(key.api_key), key, schema.record(f"{name}Value"))


@cache
def _kind_of_transactions() -> dict[int, _Kind]:
    return {0: _kind(_TRANSACTION_LOG)}


@cache
def _kinds_of_groups() -> dict[int, _Kind]:
    names = {
        message.name.removesuffix("Key"): message.api_key
        for message in schema.records()
        if message.kind == "key" and message.api_key is not None
    }
    return {number: _kind(name) for name, number in names.items() if name not in _NOT_OF_GROUPS}


# ---- consumers -----------------------------------------------------------------------------------


def decode_subscription(data: "Buffer") -> Embedded:
    """Decode the subscription that a consumer sends as metadata in JoinGroup.

    The known fields of a newer version are decoded, since new fields are appended.

    Raises:
        CodecError: the bytes are not a subscription.
    """
    return _decode_embedded("ConsumerProtocolSubscription", data)


def decode_assignment(data: "Buffer") -> Embedded | None:
    """Decode the assignment that a leader sends in SyncGroup; return None for empty bytes.

    The known fields of a newer version are decoded.

    Raises:
        CodecError: the bytes are not an assignment.
    """
    if not memoryview(data).nbytes:
        return None
    return _decode_embedded("ConsumerProtocolAssignment", data)


def encode_subscription(version: int, body: Fields) -> bytes:
    """Encode a subscription.

    Raises:
        ValueError: a value has the wrong type, or a name is not that of a field.
        Unsupported: there is no such version.
    """
    return _encode_embedded("ConsumerProtocolSubscription", version, body)


def encode_assignment(version: int, body: Fields) -> bytes:
    """Encode an assignment; like `encode_subscription`."""
    return _encode_embedded("ConsumerProtocolAssignment", version, body)


def _decode_embedded(name: str, data: "Buffer") -> Embedded:
    message = schema.record(name)
    version = _version_of(data)
    body, _ = message.decode(min(version, message.versions[-1]), data, _VERSION.size)
    return Embedded(version, body)


def _encode_embedded(name: str, version: int, body: Fields) -> bytes:
    content = schema.record(name).encode(version, body)
    return _VERSION.pack(version) + content


def _version_of(data: "Buffer") -> int:
    try:
        (version,) = _VERSION.unpack_from(data)
    except struct_error:
        size = memoryview(data).nbytes
        raise Truncated(f"expected an int16 of type or version, found {size} bytes", 0) from None
    return int(version)
