"""The definition of a Kafka API: key, name, versions and handler; helpers for handlers."""

from asyncio import Future, gather
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar

from broker.core.scheduling.admission import Share
from broker.core.scheduling.steps import in_parts, next_step
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.model.limits import (
    ERROR_TEXT_CHARS_MAX,
    GROUPS_ASKED_PER_TURN,
    NAMES_READ_PER_STEP,
)
from broker.protocols.base import Answer, Deferred
from broker.protocols.kafka import errors
from broker.protocols.kafka.operations import Need

# A message that is decoded or to be encoded, in code for all APIs. A handler has the class of its
# messages in broker.codec.bodies. A response may have fields that its version does not; they are
# not encoded.
Body: TypeAlias = Mapping[str, object]


_T = TypeVar("_T")
_R = TypeVar("_R")
_BodyT = TypeVar("_BodyT", bound=Body)
_BodyT_co = TypeVar("_BodyT_co", bound=Body, covariant=True)


class Request(NamedTuple, Generic[_BodyT_co]):
    """A decoded request."""

    version: int
    client_id: str | None
    body: _BodyT_co
    share: Share  # of the memory budget of requests in progress


# Bytes: already encoded; Answer: the request has no response (Produce with acks=0).
Response: TypeAlias = _BodyT | bytes | Answer
# A response that is made from a result of core when that is there.
DeferredResponse: TypeAlias = Deferred[Any, _BodyT]
# The response is known now, or when a future of core is done.
DeferrableResponse: TypeAlias = _BodyT | DeferredResponse[_BodyT]
# In code for all APIs the body is not known.
KnownResponse: TypeAlias = Response[Body] | DeferredResponse[Body]
Handler: TypeAlias = Callable[[Request[Any], Session], KnownResponse | Awaitable[KnownResponse]]


class Refusal(TypedDict):
    """The response of an API with a top-level error code and no message."""

    error_code: int


class RefusalWithMessage(Refusal):
    """The response of an API with a top-level error code and message."""

    error_message: str | None


def respond_with(future: Future[_T], fields: Callable[[_T], _BodyT]) -> DeferrableResponse[_BodyT]:
    """Return the response made from a future's result: now if it is done, else deferred."""
    if future.done():
        return fields(future.result())
    return Deferred(future, lambda done: fields(done.result()))


async def unique(items: Iterable[_T]) -> list[_T]:
    """Return items without duplicates, in order; in steps, as a frame may have a million."""
    found: dict[_T, None] = {}
    async for part in in_parts(items, NAMES_READ_PER_STEP):
        found.update(dict.fromkeys(part))
    return list(found)


async def call_in_turns(
    call: Callable[[_T], Awaitable[_R]],
    wanted: Iterable[_T],
    per_turn: int = GROUPS_ASKED_PER_TURN,
) -> list[_R]:
    """Call with each item, a few in one turn of the loop, so that these share a disk sync."""
    answers: list[_R] = []
    rest = iter(wanted)
    while part := list(islice(rest, per_turn)):
        answers += await gather(*map(call, part))
        await next_step()
    return answers


def refuse(error: RequestError) -> Refusal:
    """Return the response of an API with a top-level error code and no message."""
    return {"error_code": errors.number(error.code)}


def refuse_with_message(error: RequestError) -> RefusalWithMessage:
    """Return the response of an API with a top-level error code and message."""
    return {"error_code": errors.number(error.code), "error_message": message(error)}


def outcome(refusal: RequestError | None) -> RefusalWithMessage:
    """Return the error code and message of one of a request's parts."""
    return refuse_with_message(refusal) if refusal else {"error_code": 0, "error_message": None}


def message(error: RequestError) -> str | None:
    """Return the message of an error, or else the default text of its code."""
    return error.message[:ERROR_TEXT_CHARS_MAX] or errors.message(error.code)


class Api(NamedTuple):
    """One row of the API table."""

    key: int
    name: str
    versions: range  # as advertised; the end is exclusive
    handle: Handler
    needs: tuple[Need, ...]  # what a client must be allowed (docs/security/acls.md)
    # Makes the response to a RequestError that the handler raises.
    refuse: Callable[[RequestError], Body] = refuse
    # Whether the memory it keeps while a request is in progress has its own limits.
    has_own_limits: bool = False
