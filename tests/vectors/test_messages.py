"""The message codec against the bytes and the JSON of Kafka's own classes, for every version."""

from collections import defaultdict
from typing import Any

import pytest

from broker.codec import schema
from broker.codec.schema import Definition, Message
from tests.vectors import vector_files
from tests.vectors.message_json import fields_of, scalar_of, snake

pytestmark = pytest.mark.exhaustive

MESSAGES = list(schema.messages())
FILLINGS = {"set", "null", "default"}
# Versions that no jar has, each with the reason why: there are none.
WITHOUT_VECTORS: dict[tuple[str, int], str] = {}
# Kafka's class of a partition serves two arrays, of different versions and so of other fields.
WITH_SHARED_CLASS = {"LeaderAndIsrRequest", "LeaderAndIsrResponse", "UpdateMetadataRequest"}

# Key 74 as Kafka 3.9 calls it, and its fields.
RENAMED = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
RENAMED_FIELDS = {"clientMetricsResources": "configResources", "name": "resourceName"}

Vector = dict[str, Any]


def renamed(json: Any) -> Any:
    """Return JSON of Kafka 3.9's key 74 under the names of 4.4."""
    if isinstance(json, dict):
        names = RENAMED_FIELDS | {f"{old}[]": f"{new}[]" for old, new in RENAMED_FIELDS.items()}
        return {names.get(name, name): renamed(value) for name, value in json.items()}
    return [renamed(item) for item in json] if isinstance(json, list) else json


def by_message(file: str, content: str) -> dict[tuple[str, str], list[Vector]]:
    """Return the lines of both releases by the kind and the name of their message."""
    found = defaultdict(list)
    for release in vector_files.RELEASES:
        for line in vector_files.lines(release, file):
            if line["name"] in RENAMED:
                line["name"] = RENAMED[line["name"]]
                line[content] = renamed(line[content])
            found[line["kind"], line["name"]].append(line)
    return found


VECTORS = by_message("messages", "json")
DEFAULTS = by_message("defaults", "defaults")
every_message = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)


def vectors_of(message: Message) -> list[Vector]:
    return VECTORS[message.kind, message.name]


@every_message
def test_bytes_decode_to_the_values_of_kafkas_json(message: Message) -> None:
    for vector in vectors_of(message):
        version, data = vector["version"], bytes.fromhex(vector["hex"])

        assert message.decode(version, data) == (
            fields_of(message, version, vector["json"]),
            len(data),
        ), f"version {version}, {vector['filling']}"


@every_message
def test_decoded_values_encode_to_the_same_bytes(message: Message) -> None:
    for vector in vectors_of(message):
        value, _ = message.decode(vector["version"], bytes.fromhex(vector["hex"]))

        assert message.encode(vector["version"], value).hex() == vector["hex"]


@every_message
def test_an_empty_dictionary_encodes_to_kafkas_defaults(
    message: Message,
) -> None:
    for vector in vectors_of(message):
        if vector["filling"] == "default":
            assert message.encode(vector["version"], {}).hex() == vector["hex"]


@every_message
def test_every_version_has_a_vector_of_every_kind(message: Message) -> None:
    found = {(vector["version"], vector["filling"]) for vector in vectors_of(message)}

    assert found == {
        (version, filling)
        for version in message.versions
        for filling in FILLINGS
        if (message.name, version) not in WITHOUT_VECTORS
    }


def test_every_kafka_message_is_known() -> None:
    assert set(VECTORS) == {(message.kind, message.name) for message in MESSAGES}


@every_message
def test_the_api_key_is_kafkas(message: Message) -> None:
    assert {vector.get("api") for vector in vectors_of(message)} == {message.api_key}


@pytest.mark.parametrize("api_key", schema.API_KEYS)
def test_the_header_version_is_kafkas(api_key: int) -> None:
    for vector in vectors_of(schema.request(api_key)):
        version = schema.request_header_version(api_key, vector["version"])

        assert version == vector["header_version"]
    for vector in vectors_of(schema.response(api_key)):
        version = schema.response_header_version(api_key, vector["version"])

        assert version == vector["header_version"]


# ---- defaults ------------------------------------------------------------------------------------


@every_message
def test_a_fields_default_is_kafkas(message: Message) -> None:
    seen: set[int] = set()

    for line in DEFAULTS[message.kind, message.name]:
        assert_defaults(message, message.fields, line["defaults"], seen)

    assert seen == set(ids_of(message.fields))


def assert_defaults(
    message: Message, fields: list[Definition], defaults: dict[str, Any], seen: set[int]
) -> None:
    """Compare the fields that a release has; compared ones are added to `seen`."""
    by_name = {field.name: field for field in fields}
    for name, default in defaults.items():
        if name.endswith(("[]", "{}")):
            assert_defaults(message, by_name[snake(name[:-2])].fields, default, seen)
        elif snake(name) in by_name:
            field = by_name[snake(name)]
            seen.add(id(field))
            assert field.default == default_of(field, default), name
        else:
            assert message.name in WITH_SHARED_CLASS, name


def default_of(field: Definition, json: Any) -> Any:
    """Return a default of the JSON as in the table."""
    if json is None or field.type.startswith("[]") or field.type == "{}":
        return json
    return scalar_of(field.type, json)


def ids_of(fields: list[Definition]) -> list[int]:
    """Return the ids of the fields of a message, at every depth."""
    return [item for field in fields for item in (id(field), *ids_of(field.fields))]
