"""The JSON form: what serde would read, and nothing else."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.rustlog.errors import Failure, RefusalError
from broker.protocols.rustlog.json_form import Json
from broker.protocols.rustlog.messages import (
    Committed,
    Fetch,
    GroupOffset,
    OffsetCommit,
    OffsetFetch,
    Produce,
    Produced,
    Run,
)

JSON = Json()
PRODUCE = {"topic": "t", "partition": 7, "records": [[104, 105], []]}
FETCH = {"topic": "t", "partition": 7, "offset": 9, "max_bytes": 5, "group_id": "g"}
COMMIT = {"topic": "t", "partition": 7, "group_id": "g", "offset": 9}
OFFSET = {"topic": "t", "partition": 7, "group_id": "g"}
EXPECTED = {
    "Produce": Produce("t", 7, Run(b"\0\0\0\2hi\0\0\0\0", 0, 2)),
    "Fetch": Fetch("g", "t", 7, 9, 5),
    "OffsetCommit": OffsetCommit("g", "t", 7, 9),
    "OffsetFetch": OffsetFetch("g", "t", 7),
}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("Produce", PRODUCE),
    ("Fetch", FETCH),
    ("OffsetCommit", COMMIT),
    ("OffsetFetch", OFFSET),
]
BAD = b'{"Error":{"message":"failed to parse request"}}'


def parse(body: bytes) -> Any:
    """Parse a request."""
    return asyncio.run(JSON.parse(body))


def refused(body: bytes) -> bytes:
    """Return the error that a request is answered with."""
    with pytest.raises(RefusalError) as caught:
        parse(body)
    return JSON.refuse(caught.value)


def dump(value: Any) -> bytes:
    """Return JSON's bytes."""
    return json.dumps(value).encode()


@pytest.mark.parametrize(("name", "fields"), REQUESTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_request_is_parsed_in_any_json_formatting(
    name: str, fields: dict[str, Any], indent: int | None
) -> None:
    turned = dict(reversed(fields.items()))

    assert parse(json.dumps({name: fields}, indent=indent).encode()) == EXPECTED[name]
    assert parse(json.dumps({name: turned}, indent=indent).encode()) == EXPECTED[name]
    assert parse(b" \t\r\n" + json.dumps({name: fields}).encode() + b"\n") == EXPECTED[name]


@pytest.mark.parametrize(("name", "fields"), REQUESTS)
def test_unknown_fields_are_ignored(name: str, fields: dict[str, Any]) -> None:
    more = {"a": {"b": [1, None, {"records": [[1]]}]}, **fields, "c": 1.5e300, "d": "\U0001f600"}

    assert parse(dump({name: more})) == EXPECTED[name]


@pytest.mark.parametrize(("name", "fields"), REQUESTS)
def test_every_required_field_must_be_present_once(name: str, fields: dict[str, Any]) -> None:
    for each in fields.keys() - {"group_id" if name == "Fetch" else ""}:
        less = {key: value for key, value in fields.items() if key != each}
        assert refused(dump({name: less})) == BAD
    for key, value in fields.items():
        twice = dump({name: fields})[:-2] + b"," + dump({key: value})[1:-1] + b"}}"
        assert refused(twice) == BAD


def test_the_group_of_a_fetch_is_optional() -> None:
    less = {key: value for key, value in FETCH.items() if key != "group_id"}

    assert parse(dump({"Fetch": less})) == Fetch(None, "t", 7, 9, 5)
    assert parse(dump({"Fetch": {**less, "group_id": None}})) == Fetch(None, "t", 7, 9, 5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", None),
        ("topic", 1),
        ("topic", "\ud800"),
        ("topic", ["t"]),
        ("partition", -1),
        ("partition", 2**32),
        ("partition", 1.0),
        ("partition", True),
        ("partition", "1"),
        ("partition", None),
        ("offset", -1),
        ("offset", 2**64),
        ("max_bytes", 2**64),
        ("max_bytes", None),
        ("group_id", 1),
    ],
)
def test_a_value_of_another_type_or_range_is_refused(field: str, value: Any) -> None:
    assert refused(dump({"Fetch": {**FETCH, field: value}})) == BAD


