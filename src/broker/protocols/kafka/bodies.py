"""Bodies of requests and responses: into objects and back, in steps for those that are long."""

from collections.abc import Iterator

from broker.codec import schema
from broker.core.steps import next_step
from broker.model.limits import (
    MESSAGE_WEIGHT_PER_STEP,
    OBJECTS_FREED_PER_STEP,
    REQUEST_WEIGHT_MAX,
)
from broker.protocols.kafka.api import Fields


async def decoded(api_key: int, version: int, body: bytes) -> Fields:
    """The fields of a request; CodecError if it is none."""
    decoding = schema.request(api_key).decoding(version, body, REQUEST_WEIGHT_MAX)
    while (fields := decoding.step(MESSAGE_WEIGHT_PER_STEP)) is None:
        await next_step()
    return fields


async def encoded(api_key: int, version: int, fields: Fields) -> bytes:
    """The bytes of a response, whose lists are taken apart; ValueError if it is none."""
    encoding = schema.response(api_key).encoding(version, fields)
    while (body := encoding.step(MESSAGE_WEIGHT_PER_STEP)) is None:
        await next_step()
    return body


async def freed(fields: Fields) -> None:
    """Take the lists of a request apart, which nobody needs any more.

    The last reference to a request of 50,000 objects would free all of them in one step.
    """
    for place, _ in enumerate(_freed(fields), 1):
        if place % OBJECTS_FREED_PER_STEP == 0:
            await next_step()


def _freed(fields: Fields) -> Iterator[None]:
    """An object less at each step."""
    for values in fields.values():
        if type(values) is list:
            while values:
                each = values.pop()
                if type(each) is dict:
                    yield from _freed(each)
                yield
