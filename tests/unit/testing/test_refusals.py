"""Responses with an error of a test, for every API that the broker serves."""

from typing import Any

import pytest

from broker.codec import schema
from broker.protocols.kafka.table import APIS
from broker.testing import refusals

CODE = 7


def request_of(api_key: int, version: int) -> dict[str, Any]:
    """Return a request with one element in each of its lists."""
    return fields_of(schema.request(api_key).fields, version)


def fields_of(definitions: list[schema.Definition], version: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in definitions:
        if version not in each.versions:
            continue
        if each.fields:
            one = fields_of(each.fields, version)
            values[each.name] = [one] if each.type.startswith("[]") else one
        elif each.type == "[]string":
            values[each.name] = ["a"]
        elif each.type.startswith("[]int"):
            values[each.name] = [3]
        elif each.type == "string":
            values[each.name] = "a"
        elif each.type == "uuid":
            values[each.name] = bytes(range(16))
        elif each.type.startswith("int"):
            values[each.name] = 3
    return values


def codes(fields: object) -> list[int]:
    if isinstance(fields, dict):
        own = [fields[each] for each in ("error_code", "partition_error_code") if each in fields]
        return own + [code for each in fields.values() for code in codes(each)]
    return [code for each in fields for code in codes(each)] if isinstance(fields, list) else []


def outcome(api_key: int, version: int) -> bool:
    """Whether the refusal of a request can be encoded, and has the error code."""
    request = request_of(api_key, version)
    fields = refusals.refusal(api_key, version, request, CODE)
    if fields is None:
        return False
    encoded = schema.response(api_key).encode(version, fields)
    decoded, _ = schema.response(api_key).decode(version, encoded)
    return CODE in codes(decoded)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_of_an_api_has_a_place_for_an_error(api: Any) -> None:
    wrong = [each for each in api.versions if not outcome(api.key, each)]

    assert wrong == []


def test_a_refusal_names_what_the_request_named() -> None:
    produce = {"topic_data": [{"name": "a", "partition_data": [{"index": 2, "records": b""}]}]}
    fetch = {"topics": [{"topic": "a", "partitions": [{"partition": 2, "fetch_offset": 5}]}]}

    [topic] = refusals.refusal(0, 9, produce, CODE)["responses"]  # type: ignore[index]
    [fetched] = refusals.refusal(1, 11, fetch, CODE)["responses"]  # type: ignore[index]

    assert topic == {"name": "a", "partition_responses": [{"index": 2, "error_code": CODE}]}
    assert fetched == {"topic": "a", "partitions": [{"partition_index": 2, "error_code": CODE}]}


def test_a_split_request_has_all_of_its_partitions_once() -> None:
    parts = [{"index": number, "records": b""} for number in range(3)]
    request = {
        "acks": -1,
        "topic_data": [
            {"name": "a", "topic_id": b"", "partition_data": parts},
            {"name": "b", "topic_id": b"", "partition_data": parts[:1]},
        ],
    }

    hit, others = refusals.split(request, lambda place: place == ("a", 1), lambda _: "")

    assert list(refusals.places(hit, lambda _: "")) == [("a", 1)]
    assert list(refusals.places(others, lambda _: "")) == [("a", 0), ("a", 2), ("b", 0)]
    assert hit["acks"] == others["acks"] == -1


def test_merged_responses_have_each_topic_once() -> None:
    def response(topic: str, number: int) -> dict[str, Any]:
        return {"responses": [{"name": topic, "partition_responses": [{"index": number}]}]}

    merged = refusals.merged(response("a", 0), response("a", 1))
    apart = refusals.merged(response("a", 0), response("b", 1))

    assert [each["index"] for each in merged["responses"][0]["partition_responses"]] == [0, 1]
    assert [each["name"] for each in apart["responses"]] == ["a", "b"]


def test_topics_are_known_by_their_ids() -> None:
    request = {"topics": [{"topic_id": b"x" * 16, "partitions": [{"partition": 4}]}]}

    assert list(refusals.places(request, {b"x" * 16: "a"}.__getitem__)) == [("a", 4)]
