"""Kafka's message encoding in the plainest form: what the native codec must agree with.

Slow, recursive, and by the same definitions of fields, which tests/test_schema_sources.py proves.
"""

import struct
from collections.abc import Callable
from typing import Any

from broker.codec.schema import Definition, Message

FORMATS = {
    "bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I",
    "int64": ">q", "float64": ">d", "uuid": ">16s",
}  # fmt: skip


def complete(fields: list[Definition], version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return the value with every field: missing ones, and those of other versions, by default."""
    result = {}
    for field in fields:
        item: Any = field.default
        if version in field.versions:
            item = value.get(field.name, field.default)
        if field.type == "{}" and item is not None:
            item = complete(field.fields, version, item)
        elif field.type == "[]" and item is not None:
            item = [complete(field.fields, version, element) for element in item]
        result[field.name] = item
    return result


def encode(message: Message, version: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a message."""
    whole = complete(message.fields, version, value)
    return _encode_struct(message.fields, version, whole, message.is_flexible(version))


def decode(message: Message, version: int, data: bytes) -> tuple[dict[str, Any], int]:
    """Return the message at the start of data, and its size; only for valid data."""
    reader = _Reader(data)
    value = reader.struct(message.fields, version, message.is_flexible(version))
    return complete(message.fields, version, value), reader.position


def varint(value: int) -> bytes:
    """Return an unsigned varint."""
    result = b""
    while value >= 0x80:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def _encode_struct(
    fields: list[Definition], version: int, value: dict[str, Any], is_flexible: bool
) -> bytes:
    result = b""
    tagged: dict[int, bytes] = {}
    defaults = complete(fields, version, {})
    for field in fields:
        if version not in field.versions:
            continue
        item = value[field.name]
        written = _encode_value(field, field.type, version, item, is_flexible)
        if field.tag is None:
            result += written
        elif item != defaults[field.name]:
            tagged[field.tag] = written
    if is_flexible:
        result += varint(len(tagged))
        for tag in sorted(tagged):
            result += varint(tag) + varint(len(tagged[tag])) + tagged[tag]
    return result


def _encode_value(
    field: Definition, kind: str, version: int, value: Any, is_flexible: bool
) -> bytes:
    if kind in FORMATS:
        return struct.pack(FORMATS[kind], value)
    if kind == "{}":
        if value is None:
            return b"\xff" if field.tag is None else b"\0"
        mark = b"\x01" if version in field.nullable else b""
        return mark + _encode_struct(field.fields, version, value, is_flexible)
    is_compact = is_flexible and not field.is_plain
    size = -1 if value is None else len(value.encode() if kind == "string" else value)
    prefix = (
        varint(size + 1) if is_compact else struct.pack(">h" if kind == "string" else ">i", size)
    )
    if value is None:
        return prefix
    if not kind.startswith("[]"):
        return prefix + (value.encode() if kind == "string" else value)
    element = field._replace(nullable=range(0))
    return prefix + b"".join(
        _encode_value(element, kind[2:] or "{}", version, item, is_flexible) for item in value
    )


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def struct(self, fields: list[Definition], version: int, is_flexible: bool) -> dict[str, Any]:
        present = [field for field in fields if version in field.versions]
        value = {
            field.name: self.value(field, field.type, version, is_flexible)
            for field in present
            if field.tag is None
        }
        if is_flexible:
            by_tag = {field.tag: field for field in present}
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                field = by_tag.get(tag)
                if field is None:
                    self.take(size)
                else:
                    value[field.name] = self.value(field, field.type, version, is_flexible)
        return value

    def value(self, field: Definition, kind: str, version: int, is_flexible: bool) -> Any:
        if kind in FORMATS:
            return struct.unpack(FORMATS[kind], self.take(struct.calcsize(FORMATS[kind])))[0]
        if kind == "{}":
            null = b"\xff" if field.tag is None else b"\0"
            if version in field.nullable and self.take(1) == null:
                return None
            return self.struct(field.fields, version, is_flexible)
        if is_flexible and not field.is_plain:
            size = self.varint() - 1
        elif kind == "string":
            size = struct.unpack(">h", self.take(2))[0]
        else:
            size = struct.unpack(">i", self.take(4))[0]
        if size < 0:
            return None
        if not kind.startswith("[]"):
            return self.take(size).decode() if kind == "string" else self.take(size)
        element = field._replace(nullable=range(0))
        return [self.value(element, kind[2:] or "{}", version, is_flexible) for _ in range(size)]


def sample(message: Message, version: int) -> dict[str, Any]:
    """Return a value with every field of a version set, no two adjacent ones alike."""
    count = 0

    def next_value(field: Definition, kind: str) -> Any:
        nonlocal count
        count += 1
        if kind == "{}":
            return sample_struct(field.fields)
        if kind.startswith("[]"):
            return [next_value(field, kind[2:] or "{}") for _ in range(2)]
        return SAMPLES.get(kind, int)(1 + count % 100)

    def sample_struct(fields: list[Definition]) -> dict[str, Any]:
        return {
            field.name: next_value(field, field.type)
            for field in fields
            if version in field.versions
        }

    return sample_struct(message.fields)


SAMPLES: dict[str, Callable[[int], object]] = {
    "bool": lambda number: True,  # noqa: ARG005
    "float64": lambda number: number + 0.5,
    "string": lambda number: f"text {number}",
    "bytes": lambda number: b"bytes %d" % number,
    "records": lambda number: b"records %d" % number,
    "uuid": lambda number: bytes(range(number, number + 16)),
}
