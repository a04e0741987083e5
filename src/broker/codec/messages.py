"""Whole requests and responses: bodies, headers and frames.

A body is a dictionary with Kafka's field names in snake_case (see schema.py). An API is given by
its key or its name, 3 or "Metadata". The bytes on a connection (Kafka protocol guide, "Protocol"):

    frame      int32 size, then a request or a response of that many bytes
    request    int16 api key, int16 api version, int32 correlation id, from header version 1 on a
               nullable string client id, from 2 on tagged fields; then the body
    response   int32 correlation id, from header version 1 on tagged fields; then the body

A response does not contain its API or version: the client knows them by the correlation id.

    >>> received = request_frame("Metadata", 1, {"topics": [{"name": "a"}]}, correlation_id=7)
    >>> [frame], end = frames(received + received[:9])
    >>> end == len(received)
    True
    >>> read_request(frame).header
    RequestHeader(api_key=3, api_version=1, correlation_id=7, client_id=None)
    >>> read_request(frame).body["topics"][0]["name"]
    'a'
    >>> decode_request("Metadata", 1, bytes(3))
    Traceback (most recent call last):
    ...
    broker.model.errors.Truncated: MetadataRequest v1: topics: ...

Positions in errors are byte positions in the argument.
"""

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.codec import schema
from broker.codec.schema import Fields, Message
from broker.model.errors import Corrupt, LimitExceeded, Truncated, Unsupported
from broker.model.limits import CODEC_FRAME_BYTES_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SIZE = Struct(">i")
_SIZE_MAX = 0x7FFFFFFF
_REQUEST_HEAD = Struct(">hh")
_KEYS = {name: key for key, name in schema.API_KEYS.items()}


class Decoded(NamedTuple):
    """A body and the position of its end."""

    body: Fields
    end: int


