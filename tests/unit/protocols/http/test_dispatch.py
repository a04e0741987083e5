"""From a request to its page: who may read it, and content that is made in steps or later."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from broker.core.access import on_cluster
from broker.core.scheduling.steps import next_step
from broker.core.security.acls import Operation
from broker.core.security.login import Login, LoginRules
from broker.core.session import Session
from broker.model.principal import Principal
from broker.protocols.base import Answer
from broker.protocols.http import PROTOCOL, dispatch
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
