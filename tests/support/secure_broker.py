"""A broker with a listener for TLS beside one without, and the keys of its clients."""

import re
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from tests.support.authority import Authority
from tests.support.broker_process import BrokerProcess

_PORTS = re.compile(r"127\.0\.0\.1:(\d+)")
TIMEOUT_S = 30


class SecureBroker(BrokerProcess):
    """`broker start` with SSL://127.0.0.1 and a plain listener, on free ports.

    Attributes:
        authority: of all its certificates.
        key_store: its own, which a test may replace.
        secure: the address of the listener for TLS; `address` is the plain one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Sequence[str] = (),
        listen: str | None = None,
        authority: Authority | None = None,
    ) -> None:
        """Make keys; `start` starts it. Brokers of a cluster share an authority."""
        self.authority = authority or Authority(folder / "keys")
        self.key_store = self.authority.key_store(
            f"server-{folder.name}", subject=[("CN", "server")]
        )
        keys = (
            f"ssl.keystore.location={self.key_store}",
            f"ssl.truststore.location={self.authority.file}",
        )
        both = listen or "127.0.0.1:0,SSL://127.0.0.1:0"
        super().__init__(folder, settings=(*keys, *settings), listen=both)
        self.secure = ""

    def _wait_for_address(self) -> None:
        """Wait, and note both ports, which a restart has again."""
        super()._wait_for_address()
        plain, secure = _PORTS.findall(self.stdout())[:2]
        self.address, self.secure = f"127.0.0.1:{plain}", f"127.0.0.1:{secure}"
        self.listen = f"{self.address},SSL://{self.secure}"

    @property
    def secure_port(self) -> int:
        """The port of the listener for TLS."""
        return int(self.secure.rpartition(":")[2])

    def client_context(
        self, key_store: Path | None = None, authority: Authority | None = None
    ) -> ssl.SSLContext:
        """Return the context of a client, with a key if it has one."""
        context = ssl.create_default_context(cafile=str((authority or self.authority).file))
        if key_store is not None:
            context.load_cert_chain(key_store)
        return context

    def open(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Return a connection whose handshake is done."""
        plain = self.open_raw()
        try:
            return (context or self.client_context()).wrap_socket(
                plain, server_hostname="localhost"
            )
        except BaseException:
            plain.close()
            raise

    def open_raw(self) -> socket.socket:
        """Return a connection to the listener for TLS that has sent nothing."""
        return socket.create_connection(("127.0.0.1", self.secure_port), TIMEOUT_S)
