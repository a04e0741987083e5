"""Requests and responses by key or name, their headers and frames (Kafka protocol guide)."""

import itertools
from array import array
from struct import pack
from typing import Any

import pytest

from broker.codec import schema
from broker.codec.messages import (
    Frames,
    Request,
    RequestHeader,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    frames,
    read_request,
    read_request_header,
    read_response,
    request_frame,
    response_frame,
)
from broker.codec.schema import Message
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported
from tests.oracles import schema_oracle as oracle

HEARTBEAT = {"group_id": "g", "generation_id": 5, "member_id": "m"}
HEARTBEAT_BYTES = b"\0\1g\0\0\0\5\0\1m"
every_api = pytest.mark.parametrize("name", schema.API_KEYS.values())


def versions_of(message: Message) -> set[int]:
    """Return the oldest, the first flexible and the newest version."""
    flexible = message.first_flexible
    newest = message.versions[-1]
    return {message.versions[0], newest if flexible is None else flexible, newest}


def message_of(name: str, *, is_request: bool) -> Message:
    """Return a message by the name of its API."""
    (key,) = [key for key, each in schema.API_KEYS.items() if each == name]
    return schema.request(key) if is_request else schema.response(key)


# ---- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [12, "Heartbeat"])
def test_an_api_is_given_by_its_key_or_its_name(api: int | str) -> None:
    assert encode_request(api, 0, HEARTBEAT) == HEARTBEAT_BYTES
    assert decode_request(api, 0, HEARTBEAT_BYTES).body == {**HEARTBEAT, "group_instance_id": None}
    assert encode_response(api, 0, {"error_code": 27}) == b"\0\x1b"
    assert decode_response(api, 0, b"\0\x1b").body == {"throttle_time_ms": 0, "error_code": 27}


def test_a_body_may_be_within_other_bytes() -> None:
    body, end = decode_request("Heartbeat", 0, b"..." + HEARTBEAT_BYTES + b"..", 3)

    assert body["member_id"] == "m"
    assert end == 3 + len(HEARTBEAT_BYTES)


@pytest.mark.parametrize(("api", "version"), [(95, 0), (-1, 0), ("Nonesuch", 0), (12, 5), (12, -1)])
def test_an_unknown_api_or_version_is_unsupported(api: int | str, version: int) -> None:
    for decode in (decode_request, decode_response):
        with pytest.raises(Unsupported):
            decode(api, version, b"")
    for encode in (encode_request, encode_response, request_frame, response_frame):
        with pytest.raises(Unsupported):
            encode(api, version, {})
    with pytest.raises(Unsupported):
        read_response(api, version, b"\0\0\0\1")


# ---- headers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "version", "header"),
    [
        ("ControlledShutdown", 0, b""),
        ("ControlledShutdown", 1, b"\0\2me"),
        ("ControlledShutdown", 3, b"\0\2me\0"),
        ("Heartbeat", 3, b"\0\2me"),
        ("Heartbeat", 4, b"\0\2me\0"),
        ("ApiVersions", 2, b"\0\2me"),
        ("ApiVersions", 3, b"\0\2me\0"),
    ],
)
def test_a_request_has_the_header_of_its_version(api: str, version: int, header: bytes) -> None:
    key = message_of(api, is_request=True).api_key
    body = encode_request(api, version, {})

    frame = request_frame(api, version, {}, correlation_id=7, client_id="me")

    whole = pack(">hhi", key, version, 7) + header + body
    assert frame == pack(">i", len(whole)) + whole
    client_id = "me" if header else ""
    assert read_request(whole).header == RequestHeader(key or 0, version, 7, client_id)


@pytest.mark.parametrize(
    ("api", "version", "header"),
    [
        ("ControlledShutdown", 0, b""),
        ("ControlledShutdown", 3, b"\0"),
        ("Heartbeat", 3, b""),
        ("Heartbeat", 4, b"\0"),
        ("ApiVersions", 0, b""),
        ("ApiVersions", 3, b""),
        ("ApiVersions", 5, b""),
    ],
)
def test_a_response_has_the_header_of_its_version(api: str, version: int, header: bytes) -> None:
    whole = pack(">i", 7) + header + encode_response(api, version, {})

    assert response_frame(api, version, {}, correlation_id=7) == pack(">i", len(whole)) + whole
    assert read_response(api, version, whole).correlation_id == 7


@every_api
def test_a_request_is_read_as_it_was_written(name: str) -> None:
    message = message_of(name, is_request=True)
    for version in versions_of(message):
        body = oracle.sample(message, version)

        frame = request_frame(name, version, body, correlation_id=-5, client_id=None)

        client_id = "" if (name, version) == ("ControlledShutdown", 0) else None
        header = RequestHeader(message.api_key or 0, version, -5, client_id)
        assert read_request(frame[4:]) == Request(
            header, oracle.complete(message.fields, version, body)
        )


@every_api
def test_a_response_is_read_as_it_was_written(name: str) -> None:
    message = message_of(name, is_request=False)
    for version in versions_of(message):
        body = oracle.sample(message, version)

        frame = response_frame(name, version, body, correlation_id=9)

        assert read_response(name, version, frame[4:]) == Response(
            9, oracle.complete(message.fields, version, body)
        )


@pytest.mark.parametrize("code", ["b", "h"])
def test_bytes_of_a_response_are_views_of_the_frame_on_request(code: str) -> None:
    body = {"responses": [{"topic": "one", "partitions": [{"records": b"batches"}]}]}
    frame = array(code, response_frame("Fetch", 4, body, correlation_id=9)[4:])

    read = read_response("Fetch", 4, frame, as_views=True).body["responses"][0]["partitions"][0]

    assert read["records"].obj is frame
    assert read["records"] == b"batches"


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    tags = b"\1\7\3abc"
    request = pack(">hhi", 12, 4, 1) + b"\0\2me" + tags + encode_request(12, 4, HEARTBEAT)
    response = pack(">i", 1) + tags + encode_response(12, 4, {})

    assert read_request(request).body["group_id"] == "g"
    assert read_response(12, 4, response).body["error_code"] == 0


