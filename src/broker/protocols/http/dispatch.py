"""From a request to its page, and to the bytes of the response."""

from collections.abc import AsyncIterator, Awaitable
from typing import Final

from broker._native.protocols.http import protocol as native
from broker.core.access import begin, check_needs
from broker.core.session import Session
from broker.model.config import Config
from broker.model.errors import RequestError
from broker.protocols.base import Answer, Reply, WireProtocol
from broker.protocols.http import credentials
from broker.protocols.http.page import TEXT, Content, Page
from broker.protocols.http.request import Request, parse_head
from broker.protocols.http.table import PAGES

_METHODS: Final = ("GET", "HEAD")
_BAD_REQUEST: Final = Content(b"bad request\n", TEXT, "400 Bad Request")
_UNAUTHORIZED: Final = Content(b"log in\n", TEXT, "401 Unauthorized")
_CHALLENGE: Final = 'WWW-Authenticate: Basic realm="polylog", charset="UTF-8"'
_FORBIDDEN: Final = Content(b"forbidden\n", TEXT, "403 Forbidden")
_NOT_FOUND: Final = Content(b"not found\n", TEXT, "404 Not Found")
_NOT_ALLOWED: Final = Content(b"GET or HEAD\n", TEXT, "405 Method Not Allowed")


class Http(WireProtocol):
    """The protocol."""

    __slots__ = ()
    name = "http"

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
        return _later(content, has_body=has_body)


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


async def _later(content: Content | Awaitable[Content], *, has_body: bool) -> Answer:
    if not isinstance(content, Content):
        content = await content
    if isinstance(content.body, AsyncIterator):
        content = content._replace(body=tuple([part async for part in content.body]))
    return _answer(content, has_body=has_body)


def _answer(content: Content, *headers: str, has_body: bool = True) -> Answer:
    if content is _UNAUTHORIZED:
        headers = (*headers, _CHALLENGE)
    assert not isinstance(content.body, AsyncIterator)
    parts = (content.body,) if isinstance(content.body, bytes) else content.body
    lines = [
        f"HTTP/1.1 {content.status}",
        f"Content-Type: {content.kind}",
        f"Content-Length: {sum(map(len, parts))}",
        "Cache-Control: no-store",
        "Connection: close",
        *headers,
    ]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return Answer(b"".join((head, *parts)) if has_body else head, is_last=True)
