"""Records as rows, exactly: text where bytes are UTF-8, else an object with base64."""

import json
from base64 import b64decode, b64encode
from typing import Any, Final, NamedTuple

from broker.codec import Record
from broker.model.errors import ConfigError

_BOUNDS: Final = {
    "partition": (0, (1 << 31) - 1),
    "offset": (0, (1 << 63) - 2),
    "timestamp_ms": (-1 << 63, (1 << 63) - 1),
}

Text = str | dict[str, str] | None


class RecordRow(NamedTuple):
    """A record.

    Attributes:
        topic: its topic.
        partition: its partition.
        offset: its offset.
        timestamp_ms: milliseconds since 1970; -1: it has none.
        key: text; {"base64": ...} if it is no UTF-8; null if it has none.
        value: the same.
        headers: a list of {"name": text, "value": as `value`}, in order.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Text
    value: Text
    headers: list[dict[str, Text]]


def record_row(topic: str, partition: int, record: Record) -> RecordRow:
    """Return the row of a record."""
    headers = [{"name": text_of(name), "value": text_of(value)} for name, value in record.headers]
    return RecordRow(
        topic,
        partition,
        record.offset,
        record.timestamp,
        text_of(record.key),
        text_of(record.value),
        headers,
    )


def text_of(value: bytes | None) -> Text:
    """Return bytes as text, or as an object with base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def bytes_of(value: Any, what: str) -> bytes | None:  # noqa: ANN401 - a value of JSON
    """Return the bytes of what `text_of` has returned; ConfigError if it is something else."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{what}: a lone surrogate has no bytes in UTF-8") from None
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return b64decode(value["base64"], validate=True)
        except ValueError as error:
            raise ConfigError(f"{what}: not base64: {error}") from None
    raise ConfigError(f'{what}: expected text, null or {{"base64": "..."}}, found {value!r:.60}')


def object_of_line(line: bytes, what: str) -> dict[str, Any]:
    """Return the object of a line; ConfigError, with `what` the line is, if it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{what}: expected an object with key, value, headers, timestamp_ms")
    return found


def number_of(found: dict[str, Any], name: str, what: str) -> int | None:
    """Return a number of an object, if it has it; ConfigError if it is no number of a record."""
    value = found.get(name)
    low, high = _BOUNDS[name]
    if value is not None and not (type(value) is int and low <= value <= high):
        raise ConfigError(f"{what}: {name}: expected a number up to {high}, found {value!r:.60}")
    return value


def row_of_json(found: dict[str, Any], what: str) -> tuple[int | None, tuple[Any, ...]]:
    """Return the partition, if it has one, and (key, value, headers, timestamp) of an object.

    Raises:
        ConfigError: it is not one that commands print; `what` says where it is.
    """
    timestamp, partition = (number_of(found, each, what) for each in ("timestamp_ms", "partition"))
    headers = found.get("headers") or []
    if isinstance(headers, dict):  # short to write by hand
        headers = [{"name": name, "value": value} for name, value in headers.items()]
    try:
        pairs = [
            (
                bytes_of(each["name"], f"{what}: name of a header") or b"",
                bytes_of(each.get("value"), f"{what}: value of a header"),
            )
            for each in headers
        ]
    except (TypeError, KeyError, AttributeError):
        raise ConfigError(f'{what}: headers: expected a list of {{"name": "value":}}') from None
    key, value = (bytes_of(found.get(each), f"{what}: {each}") for each in ("key", "value"))
    return partition, (key, value, pairs, timestamp)
