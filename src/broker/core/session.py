"""What a handler may use of the connection that its request came on."""

from typing import TYPE_CHECKING

from broker.core.broker import Broker
from broker.model.limits import UNSEEN_PARTITIONS_PER_CONNECTION_MAX
from broker.model.listener import UNSECURED, ListenerConfig
from broker.model.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker._native.log.permissions import Permissions
    from broker._native.wire.quota import ClientQuota
    from broker.core.links import Upstreams
    from broker.core.logs.log import Log
    from broker.core.security.login import Login


class Session:
    """One connection, as the protocols see it; the connection itself is native."""

    __slots__ = (
        "_principal",
        "broker",
        "client_host",
        "client_id",
        "client_port",
        "connected_ms",
        "is_forwarded",
        "listener",
        "listener_host",
        "listener_port",
        "login",
        "named_host",
        "permissions",
        "protocol",
        "quota",
        "request",
        "software",
        "state",
        "throttle_ms",
        "unseen",
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
        self.permissions: Permissions | None = None  # what the native paths know; None: no ACLs
        self.principal = principal
        # What is being served, where ACLs decide (core/access.py).
        self.protocol = self.request = ""
        self.login: Login | None = None  # None: its listener has no login
        self.state: object = None  # its protocol's state of this connection
        self.quota: ClientQuota | None = None  # what limits its last request, if there are quotas
        self.throttle_ms = 0  # for how long the request at hand makes its client rest
        # What the request at hand has written and may not be visible yet, as (log, end offset).
        self.unseen: list[tuple[Log, int]] = []
        self.is_forwarded = False  # another broker forwards requests of its clients on it
        # The address of the client whose requests are forwarded. It is only shown: what this
        # connection may do, and what it counts as, follows from `client_host`.
        self.named_host = ""
        self.upstreams: Upstreams | None = None  # its links to other brokers, once it needs one
        # What is shown of it to who asks which clients there are.
        self.client_port = 0
        self.connected_ms = 0
        self.client_id: str | None = None  # of its requests, cut to CLIENT_TEXT_CHARS_MAX
        self.software: tuple[str, str] | None = None  # its name and version, if it tells them

    @property
    def principal(self) -> Principal:
        """Who it acts for."""
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        """Let it act for someone, from the next request on; the native paths know that at once."""
        self._principal = principal
        authorizer = self.broker.security.authorizer
        if authorizer is not None:
            self.permissions = authorizer.permissions(principal, self.client_host)

    def has_written(self, log: "Log", end_offset: int) -> None:
        """Have the reads behind the request at hand see what it has written.

        Handlers tell of every write whose answer may come before all replicas in sync have it.
        One that is visible when the request is answered delays nothing. The reads wait as they do
        for writes on the native paths (src/_native/wire/unseen_writes.pyx).
        """
        # With more partitions whose replicas are late, a read does not wait for the rest of them.
        if not log.is_replicated or len(self.unseen) < UNSEEN_PARTITIONS_PER_CONNECTION_MAX:
            self.unseen.append((log, end_offset))

    def take_unseen(self) -> "Sequence[tuple[Log, int]]":
        """Return what the request has written, once it is answered, and forget it."""
        if not self.unseen:
            return ()
        unseen, self.unseen = self.unseen, []
        return unseen

    @property
    def is_identified(self) -> bool:
        """Whether it is known who it is, without a login or after it."""
        return self._principal != ANONYMOUS

    @property
    def reached(self) -> tuple[str, int, ListenerConfig]:
        """The address of this broker for the client, and over which listener it has come."""
        return self.listener_host, self.listener_port, self.listener

    @property
    def java_host(self) -> str:
        """The client's address as Java prints one: groups show it so, and tools expect it."""
        return f"/{self.named_host or self.client_host}"
