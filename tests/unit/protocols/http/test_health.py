"""The health checks: each page, its status and its bytes."""

import pytest

from broker.protocols.base import Answer
from broker.protocols.http import PROTOCOL
from tests.support.fakes import FakeBroker


def ask(broker: FakeBroker, head: str) -> str:
    answer = PROTOCOL().handle(0, 0, None, head.encode(), broker.session)
    assert isinstance(answer, Answer)
    assert answer.is_last, "the connection is closed after it"
    assert answer.body is not None
    return answer.body.decode()


def page(status: str, kind: str, text: str, *more: str, shown: str | None = None) -> str:
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "Connection: close",
        *more,
    ]
    return "\r\n".join([*head, "", text if shown is None else shown])


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        ("GET / HTTP/1.1\r\nHost: x", page("200 OK", "text/plain; charset=utf-8", "OK")),
        ("GET /health HTTP/1.0", page("200 OK", "text/plain; charset=utf-8", "OK")),
        ("GET /live HTTP/1.1", page("200 OK", "application/json", '{"status":"live"}')),
        ("GET /live?x=y HTTP/1.1", page("200 OK", "application/json", '{"status":"live"}')),
        ("GET /ready HTTP/1.1", page("200 OK", "application/json", '{"status":"ready"}')),
        (
            "HEAD /ready HTTP/1.1",
            page("200 OK", "application/json", '{"status":"ready"}', shown=""),
        ),
        (
            "GET /other HTTP/1.1",
            page("404 Not Found", "text/plain; charset=utf-8", "not found\n"),
        ),
        (
            "POST / HTTP/1.1",
            page(
                "405 Method Not Allowed",
                "text/plain; charset=utf-8",
                "GET or HEAD\n",
                "Allow: GET, HEAD",
            ),
        ),
        ("GET /", page("400 Bad Request", "text/plain; charset=utf-8", "bad request\n")),
        ("GET / FTP/1", page("400 Bad Request", "text/plain; charset=utf-8", "bad request\n")),
    ],
)
def test_a_health_check_is_answered(head: str, answer: str) -> None:
    assert ask(FakeBroker(), head) == answer


def test_a_broker_whose_logs_are_loading_is_alive_and_not_ready() -> None:
    broker = FakeBroker()
    broker.create("t")
    broker.log("t").is_loading = True

    assert ask(broker, "GET /ready HTTP/1.1").startswith("HTTP/1.1 503 ")
    assert ask(broker, "GET /live HTTP/1.1").startswith("HTTP/1.1 200 ")
