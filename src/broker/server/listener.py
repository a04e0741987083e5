"""Listening sockets: bound before the broker reports ready, accepted on the loop."""

import logging
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker._native.wire.poller import Poller
from broker.core.metrics.counters import Counters
from broker.core.security.quotas.connections import ConnectionLimits, Refusal
from broker.model import limits
from broker.model.address import Address
from broker.model.listener import UNSECURED, ListenerConfig
from broker.model.security_limits import THROTTLED_CONNECTIONS_MAX
from broker.server.counting import Counting
from broker.server.sockets import bind_all
from broker.server.waiting_logins import WaitingLogins

if TYPE_CHECKING:
    from broker.server.tls import ListenerTls

_log = logging.getLogger(__name__)

# Makes a protocol's session from the addresses of the client and of what it is told, and the
# listener.
MakeSession: TypeAlias = Callable[[Address, Address, ListenerConfig], object]


class Acceptor(NamedTuple):
    """What accepting a connection needs.

    Attributes:
        loop: on which it accepts.
        poller: which takes over connections.
        make_session: makes the session of a connection.
        connections_max: how many there may be.
        logins: the connections that have not logged in.
        limits: how many there may be, and how fast they may come.
        throttled: the connections that are refused, until they are closed.
        counters: of what becomes of them.
    """

    loop: AbstractEventLoop
    poller: Poller
    make_session: MakeSession
    connections_max: Callable[[], int]
    logins: WaitingLogins
    limits: ConnectionLimits
    throttled: "Throttled"
    counters: Counters


class Throttled:
    """Connections that are closed after a time, and not served before."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        """Begin without any."""
        self._loop = loop
        self.count = 0

    def close(self, accepted: socket.socket, after_ms: int) -> None:
        """Close one after a time, or at once if there are too many."""
        if after_ms == 0 or self.count >= THROTTLED_CONNECTIONS_MAX:
            accepted.close()
            return
        self.count += 1
        self._loop.call_later(after_ms / 1000, self._end, accepted)

    def _end(self, accepted: socket.socket) -> None:
        self.count -= 1
        accepted.close()


class Listener:
    """One configured address, on all hosts that it resolves to."""

    def __init__(
        self,
        address: Address,
        advertised: Address | None,
        own_port: int | None = None,
        config: ListenerConfig = UNSECURED,
        tls: "ListenerTls | None" = None,
    ) -> None:
        """Bind and listen; ConfigError when the address cannot be bound.

        Args:
            address: what to bind.
            advertised: what clients are told; None: the host that they connected to, and the port.
            own_port: the port that clients are told where `advertised` is None, if several
                processes share the address (SO_REUSEPORT).
            config: the listener that the address is one of.
            tls: that of its connections.
        """
        self._tls = tls
        self.config = config
        self._sockets = bind_all(address, is_shared=own_port is not None)
        self._advertised = advertised
        self._own_port = own_port
        self._protocol = address.protocol or None
        self.port = int(self._sockets[0].getsockname()[1])
        self.bound = tuple(
            Address(str(bound.getsockname()[0]), self.port, address.protocol)
            for bound in self._sockets
        )

    def serve(self, acceptor: Acceptor) -> None:
        """Pass every new connection to the poller."""
        self._refusals = Counting(acceptor.loop.time, limits.REFUSALS_LOGGED_SECONDS)
        for listening in self._sockets:
            self._watch(listening, acceptor)

    def _watch(self, listening: socket.socket, acceptor: Acceptor) -> None:
        if listening.fileno() >= 0:  # it may have been closed meanwhile
            acceptor.loop.add_reader(listening.fileno(), self._accept, listening, acceptor)

    def close(self, loop: AbstractEventLoop) -> None:
        """Stop accepting."""
        for listening in self._sockets:
            loop.remove_reader(listening.fileno())
            listening.close()

    def _accept(self, listening: socket.socket, acceptor: Acceptor) -> None:
        for _ in range(limits.ACCEPTS_PER_TURN):
            if pause_ms := acceptor.limits.pause_ms(self.config):
                self._pause(listening, acceptor, pause_ms / 1000)
                return
            try:
                accepted, peer = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # EMFILE: it stays in the backlog, and epoll would report it in every turn.
                self._refused(f"accept failed: {error}")
                self._pause(listening, acceptor, limits.ACCEPT_AGAIN_SECONDS)
                return
            refusal = self._refusal(str(peer[0]), acceptor)
            if refusal is not None:
                self._refused(refusal.reason)
                acceptor.counters.refused.add("limit" if refusal.after_ms == 0 else "quota")
                acceptor.throttled.close(accepted, refusal.after_ms)
                continue
            try:
                self._hand_over(accepted, Address(str(peer[0]), peer[1]), acceptor)
            except OSError as error:  # the client has left, or there is no memory to watch it
                accepted.close()
                acceptor.limits.closed(self.config, str(peer[0]))
                self._refused(f"it cannot be served: {error}")
                acceptor.counters.refused.add("cannot be served")

    def _refused(self, reason: str) -> None:
        count = self._refusals.add()
        if count:
            _log.warning("connections refused: count=%d reason=%s", count, reason)

    def _pause(self, listening: socket.socket, acceptor: Acceptor, seconds: float) -> None:
        acceptor.loop.remove_reader(listening.fileno())
        acceptor.loop.call_later(seconds, self._watch, listening, acceptor)

    def _refusal(self, address: str, acceptor: Acceptor) -> Refusal | None:
        count_max = acceptor.connections_max()
        if len(acceptor.poller.connections) + acceptor.throttled.count >= count_max:
            return Refusal(f"max.connections and descriptors allow {count_max}")
        return acceptor.limits.refusal(self.config, address)

    def _hand_over(self, accepted: socket.socket, peer: Address, acceptor: Acceptor) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.SEND_BUFFER_BYTES)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, limits.KEEPALIVE_IDLE_SECONDS)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, limits.KEEPALIVE_SECONDS)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, limits.KEEPALIVE_PROBES)
        local = str(accepted.getsockname()[0])
        reached = self._advertised or Address(local, self._own_port or self.port)
        session = acceptor.make_session(peer, reached, self.config)
        needs_login = self.config.security.has_sasl
        connection = acceptor.poller.add(
            accepted.fileno(),
            peer.host,
            session,
            self._protocol,
            None if self._tls is None else self._tls.channel(),
            needs_login=needs_login,
        )
        accepted.detach()  # the poller owns it from here on
        acceptor.counters.accepted.add(self.config.name)
        if needs_login:
            acceptor.logins.add(connection)
