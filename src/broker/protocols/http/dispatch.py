"""From a request to its page, and to the bytes of the response.

Long pages are sent in parts (_native/protocols/http/page_stream.pyx). All that are being sent have
a limit; who asks for one more is told to come back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Final
from weakref import WeakSet

from broker._native.protocols.http import protocol as native
from broker._native.protocols.http.page_stream import PageStream
from broker.core.access import begin, check_needs
from broker.core.session import Session
from broker.model.config import Config
from broker.model.errors import RequestError
from broker.model.http_limits import (
    HTTP_JOINED_BYTES_MAX,
    HTTP_PAGES_BYTES_MAX,
    HTTP_RETRY_AFTER_SECONDS,
)
from broker.model.long_page import LongPage
from broker.protocols.base import Answer, Reply, WireProtocol
from broker.protocols.http import credentials
from broker.protocols.http.page import TEXT, UNAVAILABLE, Content, Page
from broker.protocols.http.request import Request, parse_head
from broker.protocols.http.table import PAGES

_METHODS: Final = ("GET", "HEAD")
_BAD_REQUEST: Final = Content(b"bad request\n", TEXT, "400 Bad Request")
_UNAUTHORIZED: Final = Content(b"log in\n", TEXT, "401 Unauthorized")
_CHALLENGE: Final = 'WWW-Authenticate: Basic realm="polylog", charset="UTF-8"'
_FORBIDDEN: Final = Content(b"forbidden\n", TEXT, "403 Forbidden")
_NOT_FOUND: Final = Content(b"not found\n", TEXT, "404 Not Found")
_NOT_ALLOWED: Final = Content(b"GET or HEAD\n", TEXT, "405 Method Not Allowed")
_BUSY: Final = Content(b"too many long pages are being sent\n", TEXT, UNAVAILABLE)


class Http(WireProtocol):
    """The protocol."""

    __slots__ = ("_making", "_sent")
    name = "http"

    def __init__(self) -> None:
        """Begin without pages."""
        self._making = asyncio.Lock()
        self._sent: WeakSet[LongPage] = WeakSet()  # long pages; they are held by their readers

    def native_protocol(self, config: Config) -> native.Http:  # noqa: ARG002 (nothing of it is configured)
        """Make its native side, which serves connections before a login as it does afterwards."""
        http = native.Http(self)
        http.guard_with(native.Http(self))
        return http

    def handle(
        self,
        operation: int,  # noqa: ARG002 (HTTP has none)
        version: int,  # noqa: ARG002
        client_id: str | None,  # noqa: ARG002
        body: bytes,
        session: Session,
    ) -> Reply:
        """Serve one request; `body` is its head: the request line and the header fields."""
        request = parse_head(body)
        if request is None:
            return _answer(_BAD_REQUEST)
        if request.method not in _METHODS:
            return _answer(_NOT_ALLOWED, "Allow: GET, HEAD")
        has_body = request.method == "GET"
        content = _content(request, session)
        if isinstance(content, Content) and isinstance(content.body, bytes):
            return _answer(content, has_body=has_body)
        return self._later(content, has_body=has_body)

    async def _later(self, content: Content | Awaitable[Content], *, has_body: bool) -> Answer:
        if not isinstance(content, Content):
            content = await content
        if isinstance(content.body, AsyncIterator):
            async with self._making:  # those that wait have made nothing yet
                page = LongPage(tuple([part async for part in content.body]))
                content = content._replace(body=page)
                return self._answer(content, has_body=has_body)
        return self._answer(content, has_body=has_body)

    def _answer(self, content: Content, *, has_body: bool) -> Answer:
        page = content.body
        if has_body and isinstance(page, LongPage) and page.size > HTTP_JOINED_BYTES_MAX:
            sent_bytes = sum(each.size for each in self._sent if each is not page)
            if sent_bytes and sent_bytes + page.size > HTTP_PAGES_BYTES_MAX:
                return _answer(_BUSY, f"Retry-After: {HTTP_RETRY_AFTER_SECONDS}")
            self._sent.add(page)
        return _answer(content, has_body=has_body)


def _content(request: Request, session: Session) -> Content | Awaitable[Content]:
    page = PAGES.get(request.path)
    if page is None:
        return _NOT_FOUND
    if not credentials.is_asked(session):
        return _shown(page, request, session)
    given = credentials.credentials_of(request.authorization)
    if given is not None and credentials.is_offered(session):
        return _after_login(page, request, session, given)
    if page.before_login is not None:
        return page.before_login(request, session)
    return _UNAUTHORIZED if credentials.is_offered(session) else _FORBIDDEN


async def _after_login(
    page: Page, request: Request, session: Session, given: tuple[str, str]
) -> Content:
    if not await credentials.log_in(session, given):
        return _UNAUTHORIZED
    content = _shown(page, request, session)
    return content if isinstance(content, Content) else await content


def _shown(page: Page, request: Request, session: Session) -> Content | Awaitable[Content]:
    if page.need is not None:
        begin(session, "http", request.path)
        try:
            check_needs(session, (page.need,), request)
        except RequestError:
            return _FORBIDDEN
    return page.show(request, session)


def _answer(content: Content, *headers: str, has_body: bool = True) -> Answer:
    if content is _UNAUTHORIZED:
        headers = (*headers, _CHALLENGE)
    body = content.body
    assert not isinstance(body, AsyncIterator)
    size = body.size if isinstance(body, LongPage) else len(body)
    lines = [
        f"HTTP/1.1 {content.status}",
        f"Content-Type: {content.kind}",
        f"Content-Length: {size}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",  # names of clients are in pages, and may look like HTML
        "Connection: close",
        *headers,
    ]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    if not has_body:
        return Answer(head, is_last=True)
    if not isinstance(body, LongPage):
        return Answer(head + body, is_last=True)
    if size <= HTTP_JOINED_BYTES_MAX:
        return Answer(b"".join((head, *body.parts)), is_last=True)
    return Answer(None, is_last=True, stream=PageStream(head, body))


PROTOCOL = Http
