"""Every ErrorCode as a Kafka response says it: the facts of broker.codec.errors."""

from typing import Final

from broker.codec.errors import ERRORS, KafkaError
from broker.model.errors import ErrorCode

_ERRORS: Final[dict[ErrorCode, KafkaError]] = {ErrorCode[error.name]: error for error in ERRORS}
# Producers of every client send the same again for it, and take nothing for written. For
# KAFKA_STORAGE_ERROR they look for another leader, and tools for a disk that is broken.
_ERRORS[ErrorCode.DISK_FULL] = _ERRORS[ErrorCode.NOT_ENOUGH_REPLICAS]
_NUMBERS: Final[dict[ErrorCode, int]] = {code: error.code for code, error in _ERRORS.items()}


def number(code: ErrorCode) -> int:
    """The number that a response carries."""
    return _NUMBERS[code]


# What clients of the 0.8 to 0.10 era know for an error that came later (kafka.md 3).
_IN_OLD_WORDS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LISTENER_NOT_FOUND: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_INSTANCE_ID: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_RECORD: ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def old_number(code: ErrorCode) -> int:
    """The number that a response carries to a client from before batches of magic 2."""
    return number(_IN_OLD_WORDS.get(code, code))


def is_retriable(code: ErrorCode) -> bool:
    """Whether clients send the same request again."""
    return _ERRORS[code].is_retriable


def message(code: ErrorCode) -> str | None:
    """The default text; a response without an error has none."""
    return _ERRORS[code].message or None
