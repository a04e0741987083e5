"""The interface of the two forms of the protocol, binary and JSON, which share their handlers."""

from typing import Protocol

from broker.protocols.rustlog.errors import RefusalError
from broker.protocols.rustlog.messages import Request, Response


class Form(Protocol):
    """An encoding of requests and responses.

    A few requests mean different things in the two forms; their handlers look at `is_json`.
    """

    @property
    def is_json(self) -> bool:
        """Return whether this is the JSON form."""

    async def parse(self, body: bytes) -> Request:
        """Parse a request; raise RefusalError if it is invalid."""

    async def write(self, response: Response) -> bytes:
        """Encode a response, a long one in steps."""

    def refuse(self, refusal: RefusalError) -> bytes:
        """Encode an error."""
