"""The table of errors compared with Kafka's protocol guide, kio and kafka-python."""

from typing import Any

import kafka.errors
import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from broker.codec.errors import ERRORS, KafkaError, error_named, error_of
from broker.model.errors import ErrorCode


def test_every_error_code_except_our_own_has_one_row() -> None:
    kafkas = {code.name for code in ErrorCode if code is not ErrorCode.DISK_FULL}

    assert sorted(error.name for error in ERRORS) == sorted(kafkas)


def test_codes_are_without_gaps_and_ascend() -> None:
    assert [error.code for error in ERRORS] == list(range(-1, 137))


def test_every_error_but_none_has_a_message() -> None:
    assert [error.name for error in ERRORS if not error.message] == ["NONE"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.name)
def test_an_error_is_found_by_its_code_and_by_its_name(error: KafkaError) -> None:
    assert error_of(error.code) is error
    assert error_named(error.name) is error


@pytest.mark.parametrize("code", [-2, 137, 32767])
def test_an_unknown_code_is_an_unknown_server_error_with_its_number(code: int) -> None:
    name = "UNKNOWN_SERVER_ERROR"

    assert error_of(code) == (code, name, False, f"unknown error code {code}")


def test_an_unknown_error_name_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no error named 'NO_SUCH_THING'"):
        error_named("NO_SUCH_THING")


def test_kio_has_the_same_names_and_retriable_errors() -> None:
    theirs = {int(code): (code.name.upper(), code.retriable) for code in KioErrorCode}

    assert len(theirs) > 130
    for code, fact in theirs.items():
        assert (error_of(code).name, error_of(code).is_retriable) == fact


# kafka-python uses the names of older Kafka releases, and does not retry a corrupt message.
FORMER_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
NOT_RETRIED = {2}


def test_kafka_python_has_the_same_names_and_retriable_errors() -> None:
    classes: list[Any] = [each for each in vars(kafka.errors).values() if isinstance(each, type)]
    theirs = {
        error.errno: (error.message, error.retriable or error.errno in NOT_RETRIED)
        for error in classes
        if vars(error).get("errno") is not None
    }

    assert len(theirs) > 100
    for code, fact in theirs.items():
        error = error_of(code)
        assert (FORMER_NAMES.get(code, error.name), error.is_retriable) == fact
