"""What one Kafka API is: a key, a name, versions, and one function."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from broker.core.session import Session
from broker.model.errors import RequestError
from broker.protocols.kafka import errors

# A decoded message: Kafka's field names in snake_case, as the schema tables have them. What the
# values are is the tables' fact, not Python's. A response may hold fields that its version lacks.
Fields: TypeAlias = dict[str, Any]


class Request(NamedTuple):
    """A decoded request."""

    version: int
    client_id: str | None
    body: Fields


# None: the request has no response (Produce with acks=0).
Response: TypeAlias = Fields | None
Handler: TypeAlias = Callable[[Request, Session], Response | Awaitable[Response]]


def refuse(_request: Request, error: RequestError) -> Fields:
    """The response of an API whose error stands at the top level."""
    return {
        "error_code": errors.number(error.code),
        "error_message": error.message or errors.message(error.code),
    }


class Api(NamedTuple):
    """One row of the API table."""

    key: int
    name: str
    versions: range  # advertised; exclusive at the end, like every range of Python
    handle: Handler
    # What a RequestError that escapes the handler is answered with.
    refuse: Callable[[Request, RequestError], Fields] = refuse
