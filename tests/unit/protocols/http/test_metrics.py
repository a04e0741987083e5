"""Who may read the pages of metrics, and in which format."""

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.model.long_page import LongPage
from broker.protocols.base import Answer
from broker.protocols.http.dispatch import PROTOCOL
from tests.support.fakes import FakeBroker

PATHS = ("/metrics", "/metrics/all")


class FakePages:
    """Pages that say what was asked for."""

    async def page(self, *, is_all: bool, is_open: bool) -> LongPage:
        return LongPage((f"all={is_all} ".encode(), f"open={is_open}".encode()))


def ask(path: str, *, accept: str = "*/*", allows: bool | None = None) -> bytes:
    broker = FakeBroker()
    broker.broker.metrics.pages = cast("Any", FakePages())
    authorizer = None if allows is None else SimpleNamespace(allows=lambda *_: allows)
    security = broker.broker.security._replace(authorizer=cast("Any", authorizer))
    broker.session.broker = broker.broker._replace(security=security)

    async def answer() -> bytes:
        head = f"GET {path} HTTP/1.1\r\nAccept: {accept}"
        reply = PROTOCOL().handle(0, 0, None, head.encode(), broker.session)
        found = await reply if isinstance(reply, Awaitable) else reply
        assert isinstance(found, Answer)
        assert found.body is not None
        return found.body

    return asyncio.run(answer())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("allows", "status"), [(None, 200), (True, 200), (False, 403)])
def test_a_page_needs_describe_of_the_cluster(path: str, allows: bool | None, status: int) -> None:
    found = ask(path, allows=allows)

    assert int(found.split()[1]) == status
    assert (b"all=" in found) == (status == 200)


@pytest.mark.parametrize("path", PATHS)
def test_the_format_is_what_a_client_accepts(path: str) -> None:
    is_all = path == "/metrics/all"
    text = ask(path)
    assert text.endswith(f"\r\n\r\nall={is_all} open=False".encode())
    length = len(text.partition(b"\r\n\r\n")[2])
    assert f"Content-Length: {length}\r\n".encode() in text
    assert b"Content-Type: text/plain; version=0.0.4" in text
    open_metrics = ask(path, accept="application/openmetrics-text;version=1.0.0")
    assert f"all={is_all} open=True".encode() in open_metrics
    assert b"Content-Type: application/openmetrics-text; version=1.0.0" in open_metrics
