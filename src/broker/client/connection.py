"""One connection to a broker, with one request at a time."""

import socket
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from broker import codec
from broker.codec import Fields
from broker.model.address import Address
from broker.model.errors import (
    AccessDenied,
    CodecError,
    ConfigError,
    PeerError,
    PolylogError,
    TimedOut,
    Unreachable,
)
from broker.model.limits import CLIENT_TIMEOUT_SECONDS, CODEC_FRAME_BYTES_MAX

if TYPE_CHECKING:
    from broker.client.sasl import Credentials
    from broker.client.secured import Secured

_SIZE_BYTES = 4
CLIENT_ID = "polylog"

RequestT = TypeVar("RequestT", bound=Mapping[str, Any])
ResponseT = TypeVar("ResponseT", bound=Mapping[str, Any])


class Api(NamedTuple, Generic[RequestT, ResponseT]):
    """An API, the versions that the caller supports, and the types of the bodies (codec/bodies).

    as_views: responses have memoryviews of the response in their fields of type bytes.
    """

    name: str
    versions: range
    as_views: bool = False


class Client:
    """One connection; as a context manager it closes itself.

    Attributes:
        address: of the broker.
    """

    def __init__(
        self,
        address: Address,
        client_id: str = CLIENT_ID,
        timeout_seconds: float | None = None,
        secured: "Secured | None" = None,
    ) -> None:
        """Connect.

        Args:
            address: of the broker.
            client_id: identifies this client in the broker's logs.
            timeout_seconds: of connecting and of each response; CLIENT_TIMEOUT_SECONDS if None.
            secured: TLS, and who logs in; None: neither.

        Raises:
            Unreachable: no connection can be made.
            AccessDenied: the broker refuses the login.
        """
        timeout_seconds = CLIENT_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, range] = {}
        self._secured = secured
        self._timeout_seconds = timeout_seconds
        self._socket, self._receive_flags = self._connect()
        if secured is not None and secured.credentials is not None:
            try:
                self._log_in(secured.credentials)
            except PolylogError:
                self.close()
                raise

    def _connect(self) -> tuple[socket.socket, int]:
        """Return a connection, over TLS if that is wanted, and the flags to receive with."""
        address, secured, flags = self.address, self._secured, int(socket.MSG_WAITALL)
        try:
            connection = socket.create_connection(
                (address.host, address.port), self._timeout_seconds
            )
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The kernel's timeouts instead of Python's: with the latter the socket would be
            # non-blocking, and MSG_WAITALL would return every piece that has arrived.
            connection.settimeout(None)
            for each in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                connection.setsockopt(socket.SOL_SOCKET, each, _timeval(self._timeout_seconds))
            if secured is not None and secured.tls is not None:
                # OpenSSL would ask a socket with the kernel's timeouts again and again.
                connection.settimeout(self._timeout_seconds)
                host = address.host if secured.checks_host else None
                connection = secured.tls.wrap_socket(connection, server_hostname=host)
                flags = 0  # TLS knows no flags
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that cannot be a name
            raise Unreachable(
                f"no broker at {address} ({error}): start one with `broker start`, or name another"
            ) from error
        return connection, flags

    def beside(self) -> "tuple[socket.socket, Credentials | None]":
        """Return another connection to the broker, for another of its protocols.

        With it comes who has to log in on it, in the way of that protocol.

        Raises:
            Unreachable: no connection can be made.
        """
        credentials = None if self._secured is None else self._secured.credentials
        return self._connect()[0], credentials

    def _log_in(self, credentials: "Credentials") -> None:
        from broker.client.sasl import login  # noqa: PLC0415 - most clients do not log in

        chosen = self.request("SaslHandshake", 1, {"mechanism": credentials.mechanism})
        if chosen["error_code"]:
            offered = ", ".join(chosen["mechanisms"])
            raise AccessDenied(
                f"the broker at {self.address} does not offer {credentials.mechanism}:"
                f" use one of {offered or 'none'}"
            )
        steps = login(credentials)
        message: bytes | None = steps.first()
        while message is not None:
            answer = self.request("SaslAuthenticate", 0, {"auth_bytes": message})
            if answer["error_code"]:
                raise AccessDenied(
                    f"the broker at {self.address} refuses {credentials.user}:"
                    f" {answer['error_message']}"
                )
            message = steps.answer(answer["auth_bytes"])

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; it may be closed already."""
        self._socket.close()

    def version(self, api: str, known: range) -> int:
        """Return the newest version of an API that both sides support.

        Args:
            api: its name.
            known: the versions that the caller supports.

        Raises:
            PeerError: the broker supports none of them.
            Unreachable: as `request`.
        """
        if not self._versions:
            answer = self.request("ApiVersions", 0, {})
            self._versions = {
                each["api_key"]: range(each["min_version"], each["max_version"] + 1)
                for each in answer["api_keys"]
            }
        key = _KEYS[api]
        supported = self._versions.get(key, range(0))
        newest = min(supported.stop, known.stop) - 1
        if newest < max(supported.start, known.start):
            raise PeerError(
                f"the broker at {self.address} supports {_versions_text(supported)} of {api},"
                f" but one of {_versions_text(known)} is needed: use another broker version"
            )
        return newest

    def request(
        self, api: str, version: int, body: Mapping[str, Any], *, as_views: bool = False
    ) -> Fields:
        """Send a request and return the response's body.

        Args:
            api: its name.
            version: one that the broker supports, see `version`.
            body: of the request.
            as_views: return fields of type bytes as memoryviews of the response.

        Raises:
            Unreachable: the connection was closed; TimedOut, which is one: there is no response.
            PeerError: the response is invalid.
            ConfigError: the body has a value that no request has.
        """
        self._correlation_id += 1
        try:
            frame = codec.request_frame(
                api, version, body, correlation_id=self._correlation_id, client_id=self._client_id
            )
        except ValueError as error:  # a text that is no UTF-8, or a number that is too large
            raise ConfigError(f"no request has such a value: {error}") from None
        try:
            self._socket.sendall(frame)
            size = int.from_bytes(self._receive(_SIZE_BYTES), "big")
            if size > CODEC_FRAME_BYTES_MAX:
                raise PeerError(
                    f"{self.address} announced a response of {size} bytes, more than"
                    f" {CODEC_FRAME_BYTES_MAX}: check that a Kafka broker listens there"
                )
            answer = self._receive(size)
        except OSError as error:
            # The first is what the kernel's timeouts raise, the second is that of TLS.
            is_late = isinstance(error, BlockingIOError | TimeoutError)
            reason = "timed out" if is_late else error
            raise (TimedOut if is_late else Unreachable)(
                f"the broker at {self.address} did not answer {api} ({reason}): see its log"
            ) from error
        try:
            response = codec.read_response(api, version, answer, as_views=as_views)
        except CodecError as error:
            raise PeerError(
                f"the response of {self.address} to {api} is invalid: {error}; check that a Kafka"
                " broker listens there"
            ) from error
        if response.correlation_id != self._correlation_id:
            raise PeerError(
                f"the response of {self.address} to {api} has the correlation id of another"
                " request; check that a Kafka broker listens there"
            )
        return response.body

    def _receive(self, size: int) -> bytes:
        pieces: list[bytes] = []  # one, unless a signal interrupts the call
        while size:
            piece = self._socket.recv(size, self._receive_flags)
            if not piece:
                raise ConnectionResetError("it closed the connection")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _timeval(seconds: float) -> bytes:
    """Return a struct timeval."""
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))


def _versions_text(versions: range) -> str:
    if not versions:
        return "no version"
    return f"versions {versions.start} to {versions.stop - 1}"


_KEYS = {name: key for key, name in codec.API_KEYS.items()}
