"""What one Kafka API is: a key, a name, versions, and one function."""

from asyncio import Future, gather
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from broker.core.admission import Share
from broker.core.session import Session
from broker.core.steps import in_parts, next_step
from broker.model.errors import RequestError
from broker.model.limits import (
    ERROR_TEXT_CHARS_MAX,
    GROUPS_ASKED_PER_TURN,
    NAMES_READ_PER_STEP,
)
from broker.protocols.base import Deferred, SilentAnswer
from broker.protocols.kafka import errors

# A decoded message: Kafka's field names in snake_case, as the schema tables have them. What the
# values are is the tables' fact, not Python's. A response may hold fields that its version lacks.
Fields: TypeAlias = dict[str, Any]


_T = TypeVar("_T")
_R = TypeVar("_R")


class Request(NamedTuple):
    """A decoded request."""

    version: int
    client_id: str | None
    body: Fields
    share: Share  # of the memory of requests that are under way


# Bytes: encoded already; SilentAnswer: the request has no response (Produce with acks=0).
Response: TypeAlias = Fields | bytes | SilentAnswer
# The response that a result of core will become.
Later: TypeAlias = Deferred[Any, Fields]
Handler: TypeAlias = Callable[[Request, Session], Response | Later | Awaitable[Response]]


def then(future: Future[_T], fields: Callable[[_T], Fields]) -> Fields | Later:
    """The response that a result becomes: at once where core has already answered."""
    if future.done():
        return fields(future.result())
    return Deferred(future, lambda done: fields(done.result()))


async def once(items: Iterable[_T]) -> list[_T]:
    """Each of what a request names once, in its order; as many as fit a frame, so in steps."""
    found: dict[_T, None] = {}
    async for part in in_parts(items, NAMES_READ_PER_STEP):
        found.update(dict.fromkeys(part))
    return list(found)


async def ask_in_turns(
    ask: Callable[[_T], Awaitable[_R]],
    wanted: Iterable[_T],
    per_turn: int = GROUPS_ASKED_PER_TURN,
) -> list[_R]:
    """Ask for each, a few in one turn of the loop: what those change goes to the disk together."""
    answers: list[_R] = []
    rest = iter(wanted)
    while part := list(islice(rest, per_turn)):
        answers += await gather(*map(ask, part))
        await next_step()
    return answers


def refuse(error: RequestError) -> Fields:
    """The response of an API whose error stands at the top level, without a text."""
    return {"error_code": errors.number(error.code)}


def refuse_with_message(error: RequestError) -> Fields:
    """The response of an API that has room for a text."""
    return {"error_code": errors.number(error.code), "error_message": message(error)}


def message(error: RequestError) -> str | None:
    """What was said about an error, else what is always said."""
    return error.message[:ERROR_TEXT_CHARS_MAX] or errors.message(error.code)


class Api(NamedTuple):
    """One row of the API table."""

    key: int
    name: str
    versions: range  # advertised; exclusive at the end, like every range of Python
    handle: Handler
    # What a RequestError that escapes the handler is answered with.
    refuse: Callable[[RequestError], Fields] = refuse
    # Whether what it keeps while it is under way has limits of its own.
    has_own_limits: bool = False
