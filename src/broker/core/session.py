"""What a handler may use of the connection that its request came on."""

from typing import TYPE_CHECKING

from broker.core.broker import Broker
from broker.model.listener import UNSECURED, ListenerConfig
from broker.model.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from broker._native.wire.quota import ClientQuota
    from broker.core.links import Upstreams


class Session:
    """One connection, as the protocols see it; the connection itself is native."""

    __slots__ = (
        "broker",
        "client_host",
        "is_forwarded",
        "listener",
        "listener_host",
        "listener_port",
        "login",
        "principal",
        "quota",
        "state",
        "throttle_ms",
        "upstreams",
    )

    def __init__(
        self,
        broker: Broker,
        client_host: str,
        listener_host: str,
        listener_port: int,
        listener: ListenerConfig = UNSECURED,
        principal: Principal = ANONYMOUS,
    ) -> None:
        """Keep the client's address, the address to advertise to it, and who it is so far."""
        self.broker = broker
        self.client_host = client_host
        self.listener_host = listener_host
        self.listener_port = listener_port
        self.listener = listener
        self.principal = principal
        self.login: object = None  # the state of its SASL login; None: its listener has none
        self.state: object = None  # its protocol's state of this connection
        self.quota: ClientQuota | None = None  # what limits its last request, if there are quotas
        self.throttle_ms = 0  # for how long the request at hand makes its client rest
        self.is_forwarded = False  # another broker forwards requests of its clients on it
        self.upstreams: Upstreams | None = None  # its links to other brokers, once it needs one

    @property
    def java_host(self) -> str:
        """The client's address as Java prints one: groups show it so, and tools expect it."""
        return f"/{self.client_host}"
