"""Every error code but one is one of Kafka's; the numbers are tested where they stand."""

import re
from pathlib import Path

import pytest

from broker.codec.errors import error_of
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors

NATIVE = Path(__file__).parents[4] / "src" / "_native"
NATIVE_TABLE = NATIVE / "messages" / "error_codes.pxd"
NATIVE_NUMBER = re.compile(r"^\s+ERROR_(\w+) = (\d+)", re.MULTILINE)


@pytest.mark.parametrize("code", [each for each in ErrorCode if each is not ErrorCode.DISK_FULL])
def test_every_error_code_is_the_kafka_error_of_its_name(code: ErrorCode) -> None:
    error = error_of(errors.number(code))

    assert error.name == code.name
    assert errors.message(code) == (error.message or None)


def test_the_numbers_of_native_code_are_those_of_the_table() -> None:
    native = {name: int(number) for name, number in NATIVE_NUMBER.findall(NATIVE_TABLE.read_text())}

    assert native == {name: errors.number(ErrorCode[name]) for name in native}
    assert native


def test_native_code_defines_numbers_of_errors_in_one_table_only() -> None:
    tables = [
        file for file in NATIVE.rglob("*.p[yx][xd]") if NATIVE_NUMBER.search(file.read_text())
    ]

    assert tables == [NATIVE_TABLE]


def test_a_full_disk_returns_an_error_on_which_every_producer_retries() -> None:
    numbers = {errors.number(ErrorCode.DISK_FULL), errors.old_number(ErrorCode.DISK_FULL)}

    assert numbers == {19}
    assert error_of(19).is_retriable


def test_a_response_without_an_error_has_no_message() -> None:
    assert errors.message(ErrorCode.NONE) is None


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 6),
        (ErrorCode.LISTENER_NOT_FOUND, 5),
        (ErrorCode.FENCED_INSTANCE_ID, 25),
        (ErrorCode.INVALID_RECORD, 2),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, 14),
        (ErrorCode.OFFSET_OUT_OF_RANGE, 1),
        (ErrorCode.NONE, 0),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 76),  # of the time of zstd, as named in Kafka 3.9
    ],
)
def test_later_errors_are_translated_for_old_clients(code: ErrorCode, number: int) -> None:
    assert errors.old_number(code) == number
