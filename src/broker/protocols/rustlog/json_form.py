"""The JSON form: one object with one key, the name of the request.

    {"Produce":{"topic":"t","partition":0,"records":[[104,105]]}}  ->  {"Produce":{"offsets":[0]}}

Requests are parsed as Rust's serde parses them: unknown fields are ignored, a known field may occur
once only, group_id of a Fetch is optional, and numbers are non-negative integers within their type.
Records never become Python objects: the native reader extracts them, and the rest is small.
"""

import json
from collections.abc import Callable
from typing import Any, NoReturn

from broker._native.protocols.rustlog.byte_arrays import JsonRecords, ascending
from broker.core.scheduling.steps import next_step
from broker.model.errors import CodecError
from broker.model.limits import (
    RUSTLOG_BYTES_PER_STEP,
    RUSTLOG_ENVELOPE_BYTES_MAX,
    RUSTLOG_JSON_RECORDS_MAX,
)
from broker.protocols.rustlog import messages
from broker.protocols.rustlog.errors import Failure, RefusalError

_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1
_RECORDS_EXTRACTED = 0  # what the native reader leaves in place of the records

_Pairs = list[tuple[str, Any]]


class _Fields:
    """The fields of one object, checked for the type that a request needs."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, _Object):
            raise _NotARequestError
        self._pairs = value.pairs

    def get(self, name: str) -> object:
        """Return the value of that name, None without it; a name that occurs twice is an error."""
        found = [value for key, value in self._pairs if key == name]
        if len(found) > 1:
            raise _NotARequestError
        return found[0] if found else None

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise _NotARequestError
        value.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
        return value

    def number(self, name: str, value_max: int) -> int:
        value = self.get(name)
        if type(value) is not int or not 0 <= value <= value_max:
            raise _NotARequestError
        return value

    def partition(self) -> int:
        return self.number("partition", _UINT32_MAX)

    def offset(self) -> int:
        return self.number("offset", _UINT64_MAX)


class _Object:
    """A JSON object that keeps duplicate fields, in order."""

    def __init__(self, pairs: _Pairs) -> None:
        self.pairs = pairs


class _NotARequestError(ValueError):
    """The JSON is not a request."""


def _no_constant(name: str) -> NoReturn:
    raise _NotARequestError(name)  # NaN and Infinity, which are not JSON


def _whole(digits: str) -> int | float:
    # serde parses -0 as a float, which is not a valid offset.
    return -0.0 if digits == "-0" else int(digits)


_decoder = json.JSONDecoder(
    object_pairs_hook=_Object, parse_constant=_no_constant, parse_int=_whole
)


# ---- requests ------------------------------------------------------------------------------------


def _produce(fields: _Fields, records: JsonRecords) -> messages.Produce:
    if fields.get("records") != _RECORDS_EXTRACTED or not records.has_records:
        raise _NotARequestError
    topic, partition = fields.text("topic"), fields.partition()
    if records.count > RUSTLOG_JSON_RECORDS_MAX:
        text = f"a request has at most {RUSTLOG_JSON_RECORDS_MAX} records"
        raise RefusalError(Failure.WRITE, reason=text)
    return messages.Produce(topic, partition, messages.Run(records.run, 0, records.count))


def _fetch(fields: _Fields, _: JsonRecords) -> messages.Fetch:
    group = None if fields.get("group_id") is None else fields.text("group_id")
    bytes_max = fields.number("max_bytes", _UINT64_MAX)
    return messages.Fetch(
        group, fields.text("topic"), fields.partition(), fields.offset(), bytes_max
    )


def _offset_commit(fields: _Fields, _: JsonRecords) -> messages.OffsetCommit:
    group, topic = fields.text("group_id"), fields.text("topic")
    return messages.OffsetCommit(group, topic, fields.partition(), fields.offset())


def _offset_fetch(fields: _Fields, _: JsonRecords) -> messages.OffsetFetch:
    return messages.OffsetFetch(fields.text("group_id"), fields.text("topic"), fields.partition())


_REQUESTS: dict[str, Callable[[_Fields, JsonRecords], messages.Request]] = {
    "Produce": _produce,
    "Fetch": _fetch,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
}


class Json:
    """The JSON encoding of requests and responses."""

    is_json = True

    async def parse(self, body: bytes) -> messages.Request:
        """Parse a request, in steps; raise RefusalError if it is invalid."""
        try:
            records = JsonRecords(body, RUSTLOG_ENVELOPE_BYTES_MAX)
            while not records.step(RUSTLOG_BYTES_PER_STEP):
                await next_step()
            return _read(records)
        except (CodecError, ValueError, RecursionError):
            raise RefusalError(Failure.BAD_REQUEST, what="not a JSON request") from None

    async def write(self, response: messages.Response) -> bytes:
        """Encode a response without white space, as serde does."""
        match response:
            case messages.Produced(base_offset, count):
                return b'{"Produce":{"offsets":' + ascending(base_offset, count) + b"}}"
            case messages.Fetched(body):
                return body
            case messages.Committed():
                return b'{"OffsetCommit":{"success":true}}'
            case messages.GroupOffset(offset):
                return _dump({"OffsetFetch": {"offset": offset}})
        raise AssertionError(response)

    def refuse(self, refusal: RefusalError) -> bytes:
        """Encode an error; a refused commit has a response of its own."""
        if refusal.failure is Failure.COMMIT:
            return b'{"OffsetCommit":{"success":false}}'
        return _dump({"Error": {"message": refusal.json}})


def _read(records: JsonRecords) -> messages.Request:
    value = _decoder.decode(records.envelope.decode())
    if not isinstance(value, _Object) or len(value.pairs) != 1:
        raise _NotARequestError
    [(name, fields)] = value.pairs
    read = _REQUESTS.get(name)
    if read is None:
        raise _NotARequestError
    return read(_Fields(fields), records)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
