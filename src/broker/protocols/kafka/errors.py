"""The numbers of ErrorCode in responses; its rows, with the texts, are in model/errors.py."""

from typing import Final

from broker.model.errors import ErrorCode

# Every producer retries the same request after this code. After KAFKA_STORAGE_ERROR it would look
# for another leader, and tools would report a failed disk.
_OF_DISK_FULL: Final = ErrorCode.NOT_ENOUGH_REPLICAS
_NUMBERS: Final[dict[ErrorCode, int]] = {code: code.number for code in ErrorCode} | {
    ErrorCode.DISK_FULL: _OF_DISK_FULL.number
}


def number(code: ErrorCode) -> int:
    """Return the error code of a response."""
    return _NUMBERS[code]


# The codes that clients of Kafka 0.8 to 0.10 know, for codes that were added later.
_OLD_CODES: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LISTENER_NOT_FOUND: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_INSTANCE_ID: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_RECORD: ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def old_number(code: ErrorCode) -> int:
    """Return the error code of a response to a client from before batches of magic 2."""
    return number(_OLD_CODES.get(code, code))


def message(code: ErrorCode) -> str | None:
    """Return the default text; None for no error."""
    return (_OF_DISK_FULL if code is ErrorCode.DISK_FULL else code).message or None
