"""The pages that a broker serves over HTTP on the port of its clients: health and metrics."""

from http.client import HTTPConnection, HTTPException
from typing import Final, NamedTuple

from broker.model.address import Address
from broker.model.errors import Unreachable

_TIMEOUT_SECONDS: Final = 10
PAGE_BYTES_MAX: Final = 8 << 20


class Answer(NamedTuple):
    """The status of a page, and its text, which is cut after PAGE_BYTES_MAX."""

    status: int
    text: bytes


def page(address: Address, path: str) -> Answer:
    """Return a page of the broker at an address.

    Raises:
        Unreachable: nothing answers there in HTTP; a listener with TLS does not.
    """
    connection = HTTPConnection(address.host, address.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(PAGE_BYTES_MAX))
    except (OSError, HTTPException) as error:
        raise Unreachable(f"{address}{path}: {str(error) or type(error).__name__}") from None
    finally:
        connection.close()
