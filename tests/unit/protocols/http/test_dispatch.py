"""From a request to its page: who may read it, and content that is made in steps or later."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from broker._native.protocols.http.page_stream import PageStream
from broker.core.access import on_cluster
from broker.core.scheduling.steps import next_step
from broker.core.security.acls import Operation
from broker.core.security.login import Login, LoginRules
from broker.core.session import Session
from broker.model.long_page import LongPage
from broker.model.principal import Principal
from broker.protocols.base import Answer
from broker.protocols.http import dispatch
from broker.protocols.http.dispatch import PROTOCOL
from broker.protocols.http.page import TEXT, Content, Page
from broker.protocols.http.request import Request, parse_head
from tests.support.fakes import FakeBroker


async def ask(broker: FakeBroker, head: str) -> bytes:
    reply = PROTOCOL().handle(0, 0, None, head.encode(), broker.session)
    answer = await reply if isinstance(reply, Awaitable) else reply
    assert isinstance(answer, Answer)
    assert answer.body is not None
    return answer.body


async def parts() -> AsyncIterator[bytes]:
    yield b"a"
    await next_step()
    yield b"bc"


def test_a_page_may_be_made_in_parts_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_parts(_: Request, __: Session) -> Content:
        return Content(parts(), TEXT)

    async def later(request: Request, _: Session) -> Content:
        await asyncio.sleep(0)
        return Content(request.query["x"].encode(), TEXT)

    monkeypatch.setattr(dispatch, "PAGES", {"/parts": Page(in_parts), "/later": Page(later)})

    async def check() -> None:
        whole = await ask(FakeBroker(), "GET /parts HTTP/1.1")
        assert whole.endswith(b"\r\n\r\nabc")
        assert b"Content-Length: 3\r\n" in whole
        head = await ask(FakeBroker(), "HEAD /parts HTTP/1.1")
        assert head == whole.removesuffix(b"abc")
        assert (await ask(FakeBroker(), "GET /later?x=%79 HTTP/1.1")).endswith(b"\r\n\r\ny")

    asyncio.run(check())


def test_long_pages_in_flight_have_a_limit_and_readers_of_one_page_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "HTTP_JOINED_BYTES_MAX", 10)
    monkeypatch.setattr(dispatch, "HTTP_PAGES_BYTES_MAX", 100)
    pages = [LongPage((b"x" * 30, b"y" * 30)) for _ in range(3)]

    async def show(request: Request, _: Session) -> Content:
        return Content(pages[int(request.query_text)], TEXT)

    monkeypatch.setattr(dispatch, "PAGES", {"/long": Page(show)})
    http, broker = PROTOCOL(), FakeBroker()

    async def ask_for(number: int) -> Answer:
        head = f"GET /long?{number} HTTP/1.1".encode()
        reply = http.handle(0, 0, None, head, broker.session)
        assert isinstance(reply, Awaitable)
        answer = await reply
        assert isinstance(answer, Answer)
        assert answer.is_last
        return answer

    async def check() -> None:
        first = await ask_for(0)
        second = await ask_for(0)
        assert first.body is second.body is None
        assert isinstance(first.stream, PageStream)
        refused = await ask_for(1)
        assert refused.body is not None
        assert refused.body.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nRetry-After: 5\r\n" in refused.body
        assert isinstance((await ask_for(0)).stream, PageStream)
        del first, second
        pages[0] = pages[1]  # its readers have it
        assert isinstance((await ask_for(1)).stream, PageStream)

    asyncio.run(check())


def test_a_page_that_is_above_the_limit_alone_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "HTTP_JOINED_BYTES_MAX", 10)
    monkeypatch.setattr(dispatch, "HTTP_PAGES_BYTES_MAX", 10)
    monkeypatch.setattr(
        dispatch, "PAGES", {"/long": Page(lambda *_: Content(LongPage((b"x" * 30,)), TEXT))}
    )

    async def check() -> None:
        reply = PROTOCOL().handle(0, 0, None, b"GET /long HTTP/1.1", FakeBroker().session)
        assert isinstance(reply, Awaitable)
        answer = await reply
        assert isinstance(answer, Answer)
        assert isinstance(answer.stream, PageStream)

    asyncio.run(check())


class Deciding:
    """An authorizer that answers every question alike."""

    def __init__(self, *, allows: bool) -> None:
        self._allows = allows

    def allows(self, *_: object) -> bool:
        return self._allows


@pytest.mark.parametrize(
    ("authorizer", "status"),
    [(None, 200), (Deciding(allows=True), 200), (Deciding(allows=False), 403)],
)
def test_a_page_that_needs_something_is_shown_to_who_is_allowed(
    monkeypatch: pytest.MonkeyPatch, authorizer: Any, status: int
) -> None:
    def show(_: Request, __: Session) -> Content:
        return Content(b"{}")

    need = on_cluster(Operation.DESCRIBE)
    monkeypatch.setattr(dispatch, "PAGES", {"/needy": Page(show, need)})
    broker = FakeBroker()
    security = broker.broker.security._replace(authorizer=authorizer)
    broker.session.broker = broker.broker._replace(security=security)

    answer = asyncio.run(ask(broker, "GET /needy HTTP/1.1"))

    assert int(answer.split()[1]) == status


@pytest.mark.parametrize("field", ["", "\r\nAuthorization: Basic Ym9iOnNlY3JldA=="])
def test_a_listener_with_a_login_but_without_plain_asks_for_no_password(field: str) -> None:
    broker = FakeBroker()
    broker.session.login = Login(LoginRules({}))

    for path in ("/metrics", "/clients", "/health/cluster"):
        answer = asyncio.run(ask(broker, f"GET {path} HTTP/1.1{field}"))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"WWW-Authenticate" not in answer


def test_who_is_known_without_a_login_is_asked_for_none() -> None:
    broker = FakeBroker()
    broker.session.login = Login(LoginRules({}))
    broker.session.principal = Principal("User", "CN=probe")

    assert asyncio.run(ask(broker, "GET /clients HTTP/1.1")).startswith(b"HTTP/1.1 200 ")


def test_credentials_are_not_shown_of_a_request() -> None:
    request = parse_head(b"GET /a HTTP/1.1\r\nAuthorization: Basic Ym9iOnNlY3JldA==")

    assert request is not None
    assert request.authorization == "Basic Ym9iOnNlY3JldA=="
    assert repr(request) == "<Request GET /a>"