class RequestHeader(NamedTuple):
    """The header before a request's body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class Request(NamedTuple):
    """A whole request."""

    header: RequestHeader
    body: Fields


class Response(NamedTuple):
    """A whole response."""

    correlation_id: int
    body: Fields


class Frames(NamedTuple):
    """The whole frames of a buffer, without their sizes, and the position of the rest."""

    frames: list[memoryview]
    end: int


# ---- bodies --------------------------------------------------------------------------------------


def decode_request(api: int | str, version: int, data: "Buffer", offset: int = 0) -> Decoded:
    """Decode the body of a request that begins at a position of a buffer.

    Returns:
        The body with every field of the message (fields of other versions have their default), and
        the position of its end, which need not be the buffer's end.

    Raises:
        CodecError: the bytes are not such a body, or there is no such API or version.
    """
    return Decoded(*schema.request(_key(api)).decode(version, data, offset))


def decode_response(api: int | str, version: int, data: "Buffer", offset: int = 0) -> Decoded:
    """Decode the body of a response; like `decode_request`."""
    return Decoded(*schema.response(_key(api)).decode(version, data, offset))


def encode_request(api: int | str, version: int, body: Fields) -> bytes:
    """Encode the body of a request.

    Args:
        api: the key or name of the API.
        version: of the message.
        body: its fields; a missing field means its default, fields of other versions are ignored.

    Raises:
        ValueError: a value has the wrong type, or a name is not that of a field; the message has
            the path.
        Unsupported: there is no such API or version.
    """
    return schema.request(_key(api)).encode(version, body)


def encode_response(api: int | str, version: int, body: Fields) -> bytes:
    """Encode the body of a response; like `encode_request`."""
    return schema.response(_key(api)).encode(version, body)


# ---- frames --------------------------------------------------------------------------------------


def frames(data: "Buffer", *, frame_bytes_max: int = CODEC_FRAME_BYTES_MAX) -> Frames:
    """Split received bytes into frames.

    Args:
        data: received bytes; the frames are views of them.
        frame_bytes_max: the largest frame that is accepted, in bytes, without the size field.

    Returns:
        The whole frames, and the position of the first byte after them: keep the bytes from there
        on and append what is received next.

    Raises:
        LimitExceeded: a frame is larger, complete or not.
        Corrupt: a size is negative. Frames before the error's position are whole.
    """
    view = memoryview(data).cast("B")
    whole: list[memoryview] = []
    end = 0
    while len(view) - end >= _SIZE.size:
        (size,) = _SIZE.unpack_from(view, end)
        if size < 0:
            raise Corrupt(f"expected the size of a frame, found {size}", end)
        if size > frame_bytes_max:
            raise LimitExceeded(f"a frame of {size} bytes, allowed are {frame_bytes_max}", end)
        start = end + _SIZE.size
        if size > len(view) - start:
            break
        end = start + size
        whole.append(view[start:end])
    return Frames(whole, end)


def request_frame(
    api: int | str,
    version: int,
    body: Mapping[str, Any],
    *,
    correlation_id: int = 0,
    client_id: str | None = None,
) -> bytes:
    """Encode a whole request with its size and header.

    Raises:
        ValueError: a value has the wrong type, or a name is not that of a field.
        Unsupported: there is no such API or version.
    """
    key = _key(api)
    content = schema.request(key).encode(version, body)
    header = schema.record("RequestHeader").encode(
        schema.request_header_version(key, version),
        {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        },
    )
    return _frame(header, content)


def response_frame(api: int | str, version: int, body: Fields, *, correlation_id: int = 0) -> bytes:
    """Encode a whole response with its size and header; like `request_frame`."""
    key = _key(api)
    content = schema.response(key).encode(version, body)
    header = schema.record("ResponseHeader").encode(
        schema.response_header_version(key, version), {"correlation_id": correlation_id}
    )
    return _frame(header, content)


def _frame(header: bytes, content: bytes) -> bytes:
    size = len(header) + len(content)
    if size > _SIZE_MAX:
        raise ValueError(f"a frame of {size} bytes, allowed are {_SIZE_MAX}")
    return b"".join((_SIZE.pack(size), header, content))


def read_request(frame: "Buffer") -> Request:
    """Decode a whole request, as returned by `frames`: a header and a body, and nothing after them.

    Raises:
        CodecError: the bytes are not a request, or its API or version is unknown.
    """
    header, position = read_request_header(frame)
    message = schema.request(header.api_key)
    body, end = message.decode(header.api_version, frame, position)
    _check_end(message, frame, end)
    return Request(header, body)


def read_request_header(frame: "Buffer") -> tuple[RequestHeader, int]:
    """Decode the header of a request; return it with the position of the body.

    The version may be newer than all known ones, so that a broker can answer an ApiVersions request
    that it cannot decode (KIP-511).

    Raises:
        CodecError: the bytes are not a header, or its API is unknown.
    """
    view = memoryview(frame).cast("B")
    if len(view) < _REQUEST_HEAD.size:
        raise Truncated(f"expected a request header, found {len(view)} bytes", 0)
    key, version = _REQUEST_HEAD.unpack_from(view)
    known = min(version, schema.request(key).versions[-1])
    fields, position = schema.record("RequestHeader").decode(
        schema.request_header_version(key, known), frame
    )
    return RequestHeader(key, version, fields["correlation_id"], fields["client_id"]), position


def read_response(
    api: int | str, version: int, frame: "Buffer", *, as_views: bool = False
) -> Response:
    """Decode a whole response: a header and a body, and nothing after them.

    A broker answers an ApiVersions request in an unsupported version with version 0 and error 35
    (KIP-511).

    Args:
        api: its name or key.
        version: of the request.
        frame: the response, without its size.
        as_views: return bytes fields, like the records of Fetch, as memoryviews of the frame
            instead of copies.

    Raises:
        CodecError: the bytes are not such a response, or there is no such API or version.
    """
    key = _key(api)
    message = schema.response(key)
    header, position = schema.record("ResponseHeader").decode(
        schema.response_header_version(key, version), frame
    )
    body, end = message.decode(version, frame, position, as_views=as_views)
    _check_end(message, frame, end)
    return Response(header["correlation_id"], body)


def _check_end(message: Message, frame: "Buffer", end: int) -> None:
    size = memoryview(frame).nbytes
    if end != size:
        raise Corrupt(f"expected the end of {message.name}, found {size - end} more bytes", end)


def _key(api: int | str) -> int:
    if isinstance(api, int):
        return api
    key = _KEYS.get(api)
    if key is None:
        raise Unsupported(f"there is no API named {api!r}")
    return key
