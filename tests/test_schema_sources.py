"""Our table of messages compared with the facts it was made from, kafka-python's and kio's.

Each source has other versions, so a comparison is made version by version: which fields exist, in
which order, of which type, tag, default, and whether they are nullable.
"""

import dataclasses
import datetime as dt
import enum
import io
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.api_message import ApiMessage
from kio.index import load_entity_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from broker.codec import schema
from broker.codec.schema import Definition, Message
from tests.oracles import schema_oracle as oracle

pytestmark = pytest.mark.exhaustive

FACTS = Path(__file__).parents[2] / "shared" / "protocols" / "kafka-messages.txt"
KAFKA_PYTHON = Path(kafka.__file__).parent / "protocol/schemas/resources"
ALWAYS = range(1000)
MESSAGES = {message.name: message for message in schema.messages()}

Facts = tuple[list[Definition], range, range]


def snake(name: str) -> str:
    """Return Kafka's name of a field as ours."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def versions_of(text: str) -> range:
    """Read Kafka's way to write versions."""
    if text == "none":
        return range(0)
    first, separator, last = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return range(int(first), ALWAYS.stop)
    return range(int(first), int(last if separator else first) + 1)


def default_of(kind: str, text: str | None) -> object:
    """Read Kafka's way to write defaults."""
    if text == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return []
    if kind in {"string", "bytes", "uuid", "{}"}:
        return {"string": "", "bytes": b"", "uuid": bytes(16), "{}": {}}[kind]
    if kind == "bool":
        return str(text).lower() == "true"
    return float(text or 0) if kind == "float64" else int(text or "0", 0)


def kind_of(kind: str) -> str:
    """Return a type without the name of a struct, which our table does not have."""
    array, _, element = kind.rpartition("[]")
    prefix = "[]" if array or kind.startswith("[]") else ""
    if element[0].islower():
        return prefix + element
    return prefix or "{}"


def layout(fields: list[Definition], version: int) -> list[tuple[object, ...]]:
    """Return the wire layout of one version of the fields, and their defaults."""
    return [
        (
            field.name,
            field.type,
            version in field.nullable,
            field.tag,
            field.default,
            field.is_plain,
            layout(field.fields, version),
        )
        for field in fields
        if version in field.versions
    ]


def assert_same(message: Message, source: Facts, newer: frozenset[str] = frozenset()) -> None:
    """Compare all versions of the source, except for fields that are newer than the source."""
    fields, versions, flexible = source
    ours = [field for field in message.fields if field.name not in newer]
    for version in versions:
        assert layout(ours, version) == layout(fields, version), f"version {version}"
        assert message.is_flexible(version) == (version in flexible), f"version {version}"


# ---- the facts -----------------------------------------------------------------------------------

# What VoteRequest version 2 renamed to ReplicaDirectoryId: the facts have both names in version 1.
FORMER_NAMES = {("VoteRequest", "CandidateDirectoryId")}
# The facts are of the coordinators 4.3.1, these fields of 4.4.0; tests/vectors has bytes with them.
NEWER_FIELDS = {
    "StreamsGroupMetadataValue": frozenset(
        {"stored_description_topology_epoch", "failed_description_topology_epoch"}
    )
}
# Key 74 of Kafka 3.9, whose bytes are those of ListConfigResources version 0.
RENAMED = {"ListClientMetricsResourcesRequest", "ListClientMetricsResourcesResponse"}


def facts() -> Iterator[tuple[str, Facts]]:
    """Yield the name and the content of each block of kafka-messages.txt."""
    text = FACTS.read_text(encoding="utf-8") if FACTS.is_file() else ""
    for block in text.split("\n\n"):
        head, _, body = block.partition("\n")
        found = re.match(r"[a-z-]+ (\w+)(?: key \d+)? valid (\S+) flex (\S+)", head)
        if found:
            name, versions, flexible = found.groups()
            fields = facts_fields(name, body)
            yield name, (fields, versions_of(versions), versions_of(flexible))


def facts_fields(message: str, body: str) -> list[Definition]:
    """Read the indented fields of a block."""
    top: list[Definition] = []
    open_at = {-1: top}
    for line in body.splitlines():
        depth = len(line) - len(line.lstrip())
        name, kind, versions, *_ = line.split()
        if (message, name) in FORMER_NAMES:
            continue
        null = re.search(r" null (\d\S*)", line)
        tag = re.search(r" tag (\d+) (\S+)", line)
        default = re.search(r" = (\S+)", line)
        field = Definition(
            name=snake(name),
            type=kind_of(kind),
            # The definitions may name only the versions of the tag, and the facts then have all.
            versions=versions_of(tag[2] if tag else versions),
            nullable=versions_of(null[1]) if null else range(0),
            tag=int(tag[1]) if tag else None,
            default=default_of(kind_of(kind), default[1] if default else None),
            is_plain=" flex none" in line,
            fields=[],
        )
        open_at[max(at for at in open_at if at < depth)].append(field)
        open_at = {at: fields for at, fields in open_at.items() if at < depth}
        open_at[depth] = field.fields
    return top


FACTS_READ = dict(facts())
with_facts = pytest.mark.skipif(not FACTS_READ, reason=f"{FACTS} is not there")


