"""Every error code of ours is one of Kafka's; the numbers are tested where they stand."""

import pytest

from broker.codec.errors import error_of
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_is_the_kafka_error_of_its_name(code: ErrorCode) -> None:
    error = error_of(errors.number(code))

    assert error.name == code.name
    assert errors.is_retriable(code) == error.is_retriable
    assert errors.message(code) == (error.message or None)


def test_an_answer_without_an_error_has_no_message() -> None:
    assert errors.message(ErrorCode.NONE) is None
