"""What a handler may know of the connection that a request came on."""

from broker.core.broker import Broker


class Session:
    """One connection, as the protocols see it; the connection itself is native."""

    __slots__ = ("broker", "client_host", "listener_host", "listener_port", "state")

    def __init__(
        self, broker: Broker, client_host: str, listener_host: str, listener_port: int
    ) -> None:
        """Take the peer's address, and the address to advertise to it: its listener's."""
        self.broker = broker
        self.client_host = client_host
        self.listener_host = listener_host
        self.listener_port = listener_port
        self.state: object = None  # what its dialect remembers of it

    @property
    def java_host(self) -> str:
        """The peer's address as Java shows one: so it stands in groups, and tools expect it."""
        return f"/{self.client_host}"
