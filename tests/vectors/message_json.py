"""Kafka's JSON of a message as the dictionary that our decoder returns.

Kafka's converters omit fields that a version lacks and tagged fields with default values, name
fields in camelCase, write bytes and uuids in base64, and of records only the size.
"""

import base64
import re
from typing import Any

from broker.codec.schema import Definition, Fields, Message
from tests.oracles import schema_oracle as oracle

INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}


class OfSize:
    """Equal to any bytes of a size, which is all that the JSON has of records."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and len(other) == self.size

    def __hash__(self) -> int:
        return hash(self.size)

    def __repr__(self) -> str:
        return f"{self.size} bytes"


def snake(name: str) -> str:
    """Return Kafka's name of a field as ours."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def fields_of(message: Message, version: int, json: dict[str, Any]) -> Fields:
    """Return the expected result of decoding: every field of the message."""
    return oracle.complete(message.fields, version, _struct(message.fields, version, json))


def _struct(fields: list[Definition], version: int, json: dict[str, Any]) -> Fields:
    given = {snake(name): value for name, value in json.items()}
    result: Fields = {}
    for field in fields:
        if version not in field.versions:
            continue
        if field.name in given:
            result[field.name] = value_of(field, field.type, version, given.pop(field.name))
        elif field.type == "records":
            result[field.name] = OfSize(given.pop(f"{field.name}_size_in_bytes"))
        else:
            assert field.tag is not None, f"{field.name} is not in {json}"
    assert not given, f"version {version} has no {', '.join(given)}"
    return result


def value_of(field: Definition, kind: str, version: int, value: Any) -> Any:
    """Return a value of the JSON for a field that is nullable wherever the JSON has null."""
    if value is None:
        return None
    if kind == "{}":
        return _struct(field.fields, version, value)
    if kind.startswith("[]"):
        return [value_of(field, kind[2:] or "{}", version, item) for item in value]
    return scalar_of(kind, value)


def scalar_of(kind: str, value: Any) -> Any:
    """Return a number, a text or bytes, having checked that the JSON is of that type."""
    if kind in INTEGERS:
        assert type(value) is int
    elif kind == "float64":
        assert type(value) is float
    elif kind == "bool":
        assert type(value) is bool
    else:
        assert type(value) is str
    if kind == "bytes":
        return base64.b64decode(value, validate=True)
    return base64.urlsafe_b64decode(value + "==") if kind == "uuid" else value
