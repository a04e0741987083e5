"""What a page is."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from broker.core.access import Need
from broker.core.session import Session
from broker.model.long_page import LongPage
from broker.protocols.http.request import Request

OK: Final = "200 OK"
UNAVAILABLE: Final = "503 Service Unavailable"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


class Content(NamedTuple):
    """What a page shows.

    Attributes:
        body: its bytes; for a long one the parts of it, which are there already, or are made in a
            step of at most 2 ms each (core/scheduling/steps.py).
        kind: its media type.
        status: the number and the text of the status line.
    """

    body: bytes | LongPage | AsyncIterator[bytes]
    kind: str = JSON
    status: str = OK


# Returns what a page shows, now or later. A later one counts as a request that runs until it is
# done; it is cancelled when the connection closes.
Show: TypeAlias = Callable[[Request, Session], Content | Awaitable[Content]]


class Page(NamedTuple):
    """A page and who may read it.

    Attributes:
        show: returns its content.
        need: what a client must be allowed, of the cluster; None: the page is open to everyone.
        before_login: what is shown of it to who has not logged in, where a login is asked for;
            None: nothing.
    """

    show: Show
    need: Need | None = None
    before_login: Show | None = None
