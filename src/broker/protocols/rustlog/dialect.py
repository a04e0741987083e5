"""What a dialect does for the handlers, which are the same for both."""

from typing import Protocol

from broker.protocols.rustlog.errors import RefusalError
from broker.protocols.rustlog.requests import Request, Response


class Dialect(Protocol):
    """Reads requests and writes answers; where the two differ in meaning, handlers ask which."""

    @property
    def is_json(self) -> bool:
        """Whether it is the JSON one."""

    async def parse(self, body: bytes) -> Request:
        """Read a request; RefusalError says why not."""

    async def write(self, response: Response) -> bytes:
        """Write an answer, a long one in steps."""

    def refuse(self, refusal: RefusalError) -> bytes:
        """Write an error."""
