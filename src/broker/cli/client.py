"""A client of a broker for commands: one connection, one request at a time."""

import socket
from types import TracebackType
from typing import Self

from broker import codec
from broker.codec import Fields
from broker.model.address import Address
from broker.model.errors import CodecError, PeerError, Unreachable
from broker.model.limits import CLIENT_TIMEOUT_SECONDS, CODEC_FRAME_BYTES_MAX

_SIZE_BYTES = 4
_CLIENT_ID = "polylog-cli"


class Client:
    """One connection; a context that closes it."""

    def __init__(self, address: Address) -> None:
        """Connect; Unreachable when nobody answers there."""
        self._address = address
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(
                (address.host, address.port), CLIENT_TIMEOUT_SECONDS
            )
        except OSError as error:
            raise Unreachable(
                f"no broker at {address} ({error}): start one with `broker start`, or name another"
                " with --broker HOST:PORT"
            ) from error

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._socket.close()

    def request(self, api: str, version: int, body: Fields) -> Fields:
        """Ask and wait for the answer.

        Raises:
            Unreachable: the connection has ended, or no answer came in time.
            PeerError: the answer is none.
        """
        self._correlation_id += 1
        frame = codec.request_frame(
            api, version, body, correlation_id=self._correlation_id, client_id=_CLIENT_ID
        )
        try:
            self._socket.sendall(frame)
            size = int.from_bytes(self._receive(_SIZE_BYTES), "big")
            if size > CODEC_FRAME_BYTES_MAX:
                raise PeerError(f"{self._address} announced an answer of {size} bytes")
            answer = self._receive(size)
        except OSError as error:
            raise Unreachable(
                f"the broker at {self._address} did not answer {api} ({error}): its log says why"
            ) from error
        try:
            response = codec.read_response(api, version, answer)
        except CodecError as error:
            raise PeerError(
                f"{self._address} answered {api} with no such answer: {error}"
            ) from error
        if response.correlation_id != self._correlation_id:
            raise PeerError(f"{self._address} answered another request than {api}")
        return response.body

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(min(size - len(received), 1 << 20))
            if not part:
                raise ConnectionResetError("it closed the connection")
            received += part
        return bytes(received)
