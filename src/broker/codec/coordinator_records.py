"""Records of `__consumer_offsets` and `__transaction_state`, and what consumers put into groups.

A coordinator's record says what it is in its key (Kafka's coordinator message definitions):

    key    int16 type, then the body of that type's key
    value  int16 version, then the body; a null value deletes what the key names

and the embedded protocol of type "consumer", which travels in JoinGroup and SyncGroup and is kept
in a group's record, has the same shape: int16 version, then the body, never flexible.

Bodies are dictionaries as everywhere (see schema.py). Bytes behind a body are passed over, as Kafka
does.

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
# Every other type of key is of __consumer_offsets; those of share state are of a third topic.
_NOT_OF_GROUPS = {_TRANSACTION_LOG, "ShareSnapshot", "ShareUpdate"}


class CoordinatorRecord(NamedTuple):
    """What a coordinator has written.

    Attributes:
        name: Kafka's name of the record, without Key and Value: "OffsetCommit", "GroupMetadata".
        version: of the value; None where there is no value, and to write the newest.
        key: the fields of the key.
        value: the fields of the value; None when the record deletes what the key names.
    """

    name: str
    version: int | None
    key: Fields
    value: Fields | None


class Embedded(NamedTuple):
    """A consumer's subscription or assignment, and the version in which it was written."""

    version: int
    body: Fields


# ---- coordinators --------------------------------------------------------------------------------


def decode_group_record(key: "Buffer", value: "Buffer | None") -> CoordinatorRecord:
    """Read a record of `__consumer_offsets`: of classic, consumer, share and streams groups.

    Raises:
        Unsupported: a type of key or a version of a value that is unknown here. Kafka skips such
            records; `group_record_name` and `transactional_id_of` tell before.
        CodecError: the bytes are no such record.
    """
    return _decode(_kinds_of_groups(), key, value)


def decode_transaction_record(key: "Buffer", value: "Buffer | None") -> CoordinatorRecord:
    """Read a record of `__transaction_state`, a "TransactionLog"; like `decode_group_record`."""
    return _decode(_kind_of_transactions(), key, value)


def group_record_name(key: "Buffer") -> str | None:
    """Return what a record of `__consumer_offsets` is, or None if that is unknown here.

    Raises:
        Truncated: the key does not even have a type.
    """
    found = _kinds_of_groups().get(_version_of(key))
    return None if found is None else found.name


def transactional_id_of(key: "Buffer") -> str | None:
    """Return whose record of `__transaction_state` a key is, or None for an unknown type of key.

    Raises:
        CodecError: the bytes are no such key.
    """
    kind = _kind_of_transactions().get(_version_of(key))
    if kind is None:
        return None
    named, _ = kind.key.decode(0, key, _VERSION.size)
    transactional_id: str = named["transactional_id"]
    return transactional_id


def encode_coordinator_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record; of what `decode_...` returns, the same bytes.

    Raises:
        ValueError: there is no record of that name, a value is not of its field's type, or a name
            is no field's.
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
    type: bytes  # how its keys begin
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
    """Read what a consumer sends as metadata in JoinGroup.

    Of a version that is newer than those known here the fields that are known are read, since new
    ones come at the end.

    Raises:
        CodecError: the bytes are no subscription.
    """
    return _decode_embedded("ConsumerProtocolSubscription", data)


def decode_assignment(data: "Buffer") -> Embedded | None:
    """Read what a leader assigns in SyncGroup; empty bytes are no assignment, None.

    Of a newer version the fields that are known are read.

    Raises:
        CodecError: the bytes are no assignment.
    """
    if not memoryview(data).nbytes:
        return None
    return _decode_embedded("ConsumerProtocolAssignment", data)


def encode_subscription(version: int, body: Fields) -> bytes:
    """Write a subscription.

    Raises:
        ValueError: a value is not of its field's type, or a name is no field's.
        Unsupported: there is no such version.
    """
    return _encode_embedded("ConsumerProtocolSubscription", version, body)


def encode_assignment(version: int, body: Fields) -> bytes:
    """Write an assignment; like `encode_subscription`."""
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
