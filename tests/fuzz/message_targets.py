"""Requests, responses, headers, frames, and the records of coordinators."""

from collections.abc import Callable
from functools import partial
from typing import Any

from broker.codec import coordinator_records, messages, schema
from broker.codec.schema import Message
from broker.model.errors import CodecError
from tests.fuzz.inputs import Options, exact, outcome

HEAD_SIZE = 2  # which message, which version

KEYS = sorted(schema.API_KEYS)
RECORDS = sorted(
    message.name for message in schema.messages() if message.kind not in {"request", "response"}
)
SUBSCRIPTIONS = schema.record("ConsumerProtocolSubscription").versions
ASSIGNMENTS = schema.record("ConsumerProtocolAssignment").versions


def request(data: bytes) -> None:
    """The body of any request in any version."""
    there_and_back(data, len(KEYS), lambda place: schema.request(KEYS[place]))


def response(data: bytes) -> None:
    """The body of any response in any version."""
    there_and_back(data, len(KEYS), lambda place: schema.response(KEYS[place]))


def record(data: bytes) -> None:
    """Read a header, embedded data, or a coordinator's key or value."""
    there_and_back(data, len(RECORDS), lambda place: schema.record(RECORDS[place]))


def there_and_back(data: bytes, count: int, find: Callable[[int], Message]) -> None:
    """Check that what can be decoded can be encoded, and decodes to the same again."""
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


# ---- frames and headers --------------------------------------------------------------------------


def frame(data: bytes) -> None:
    """Split a received stream into frames, and read each as a request and as a response."""
    options = Options(data)
    buf = exact(options.content)
    size_max = options.byte(0) << 4
    found = outcome(len(buf), lambda: messages.frames(buf, frame_bytes_max=size_max))
    if not isinstance(found, CodecError):
        whole, end = found
        assert all(each.nbytes <= size_max for each in whole)
        assert end == sum(4 + each.nbytes for each in whole) <= len(buf)
        for each in whole:
            read_frame(each.tobytes(), options)
    read_frame(options.content, options)


def read_frame(content: bytes, options: Options) -> None:
    """Read one frame; what can be decoded is encoded to the same bytes or decodes to the same."""
    key = KEYS[options.byte(1) % len(KEYS)]
    versions = schema.response(key).versions
    buf = exact(content)
    head = outcome(len(buf), lambda: messages.read_request_header(buf))
    request = outcome(len(buf), lambda: messages.read_request(buf))
    if not isinstance(request, CodecError):
        assert not isinstance(head, CodecError)
        assert head[0] == request.header
        header, body = request
        written = messages.request_frame(
            header.api_key,
            header.api_version,
            body,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
        )
        assert same(messages.read_request(written[4:]), request)
    if versions:
        version = versions[options.byte(2) % len(versions)]
        response = outcome(len(buf), lambda: messages.read_response(key, version, buf))
        if not isinstance(response, CodecError):
            written = messages.response_frame(
                key, version, response.body, correlation_id=response.correlation_id
            )
            assert same(messages.read_response(key, version, written[4:]), response)


# ---- coordinators and consumers ------------------------------------------------------------------


def coordinator_record(data: bytes) -> None:
    """Read the key and value of a coordinator's record, the value perhaps missing."""
    options = Options(data)
    size = options.byte(0)
    key = exact(options.content[:size])
    value = None if options.flag(1, 0) else exact(options.content[size:])
    longest = max(len(key), len(options.content) - len(key))
    outcome(len(key), lambda: coordinator_records.group_record_name(key))
    for decode in (
        coordinator_records.decode_group_record,
        coordinator_records.decode_transaction_record,
    ):
        found = outcome(longest, partial(decode, key, value))
        if isinstance(found, CodecError):
            continue
        again = decode(*coordinator_records.encode_coordinator_record(found))
        assert same(again, found)


def consumer_protocol(data: bytes) -> None:
    """Read a consumer's subscription or assignment."""
    content = exact(data)
    subscription = outcome(len(data), lambda: coordinator_records.decode_subscription(content))
    if not isinstance(subscription, CodecError) and subscription.version in SUBSCRIPTIONS:
        written = coordinator_records.encode_subscription(*subscription)
        assert same(coordinator_records.decode_subscription(written), subscription)
    assignment = outcome(len(data), lambda: coordinator_records.decode_assignment(content))
    if isinstance(assignment, coordinator_records.Embedded) and assignment.version in ASSIGNMENTS:
        written = coordinator_records.encode_assignment(*assignment)
        assert same(coordinator_records.decode_assignment(written), assignment)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; NaN equals itself."""
    return bool(one == other) or repr(one) == repr(other)
