"""Decoding and encoding of message bodies, in steps for long ones."""

from collections.abc import Iterator
from typing import Any

from broker.codec import schema
from broker.core.scheduling.steps import next_step
from broker.model.limits import (
    MESSAGE_WEIGHT_PER_STEP,
    OBJECTS_FREED_PER_STEP,
    REQUEST_WEIGHT_MAX,
)
from broker.protocols.kafka.api import Body


async def decoded(api_key: int, version: int, body: bytes) -> dict[str, Any]:
    """Decode a request; CodecError if it is invalid."""
    decoding = schema.request(api_key).decoding(version, body, REQUEST_WEIGHT_MAX)
    while (fields := decoding.step(MESSAGE_WEIGHT_PER_STEP)) is None:
        await next_step()
    return fields


async def encoded(
    api_key: int, version: int, fields: Body, errors: dict[int, int] | None = None
) -> bytes:
    """Encode a response, emptying its lists; ValueError if a field does not fit the schema.

    Its error codes are counted in `errors`.
    """
    encoding = schema.response(api_key).encoding(version, fields, errors)
    while (body := encoding.step(MESSAGE_WEIGHT_PER_STEP)) is None:
        await next_step()
    return body


async def freed(fields: Body) -> None:
    """Free a request that is not needed any more, in steps.

    Dropping the last reference to a request of 50,000 objects would free all of them in one step.
    """
    for place, _ in enumerate(_freed(fields), 1):
        if place % OBJECTS_FREED_PER_STEP == 0:
            await next_step()


def _freed(fields: Body) -> Iterator[None]:
    """Remove one object per step."""
    for values in fields.values():
        if type(values) is list:
            while values:
                each = values.pop()
                if type(each) is dict:
                    yield from _freed(each)
                yield
