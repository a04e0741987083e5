"""Requests, responses, headers, frames, and what stands in the coordinators' topics."""

from collections.abc import Callable
from typing import Any

from broker.codec import schema
from broker.codec.schema import Message
from broker.model.errors import CodecError
from tests.fuzz.inputs import exact, outcome

HEAD_SIZE = 2  # which message, which version

KEYS = sorted(schema.API_KEYS)
RECORDS = sorted(
    message.name for message in schema.messages() if message.kind not in {"request", "response"}
)


def request(data: bytes) -> None:
    """The body of any request in any version."""
    there_and_back(data, len(KEYS), lambda place: schema.request(KEYS[place]))


def response(data: bytes) -> None:
    """The body of any response in any version."""
    there_and_back(data, len(KEYS), lambda place: schema.response(KEYS[place]))


def record(data: bytes) -> None:
    """A header, embedded data, or a coordinator's key or value."""
    there_and_back(data, len(RECORDS), lambda place: schema.record(RECORDS[place]))


def there_and_back(data: bytes, count: int, find: Callable[[int], Message]) -> None:
    """What can be read can be written, and is read again as the same."""
    if len(data) < HEAD_SIZE:
        return
    message = find(data[0] % count)
    if not message.versions:
        return
    version = message.versions[data[1] % len(message.versions)]
    content = exact(data[HEAD_SIZE:])
    found = outcome(len(content), lambda: message.decode(version, content))
    if isinstance(found, CodecError):
        return
    value, end = found
    assert 0 <= end <= len(content)
    written = message.encode(version, value)
    again, end = message.decode(version, exact(written))
    assert end == len(written)
    assert same(again, value)
    assert message.encode(version, again) == written


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, a float that is no number being itself."""
    return repr(one) == repr(other)
