"""The remote end of a connection with TLS to a poller of `native_wire`, byte by byte if wanted."""

import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from broker._native.wire.tls import TlsChannel
from tests.support.authority import Authority
from tests.support.native_wire import Wire

if TYPE_CHECKING:
    from broker._native.wire.connection import Connection

_RECEIVED_BYTES = 1 << 20
_TURNS_MAX = 200


class Keys:
    """The contexts of both ends."""

    def __init__(self, folder: Path, *, asks_clients: bool = False) -> None:
        """Make an authority, a server and a client."""
        authority = Authority(folder)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(authority.key_store("server"))
        self.client = ssl.create_default_context(cafile=str(authority.file))
        if asks_clients:
            self.server.load_verify_locations(authority.file)
            self.server.verify_mode = ssl.CERT_OPTIONAL
            self.client.load_cert_chain(authority.key_store("client", ()))


class TlsClient:
    """A client that encrypts; its handshake is made by `shake_hands`."""

    def __init__(self, wire: Wire, keys: Keys, *, sends_bytewise: bool = False) -> None:
        """Connect to the poller of `wire`."""
        self.wire = wire
        self.secured: list[Connection] = []
        self.failures: list[str] = []
        self.channel = TlsChannel(
            lambda incoming, outgoing: keys.server.wrap_bio(incoming, outgoing, server_side=True),
            self.secured.append,
            lambda _, reason: self.failures.append(reason),
        )
        self.socket, far = socket.socketpair()
        self.socket.setblocking(False)
        far.setblocking(False)
        self.connection = wire.poller.add(far.detach(), "here", None, None, self.channel)
        wire.clients.append(self)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = keys.client.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._sends_bytewise = sends_bytewise

    def shake_hands(self) -> None:
        """Finish the handshake."""
        for _ in range(_TURNS_MAX):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.exchange()
                continue
            self.exchange()
            return
        raise AssertionError("no handshake")

    def exchange(self) -> None:
        """Send what is encrypted, let it be served, and take what comes."""
        self.send_raw(self._outgoing.read())
        self.take()

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        step = 1 if self._sends_bytewise else 1 << 16
        at = 0
        while at < len(data):
            try:
                at += self.socket.send(data[at : at + step])
            except BlockingIOError:
                self.take()
            except (BrokenPipeError, ConnectionResetError):
                return
            self.wire.run()
        self.wire.run()

    def take(self) -> bool:
        """Receive; return whether the broker has closed."""
        while True:
            try:
                data = self.socket.recv(_RECEIVED_BYTES)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            if not data:
                self._incoming.write_eof()
                return True
            self._incoming.write(data)

    def seal(self, data: bytes) -> bytes:
        """Encrypt."""
        self.tls.write(data)
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        """Encrypt and send."""
        self.send_raw(self.seal(data))

    def read(self, size: int) -> bytes:
        """Return so many decrypted bytes, which arrive now or after syncs."""
        found = bytearray()

        def has_all() -> bool:
            self.take()
            try:
                while len(found) < size:
                    found.extend(self.tls.read(size - len(found)))
            except ssl.SSLWantReadError:
                return False
            return True

        self.wire.run_until(has_all)
        return bytes(found)

    def frame(self) -> bytes:
        """Return the next frame of Kafka's protocol."""
        head = self.read(4)
        return head + self.read(int.from_bytes(head, "big"))

    def is_closed(self) -> bool:
        """Return whether the broker has closed the connection."""
        self.wire.run()
        return self.take()

    def close(self) -> None:
        """Close this end without an end of TLS."""
        self.socket.shutdown(socket.SHUT_WR)
        self.wire.run()
