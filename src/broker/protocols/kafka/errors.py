"""Kafka's number and text of each ErrorCode, from broker.codec.errors."""

from typing import Final

from broker.codec.errors import ERRORS, KafkaError
from broker.model.errors import ErrorCode

_ERRORS: Final[dict[ErrorCode, KafkaError]] = {ErrorCode[error.name]: error for error in ERRORS}
# Every producer retries the same request after this code. After KAFKA_STORAGE_ERROR it would look
# for another leader, and tools would report a failed disk.
_ERRORS[ErrorCode.DISK_FULL] = _ERRORS[ErrorCode.NOT_ENOUGH_REPLICAS]
_NUMBERS: Final[dict[ErrorCode, int]] = {code: error.code for code, error in _ERRORS.items()}


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


def is_retriable(code: ErrorCode) -> bool:
    """Return whether clients retry after this error."""
    return _ERRORS[code].is_retriable


def message(code: ErrorCode) -> str | None:
    """Return the default text; None for no error."""
    return _ERRORS[code].message or None