def test_the_largest_value_of_each_number_type_is_accepted() -> None:
    fields = {**FETCH, "partition": 2**32 - 1, "offset": 2**64 - 1, "max_bytes": 2**64 - 1}

    assert parse(dump({"Fetch": fields})) == Fetch("g", "t", 2**32 - 1, 2**64 - 1, 2**64 - 1)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"{",
        b"[]",
        b"{}{}",
        b'{"Produce":[]}',
        b'{"Produce":null}',
        b'{"Ping":{}}',
        b'{"type":"Produce","topic":"t","records":["aGk="]}',
        dump({"Fetch": FETCH, "OffsetFetch": OFFSET}),
        dump({"Fetch": FETCH}) + b"x",
        b'{"OffsetFetch":{"topic":"\xff","partition":0,"group_id":"g"}}',
        b'{"OffsetFetch":{"topic":"a\nb","partition":0,"group_id":"g"}}',
        b'{"OffsetFetch":{"topic":"t","partition":-0,"group_id":"g"}}',
        b'{"OffsetFetch":{"topic":"t","partition":00,"group_id":"g"}}',
        b'{"OffsetFetch":{"topic":"t","partition":0,"group_id":"g","x":NaN}}',
        b'{"OffsetFetch":' + b"[" * 30_000,
        b'{"OffsetFetch":{"topic":"t","partition":' + b"1" * 5_000 + b',"group_id":"g"}}',
        b'{"a":"' + b"x" * 70_000 + b'"}',
        dump({"Produce": {**PRODUCE, "records": 0}}),
        dump({"Produce": {**PRODUCE, "records": None}}),
        dump({"Produce": {**PRODUCE, "records": [1]}}),
        dump({"Produce": {**PRODUCE, "records": [[256]]}}),
        dump({"Produce": {**PRODUCE, "records": ["aGk="]}}),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_json_that_is_not_a_request_is_refused(body: bytes) -> None:
    assert refused(body) == BAD


@pytest.mark.parametrize(("name", "fields"), REQUESTS)
def test_a_truncated_request_is_refused(name: str, fields: dict[str, Any]) -> None:
    body = dump({name: fields})

    assert {refused(body[:size]) for size in range(1, len(body))} == {BAD}


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_refused(body: bytes) -> None:
    assert refused(b"{" + body) == BAD


NAMES = st.sampled_from(["Produce", "topic", "records", "partition", "group_id", "x"])
VALUES = st.none() | st.integers() | st.text(max_size=5)


@given(st.recursive(VALUES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))
def test_arbitrary_json_is_a_request_or_refused(value: Any) -> None:
    answer = BAD
    try:
        parse(dump(value))
    except RefusalError as error:
        answer = JSON.refuse(error)
    assert answer == BAD


def test_the_records_of_a_request_are_limited_so_that_its_response_fits() -> None:
    records = b"[" + b"[]," * 400_000 + b"[]]"
    refusal = refused(b'{"Produce":{"topic":"t","partition":0,"records":' + records + b"}}")

    assert b"at most 400000 records" in refusal
    assert len(asyncio.run(JSON.write(Produced(2**63 - 400_001, 400_000)))) <= 10_485_760


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (Produced(1000, 3), b'{"Produce":{"offsets":[1000,1001,1002]}}'),
        (Produced(7, 0), b'{"Produce":{"offsets":[]}}'),
        (Committed(), b'{"OffsetCommit":{"success":true}}'),
        (GroupOffset(1500), b'{"OffsetFetch":{"offset":1500}}'),
        (GroupOffset(None), b'{"OffsetFetch":{"offset":null}}'),
    ],
)
def test_a_response_is_written_as_documented(response: Any, body: bytes) -> None:
    assert asyncio.run(JSON.write(response)) == body


def test_an_error_is_written_as_documented() -> None:
    error = RefusalError(Failure.NO_PARTITION, topic='ord"\N{SNOWMAN}', partition=99)

    text = 'partition not found: topic=ord\\"\N{SNOWMAN}, partition=99'
    assert JSON.refuse(error) == f'{{"Error":{{"message":"{text}"}}}}'.encode()


def test_a_refused_commit_is_not_an_error_response() -> None:
    error = RefusalError(Failure.COMMIT, reason="r")

    assert JSON.refuse(error) == b'{"OffsetCommit":{"success":false}}'
