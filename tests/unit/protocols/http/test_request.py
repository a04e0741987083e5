"""The head of a request."""

import pytest

from broker.protocols.http.request import Request, parse_head


@pytest.mark.parametrize(
    ("head", "request_"),
    [
        (b"GET / HTTP/1.1", Request("GET", "/")),
        (b"GET /a?b=c&d HTTP/1.0\r\nHost: x", Request("GET", "/a", "b=c&d")),
        (
            b"HEAD /a HTTP/1.1\r\nHost: x\r\nAccept: Text/Plain\r\naccept:application/json",
            Request("HEAD", "/a", "", "text/plain, application/json"),
        ),
        (b"GET /", None),
        (b"GET / FTP/1.1", None),
        (b"", None),
    ],
)
def test_a_head_is_parsed(head: bytes, request_: Request | None) -> None:
    assert parse_head(head) == request_


def test_the_query_is_decoded_when_it_is_asked_for() -> None:
    assert Request("GET", "/", "a=%20b&a=c&d").query == {"a": "c", "d": ""}
    assert Request("GET", "/").query == {}