@with_facts
@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_message_matches_the_schema_facts(name: str) -> None:
    source = FACTS_READ[name]

    assert MESSAGES[name].versions == source[1]
    assert_same(MESSAGES[name], source, NEWER_FIELDS.get(name, frozenset()))


@with_facts
def test_no_message_of_the_schema_facts_is_missing() -> None:
    assert set(FACTS_READ) - set(MESSAGES) == RENAMED


# ---- kafka-python --------------------------------------------------------------------------------

# Kafka 4.4's name for what 4.3 calls otherwise.
RENAMED_FIELDS = {("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch"}


def kafka_python_names() -> list[str]:
    """Return the names of the message definitions in kafka-python."""
    return sorted(path.stem for path in KAFKA_PYTHON.glob("*.json"))


def json_fields(
    message: str, fields: list[dict[str, Any]], common: dict[str, Any]
) -> list[Definition]:
    """Read the fields of a JSON definition of Kafka's."""
    result = []
    for field in fields:
        name = snake(field["name"])
        kind = kind_of(field["type"])
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"), [])
        default = field.get("default")
        result.append(
            Definition(
                name=RENAMED_FIELDS.get((message, name), name),
                type=kind,
                versions=versions_of(field.get("versions") or field["taggedVersions"]),
                nullable=versions_of(field.get("nullableVersions", "none")),
                tag=field.get("tag"),
                default=default_of(kind, None if default is None else str(default)),
                is_plain=field.get("flexibleVersions") == "none",
                fields=json_fields(message, inner, common),
            )
        )
    return result


@pytest.mark.parametrize("name", kafka_python_names())
def test_every_message_matches_kafka_pythons(name: str) -> None:
    text = (KAFKA_PYTHON / f"{name}.json").read_text(encoding="utf-8")
    source = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    common = {struct["name"]: struct["fields"] for struct in source.get("commonStructs", [])}

    assert_same(
        MESSAGES[name],
        (
            json_fields(name, source["fields"], common),
            versions_of(source["validVersions"]),
            versions_of(source["flexibleVersions"]),
        ),
    )


# What kafka-python 3.0 cannot encode again: its DeleteTopicsRequest is made without a header.
UNREADABLE = {"DeleteTopicsRequest"}


def kafka_python_messages() -> dict[str, Any]:
    """Return the message classes of kafka-python by Kafka's name."""
    found: list[Any] = [
        each
        for module in (admin, consumer, metadata, producer, sasl)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, ApiMessage) and each is not ApiMessage
    ]
    return {each.name: each for each in found if each.name not in UNREADABLE}


@pytest.mark.parametrize(("name", "theirs"), sorted(kafka_python_messages().items()))
def test_kafka_python_reads_and_rewrites_our_bytes(name: str, theirs: Any) -> None:
    message = MESSAGES[name]
    for version in message.versions[: theirs.max_version + 1]:
        value = oracle.sample(message, version)
        if name == "ApiVersionsResponse":
            value["error_code"] = 0  # with an error it parses version 0, whatever was requested
        encoded = message.encode(version, value)

        assert theirs[version].decode(encoded).encode() == encoded, f"version {version}"


# ---- kio -----------------------------------------------------------------------------------------


def kio_entities() -> Iterator[tuple[Message, str, EntityType, list[int]]]:
    """Yield each of our messages that kio has too, and kio's name and versions of it."""
    keys = {name: key for key, name in api_key_map.items()}
    ours = {snake(name): message for name, message in MESSAGES.items()}
    for name, versions in schema_name_map.items():
        for kind in {kind for kinds in versions.values() for kind in kinds}:
            if name in keys:
                find = schema.request if kind is EntityType.request else schema.response
                message = find(keys[name])
            else:
                message = ours[name]
            yield message, name, kind, [v for v, kinds in versions.items() if kind in kinds]


def kio_values(value: object) -> object:
    """Return a value of kio's without names: a struct as the list of its fields' values."""
    if dataclasses.is_dataclass(value):
        return [kio_values(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [kio_values(item) for item in value]
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value.value if isinstance(value, enum.Enum) else value


def our_values(value: object) -> object:
    """Return a value of ours without names, since kio has some names of its own."""
    if isinstance(value, dict):
        return [our_values(item) for item in value.values()]
    return [our_values(item) for item in value] if isinstance(value, list) else value


KIO = sorted(kio_entities(), key=lambda entity: entity[0].name)


@pytest.mark.parametrize(("message", "name", "kind", "versions"), KIO, ids=[e[0].name for e in KIO])
def test_kio_reads_our_bytes_and_its_bytes_are_read(
    message: Message, name: str, kind: EntityType, versions: list[int]
) -> None:
    for version in versions:
        value = oracle.sample(message, version)
        encoded = message.encode(version, value)
        entity_type = load_entity_schema(name, version, kind)  # type: ignore[arg-type]

        entity, size = entity_reader(entity_type)(encoded, 0)
        written = io.BytesIO()
        entity_writer(entity_type)(written, entity)

        assert size == len(encoded)
        assert kio_values(entity) == our_values(value)
        assert written.getvalue() == encoded
