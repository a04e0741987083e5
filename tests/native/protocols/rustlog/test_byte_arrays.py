"""Bytes as arrays of numbers (rustlog/byte_arrays), read and written as the json library does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.rustlog.byte_arrays import JsonRecords, ascending, byte_array
from broker.model.errors import CodecError

ENVELOPE_MAX = 1 << 16
RECORDS = st.lists(st.binary(max_size=40), max_size=20)
SPACES = st.text(" \t\r\n", max_size=3)


def run_of(records: list[bytes]) -> bytes:
    """Return records in the binary form."""
    return b"".join(len(each).to_bytes(4) + each for each in records)


def read(body: bytes, step: int = 1 << 20, envelope_max: int = ENVELOPE_MAX) -> JsonRecords:
    """Parse a request, some bytes at a time."""
    records = JsonRecords(body, envelope_max)
    for _ in range(len(body) + 2):
        if records.step(step):
            return records
    raise AssertionError("it does not end")


def produce(records: str) -> bytes:
    """Return a request with the given text as records."""
    return f'{{"Produce":{{"topic":"t","records":{records},"partition":0}}}}'.encode()


@given(st.binary(max_size=500))
def test_an_array_is_written_as_by_the_json_library(data: bytes) -> None:
    assert byte_array(data) == json.dumps(list(data), separators=(",", ":")).encode()


@given(st.integers(0, 2**64 - 300), st.integers(0, 200))
def test_ascending_numbers_are_written_as_by_the_json_library(first: int, count: int) -> None:
    numbers = list(range(first, first + count))

    assert ascending(first, count) == json.dumps(numbers, separators=(",", ":")).encode()


@given(RECORDS, st.integers(1, 60))
def test_records_are_read_in_steps_of_any_size(records: list[bytes], step: int) -> None:
    found = read(produce(json.dumps([list(each) for each in records])), step)

    assert found.run == run_of(records)
    assert found.count == len(records)
    assert json.loads(found.envelope) == {"Produce": {"topic": "t", "records": 0, "partition": 0}}


@given(RECORDS, st.data())
def test_white_space_is_allowed_between_all_tokens(
    records: list[bytes], data: st.DataObject
) -> None:
    text = json.dumps([list(each) for each in records], separators=(",", ":"))
    spaced = "".join(
        data.draw(SPACES) + each if not each.isdigit() else each for each in text
    ) + data.draw(SPACES)

    assert read(produce(spaced)).run == run_of(records)


@pytest.mark.parametrize("value", range(256))
def test_every_byte_value_is_read(value: int) -> None:
    assert read(produce(f"[[{value}]]")).run == run_of([bytes([value])])
    assert read(f'{{"P":{{"records":[[{value}'.encode() + b"]]}}").run == run_of([bytes([value])])


@pytest.mark.parametrize(
    "records",
    [
        "[[256]]",
        "[[1000]]",
        "[[99999999999999999999]]",
        "[[-1]]",
        "[[01]]",
        "[[00]]",
        "[[1.0]]",
        "[[1e1]]",
        '[["1"]]',
        "[[null]]",
        "[[1,]]",
        "[[,1]]",
        "[[1 2]]",
        "[[1],]",
        "[,[1]]",
        "[[1][2]]",
        "[1]",
        "[[[1]]]",
        "[{}]",
        "[null]",
    ],
)
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_records_that_are_not_an_array_of_byte_arrays_are_corrupt(records: str, step: int) -> None:
    with pytest.raises(CodecError):
        read(produce(records), step)


@given(RECORDS, st.data())
def test_a_truncated_request_is_never_complete(records: list[bytes], data: st.DataObject) -> None:
    body = produce(json.dumps([list(each) for each in records]))
    cut = body[: data.draw(st.integers(0, len(body) - 1))]

    try:
        found = read(cut, data.draw(st.integers(1, 50)))
    except CodecError:
        return
    with pytest.raises(json.JSONDecodeError):
        json.loads(found.envelope)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_parsing_arbitrary_bytes_terminates(body: bytes, step: int) -> None:
    try:
        found = read(body, step)
    except CodecError:
        return
    assert found.has_records or found.envelope == body


@given(st.text('[]{},:" 0123456789records\\', max_size=60), st.integers(1, 50))
def test_parsing_arbitrary_bytes_within_the_records_terminates(text: str, step: int) -> None:
    try:
        read(b'{"Produce":{"records":[' + text.encode(), step)
    except CodecError:
        return


def test_only_the_field_of_the_inner_object_is_extracted() -> None:
    body = b'{"records":[[1]],"a":{"b":{"records":[[1]]}},"c":{"x":"records","y":[["records"]]}}'

    found = read(body)

    assert not found.has_records
    assert found.envelope == body


@pytest.mark.parametrize("value", ["0", "null", '"[[1]]"', "{}"])
def test_a_records_field_of_another_type_is_left_in_the_envelope(value: str) -> None:
    found = read(produce(value))

    assert not found.has_records
    assert found.envelope == produce(value)


def test_a_second_records_field_remains_visible_in_the_envelope() -> None:
    found = read(b'{"P":{"records":[[1],[2]],"records":[[3]]}}')

    assert found.envelope == b'{"P":{"records":0,"records":0}}'
    assert found.run == run_of([b"\3"])


def test_an_escaped_quote_does_not_end_a_string() -> None:
    body = rb'{"P":{"topic":"\"records\":[[","records":[[7]]}}'

    assert read(body).run == run_of([b"\7"])


def test_the_json_around_the_records_is_limited() -> None:
    body = produce("[[1]]")

    assert read(body, envelope_max=len(body)).has_records
    with pytest.raises(CodecError, match="beside the records"):
        read(body, envelope_max=20)


def test_a_long_request_is_read_in_as_many_steps_as_its_length_requires() -> None:
    body = produce(json.dumps([[200] * 100] * 1000))
    records = JsonRecords(body, ENVELOPE_MAX)
    steps = 1
    while not records.step(10_000):
        steps += 1

    assert len(body) // 10_000 <= steps <= len(body) // 9_000 + 2
