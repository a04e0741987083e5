"""Health checks: GET /live, /ready, /health and / on the port of all other protocols.

The connection is closed after one response. A broker is live when it responds, and ready once all
its logs are loaded.
"""

from typing import Final

from broker._native.protocols.http import protocol as native
from broker.core.broker import Broker
from broker.core.session import Session
from broker.model.config import Config
from broker.protocols.base import Answer, WireProtocol

_OK: Final = "200 OK"
_UNAVAILABLE: Final = "503 Service Unavailable"
_METHODS: Final = ("GET", "HEAD")
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_REQUEST_LINE_PARTS: Final = 3


class Http(WireProtocol):
    """The protocol."""

    __slots__ = ()
    name = "http"

    def native_protocol(self, config: Config) -> native.Http:  # noqa: ARG002 (nothing of it is configured)
        """Make its native side."""
        return native.Http(self)

    def handle(
        self,
        operation: int,  # noqa: ARG002 (HTTP has none)
        version: int,  # noqa: ARG002
        client_id: str | None,  # noqa: ARG002
        body: bytes,
        session: Session,
    ) -> Answer:
        """Serve one request; `body` is its head: the request line and the header fields."""
        parts = body.split(b"\r\n", 1)[0].decode("latin-1").split()
        if len(parts) != _REQUEST_LINE_PARTS or not parts[2].startswith("HTTP/1."):
            return _response("400 Bad Request", _TEXT, "bad request\n", has_body=True)
        method, target, _ = parts
        if method not in _METHODS:
            return _response(
                "405 Method Not Allowed", _TEXT, "GET or HEAD\n", "Allow: GET, HEAD", has_body=True
            )
        status, kind, text = _page(target.partition("?")[0], session.broker)
        return _response(status, kind, text, has_body=method == "GET")


def _page(path: str, broker: Broker) -> tuple[str, str, str]:
    match path:
        case "/" | "/health":
            return _OK, _TEXT, "OK"
        case "/live":
            return _OK, _JSON, '{"status":"live"}'
        case "/ready":
            if broker.topics.is_loading:
                return _UNAVAILABLE, _JSON, '{"status":"not_ready","reason":"logs are loading"}'
            return _OK, _JSON, '{"status":"ready"}'
    return "404 Not Found", _TEXT, "not found\n"


def _response(status: str, kind: str, text: str, *headers: str, has_body: bool) -> Answer:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "Connection: close",
        *headers,
    ]
    return Answer("\r\n".join([*lines, "", text if has_body else ""]).encode(), is_last=True)


PROTOCOL = Http
