"""The error table against the numbers of Kafka's protocol guide."""

import pytest

from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_has_a_row(code: ErrorCode) -> None:
    assert isinstance(errors.number(code), int)
    assert isinstance(errors.is_retriable(code), bool)
    assert errors.message(code) or code is ErrorCode.NONE


def test_numbers_are_unique_and_without_gaps() -> None:
    numbers = sorted(errors.number(code) for code in ErrorCode)

    assert numbers == list(range(-1, 137))


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.UNKNOWN_SERVER_ERROR, -1),
        (ErrorCode.NONE, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 15),
        (ErrorCode.REBALANCE_IN_PROGRESS, 27),
        (ErrorCode.UNSUPPORTED_VERSION, 35),
        (ErrorCode.INVALID_REQUEST, 42),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 45),
        (ErrorCode.INVALID_TXN_STATE, 48),
        (ErrorCode.KAFKA_STORAGE_ERROR, 56),
        (ErrorCode.DELEGATION_TOKEN_EXPIRED, 66),
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 70),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 76),
        (ErrorCode.INVALID_RECORD, 87),
        (ErrorCode.UNKNOWN_TOPIC_ID, 100),
        (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, 115),
        (ErrorCode.REBOOTSTRAP_REQUIRED, 129),
        (ErrorCode.CONTROLLER_ID_NOT_REGISTERED, 136),
    ],
)
def test_numbers_are_kafkas(code: ErrorCode, number: int) -> None:
    assert errors.number(code) == number


def test_retriable_errors_are_those_clients_repeat() -> None:
    retriable = {errors.number(code) for code in ErrorCode if errors.is_retriable(code)}

    assert retriable == {
        2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84,
        88, 89, 100, 103, 106, 122, 123, 133,
    }  # fmt: skip