def test_the_header_of_a_future_version_can_be_read() -> None:
    """A broker must be able to answer an ApiVersions request that it cannot read (KIP-511)."""
    frame = pack(">hhi", 18, 99, 3) + b"\0\2me\0" + b"what is not known yet"

    header, position = read_request_header(frame)

    assert header == RequestHeader(18, 99, 3, "me")
    assert frame[position:] == b"what is not known yet"
    with pytest.raises(Unsupported, match="ApiVersionsRequest 0-5>, got version 99"):
        read_request(frame)


def test_the_header_of_an_unknown_api_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="API key from 0 to 94, got 500"):
        read_request_header(pack(">hhi", 500, 0, 3) + b"\0\2me")


def test_trailing_bytes_are_corrupt() -> None:
    request = request_frame(12, 0, HEARTBEAT)[4:]
    response = response_frame(12, 0, {})[4:]

    with pytest.raises(Corrupt, match="end of HeartbeatRequest, found 2 more bytes") as error:
        read_request(request + b"..")
    assert error.value.position == len(request)
    with pytest.raises(Corrupt, match="end of HeartbeatResponse, found 1 more bytes"):
        read_response(12, 0, response + b".")


@pytest.mark.parametrize("version", [0, 4])
def test_a_message_truncated_anywhere_is_a_truncated_error(version: int) -> None:
    request = request_frame(12, version, HEARTBEAT, client_id="me")[4:]
    response = response_frame(12, version, {})[4:]

    for size in range(len(request)):
        with pytest.raises(Truncated):
            read_request(request[:size])
    for size in range(len(response)):
        with pytest.raises(Truncated):
            read_response(12, version, response[:size])


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview])
def test_a_message_may_be_in_any_buffer(convert: Any) -> None:
    request = convert(request_frame(12, 4, HEARTBEAT)[4:])
    response = convert(response_frame(12, 4, {"error_code": 27})[4:])

    assert read_request(request).body["group_id"] == "g"
    assert read_response(12, 4, response).body["error_code"] == 27


# ---- frames --------------------------------------------------------------------------------------

CONTENTS = [b"first", b"", b"x" * 300, b"last"]
STREAM = b"".join(pack(">i", len(content)) + content for content in CONTENTS)


def test_a_buffer_is_split_into_frames_that_are_views_of_it() -> None:
    data = bytearray(STREAM)

    whole, end = frames(data)
    data[4:9] = b"FIRST"

    assert [bytes(frame) for frame in whole] == [b"FIRST", *CONTENTS[1:]]
    assert end == len(STREAM)


def test_a_stream_split_anywhere_has_the_same_frames() -> None:
    for cut in range(len(STREAM) + 1):
        first, end = frames(STREAM[:cut])
        rest, last_end = frames(STREAM[end:])

        assert [bytes(frame) for frame in first + rest] == CONTENTS
        assert end + last_end == len(STREAM)


def test_a_stream_byte_by_byte_has_the_same_frames() -> None:
    found, kept = [], b""
    for byte in STREAM:
        whole, end = frames(kept := kept + bytes([byte]))
        found += [bytes(frame) for frame in whole]
        kept = kept[end:]

    assert found == CONTENTS
    assert kept == b""


def test_an_incomplete_frame_begins_at_the_returned_end() -> None:
    assert frames(b"") == Frames([], 0)
    assert frames(b"\0\0\0") == Frames([], 0)
    assert frames(b"\0\0\0\2a") == Frames([], 0)
    assert frames(b"\0\0\0\2ab\0\0") == Frames([memoryview(b"ab")], 6)


def test_a_negative_size_is_corrupt_at_its_position() -> None:
    with pytest.raises(Corrupt, match="size of a frame, found -2") as error:
        frames(b"\0\0\0\1a\xff\xff\xff\xfe")

    assert error.value.position == 5


@pytest.mark.parametrize("tail", [b"", b"abcd"])
def test_a_frame_above_the_limit_is_refused_before_it_is_complete(tail: bytes) -> None:
    data = b"\0\0\0\3abc\0\0\0\4" + tail

    with pytest.raises(LimitExceeded, match="4 bytes, allowed are 3") as error:
        frames(data, frame_bytes_max=3)
    assert error.value.position == 7
    assert frames(data[:7], frame_bytes_max=3).end == 7


def test_by_default_no_frame_is_larger_than_a_hundred_mebibytes() -> None:
    assert frames(pack(">i", 100 * 2**20)) == Frames([], 0)
    with pytest.raises(LimitExceeded):
        frames(pack(">i", 100 * 2**20 + 1))


def test_the_frames_of_a_connection_are_its_requests() -> None:
    data = request_frame(3, 12, {"topics": None}, correlation_id=1) + request_frame(
        "ApiVersions", 3, {"client_software_name": "me"}, correlation_id=2, client_id="me"
    )

    requests = [read_request(frame) for frame in frames(data).frames]

    assert [request.header for request in requests] == [
        RequestHeader(3, 12, 1, None),
        RequestHeader(18, 3, 2, "me"),
    ]
    assert requests[0].body["topics"] is None


def test_any_short_frame_is_a_request_or_a_codec_error() -> None:
    for key, version, rest in itertools.product(range(-1, 96), (-1, 0, 4), (b"", bytes(9))):
        try:
            read_request(pack(">hh", key, version) + rest)
        except CodecError as error:
            assert error.reason  # noqa: PT017 - both ways are right
