"""The pages that a broker serves over HTTP on the port of its clients: health and metrics."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.model.address import Address
from broker.model.errors import AccessDenied, PeerError, TimedOut, Unreachable

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

    from broker.client.metadata import Cluster

_TIMEOUT_SECONDS: Final = 10.0
PAGE_BYTES_MAX: Final = 8 << 20


class Answer(NamedTuple):
    """The status of a page, and its text, which is cut after PAGE_BYTES_MAX."""

    status: int
    text: bytes


def page_of(cluster: "Cluster", address: Address, path: str) -> Answer:
    """Return a page of a broker of a cluster, as it is reached; Unreachable as `page`."""
    return page(address, path, cluster.tls, cluster.give_up_seconds, cluster.password)


def answered(cluster: "Cluster", address: Address, path: str) -> bytes:
    """Return the text of a page of a broker of a cluster.

    Raises:
        Unreachable: as `page`.
        AccessDenied: it is for users with a permission that this one has not.
        PeerError: the broker has no such page.
    """
    answer = page_of(cluster, address, path)
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise AccessDenied(
            f"{address}{path}: refused: who asks must be allowed it, see `broker acl`; pages take"
            " no login but PLAIN, so ask with that, or over a listener with a principal"
            " (polylog.principal)"
        )
    if answer.status != HTTPStatus.OK:
        raise PeerError(f"{address}{path}: the broker has no such page (status {answer.status})")
    return answer.text


def page(
    address: Address,
    path: str,
    tls: "SSLContext | None" = None,
    timeout_seconds: float = _TIMEOUT_SECONDS,
    password: tuple[str, str] | None = None,
) -> Answer:
    """Return a page of the broker at an address.

    Args:
        address: where it listens.
        path: of the page.
        tls: of the listener; None: it has no TLS.
        timeout_seconds: of the connection, and of each piece of the answer.
        password: a name and its password; None: nobody logs in.

    Raises:
        Unreachable: nothing answers there in HTTP; TimedOut: in time.
    """
    from http.client import HTTPException  # noqa: PLC0415 - not for `--help`: 15 ms

    fields = {} if password is None else {"Authorization": _basic(*password)}
    connection = _connection(address, tls, timeout_seconds)
    try:
        connection.request("GET", path, headers=fields)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(PAGE_BYTES_MAX))
    except (OSError, HTTPException) as error:
        kind = TimedOut if isinstance(error, TimeoutError) else Unreachable
        raise kind(f"{address}{path}: {str(error) or type(error).__name__}") from None
    finally:
        connection.close()


def _basic(name: str, password: str) -> str:
    from base64 import b64encode  # noqa: PLC0415 - few clients have a password

    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


def _connection(
    address: Address, tls: "SSLContext | None", timeout_seconds: float
) -> "HTTPConnection":
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 - as above

    if tls is None:
        return HTTPConnection(address.host, address.port, timeout=timeout_seconds)
    return HTTPSConnection(address.host, address.port, timeout=timeout_seconds, context=tls)
