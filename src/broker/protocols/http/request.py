"""The head of a request: its first line and the header fields that pages read."""

from collections.abc import Mapping
from typing import Final, NamedTuple

_REQUEST_LINE_PARTS: Final = 3


class Request(NamedTuple):
    """A request without a body.

    Attributes:
        method: in capitals.
        path: as it was sent, without the query.
        query_text: what follows the question mark, still encoded.
        accept: the field Accept in lower case, empty without one.
        authorization: the field Authorization, which may have a password.
    """

    method: str
    path: str
    query_text: str = ""
    accept: str = ""
    authorization: str = ""

    def __repr__(self) -> str:
        """Return what may be logged of it."""
        return f"<Request {self.method} {self.path}>"

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters; of one that is named twice the last."""
        if not self.query_text:
            return {}
        from urllib.parse import parse_qsl  # noqa: PLC0415 - few requests have a query

        return dict(parse_qsl(self.query_text, keep_blank_values=True))


def parse_head(head: bytes) -> Request | None:
    """Parse the first line and the header fields; None if the first line is not of HTTP/1."""
    first, _, fields = head.partition(b"\r\n")
    parts = first.decode("latin-1").split()
    if len(parts) != _REQUEST_LINE_PARTS or not parts[2].startswith("HTTP/1."):
        return None
    path, _, query = parts[1].partition("?")
    accept, authorization = _field(fields, b"accept").lower(), _field(fields, b"authorization")
    return Request(parts[0], path, query, accept, authorization)


def _field(fields: bytes, wanted: bytes) -> str:
    """Return the values of a header field, in one list."""
    found = []
    for line in fields.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == wanted:
            found.append(value.strip().decode("latin-1"))
    return ", ".join(found)
