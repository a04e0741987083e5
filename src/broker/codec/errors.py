"""Kafka's error codes: numbers, whether clients retry, and texts for users.

They are those of `broker.model.errors.ErrorCode`, found by number or name.

    >>> error_of(3).name, error_of(3).is_retriable, error_named("NOT_COORDINATOR").code
    ('UNKNOWN_TOPIC_OR_PARTITION', True, 16)
"""

from typing import Final, NamedTuple

from broker.model.errors import ErrorCode


class KafkaError(NamedTuple):
    """The meaning of an error code in a response; the fields are those of ErrorCode."""

    code: int
    name: str
    is_retriable: bool
    message: str


def error_of(code: int) -> KafkaError:
    """Return the error of a code.

    A code that is unknown here comes from a newer broker: as in Kafka's clients it is returned as
    UNKNOWN_SERVER_ERROR, which is not retriable.
    """
    error = _BY_CODE.get(code)
    if error is None:
        name = ErrorCode.UNKNOWN_SERVER_ERROR.name
        return KafkaError(code, name, False, f"unknown error code {code}")
    return error


def error_named(name: str) -> KafkaError:
    """Return the error with a name, such as "NOT_COORDINATOR".

    Raises:
        ValueError: there is no such error.
    """
    error = _BY_NAME.get(name)
    if error is None:
        raise ValueError(f"Kafka has no error named {name!r}")
    return error


# By ascending code.
ERRORS: Final[tuple[KafkaError, ...]] = tuple(
    KafkaError(code.number, code.name, code.is_retriable, code.message)
    for code in ErrorCode
    if code is not ErrorCode.DISK_FULL
)
_BY_CODE: Final = {error.code: error for error in ERRORS}
_BY_NAME: Final = {error.name: error for error in ERRORS}
