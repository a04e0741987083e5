"""Every ErrorCode as a Kafka response says it: the facts of broker.codec.errors."""

from typing import Final

from broker.codec.errors import ERRORS, KafkaError
from broker.model.errors import ErrorCode

_ERRORS: Final[dict[ErrorCode, KafkaError]] = {ErrorCode[error.name]: error for error in ERRORS}


def number(code: ErrorCode) -> int:
    """The number that a response carries."""
    return _ERRORS[code].code


def is_retriable(code: ErrorCode) -> bool:
    """Whether clients send the same request again."""
    return _ERRORS[code].is_retriable


def message(code: ErrorCode) -> str | None:
    """The default text; a response without an error has none."""
    return _ERRORS[code].message or None
