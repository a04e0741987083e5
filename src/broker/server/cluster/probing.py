"""Notices at once when the process of another broker has died, and deletes its registration.

What it decides by, and why that is safe, is in core/cluster/fencing.py. A connection of a watch
carries nothing but its TLS handshake: the host of a process that dies closes it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from broker.core.cluster import fencing
from broker.core.cluster.fencing import Connect, Fence, Wait, Watch
from broker.core.dialing import KAFKA, Dialer
from broker.core.scheduling.events import is_set_within
from broker.core.service import Service
from broker.model.address import WILDCARDS
from broker.model.errors import StorageError
from broker.model.limits import PROBE_CONNECT_SECONDS
from broker.model.listener import UNSECURED, ListenerConfig
from broker.server.cluster.node import Node

_log = logging.getLogger(__name__)


class _Watched(NamedTuple):
    """A registration, and where its broker listens."""

    broker_id: int
    broker_epoch: int
    host: str
    port: int


class Probing(Service):
    """The watches of this broker over others."""

    name = "early fencing"

    def __init__(
        self, node: Node, listener: ListenerConfig = UNSECURED, dialer: Dialer | None = None
    ) -> None:
        """Watch nobody before `run`; others are reached over the listener of brokers."""
        self._node = node
        self._listener = listener
        self._dialer = dialer or Dialer()
        self._something = asyncio.Event()  # has changed: the image, or this broker's registration
        self._watchers: dict[_Watched, _Watcher] = {}
        node.metadata.when_changed(lambda _: self._something.set())
        node.member.when_phase_changes(self._something.set)

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                self._follow()
                await self._something.wait()
                self._something.clear()
        finally:
            for watcher in self._watchers.values():
                watcher.end()

    def suspect(self, broker_id: int) -> None:
        """Look at once whether a broker's process has died: a connection to it has failed."""
        for watched, watcher in self._watchers.items():
            if watched.broker_id == broker_id:
                watcher.doubt()

    def _follow(self) -> None:
        """Begin and end watches as the image says."""
        wanted = self._wanted()
        for gone in self._watchers.keys() - wanted:
            self._watchers.pop(gone).end()
        for new in wanted - self._watchers.keys():
            self._watchers[new] = _Watcher(self._node, new, self._dialer)

    def _wanted(self) -> set[_Watched]:
        brokers = self._node.metadata.image.brokers
        wanted = set()
        for each in fencing.watched(self._node.metadata.image, self._node.broker_id):
            endpoint = brokers[each].registration.endpoint(KAFKA, self._listener)
            if endpoint is not None and endpoint.host not in WILDCARDS:
                wanted.add(_Watched(each, brokers[each].epoch, endpoint.host, endpoint.port))
        return wanted


class _Watcher:
    """One registration, until it is gone."""

    def __init__(self, node: Node, watched: _Watched, dialer: Dialer) -> None:
        """Begin to watch."""
        self._node = node
        self._dialer = dialer
        self._watched = watched
        self._place = (watched.host, watched.port)
        self._watch = Watch(node.clock.monotonic_ms())
        self._something = asyncio.Event()  # has happened to the connection
        self._connection: _Connection | None = None
        self._watching = asyncio.ensure_future(self._run())

    def end(self) -> None:
        """Watch no more."""
        self._watching.cancel()
        self._close()

    def doubt(self) -> None:
        """Connect anew: the present connection has ended, or may have."""
        self._watch.doubted(self._node.clock.monotonic_ms())
        self._something.set()

    async def _run(self) -> None:
        clock = self._node.clock
        while True:
            match self._watch.action(clock.monotonic_ms()):
                case Connect():
                    await self._connect()
                case Fence():
                    if await self._fence():
                        return
                    self._watch.not_fenced(clock.monotonic_ms())
                case Wait(until_ms):
                    seconds = None if until_ms is None else (until_ms - clock.monotonic_ms()) / 1000
                    await is_set_within(self._something, seconds)
                    self._something.clear()

    async def _connect(self) -> None:
        clock = self._node.clock
        self._close()
        connection = _Connection(self._lost)
        try:
            async with asyncio.timeout(PROBE_CONNECT_SECONDS):
                await self._dialer.watch(lambda: connection, self._place, self._watched.host)
        except ConnectionRefusedError:
            self._watch.refused(clock.monotonic_ms())
        except (OSError, TimeoutError, UnicodeError):
            self._watch.failed(clock.monotonic_ms())
        else:
            self._connection = connection
            # A name may have several addresses: only a refusal of this one proves anything.
            self._place = connection.place or self._place
            self._watch.connected()
            if connection.is_lost:
                self.doubt()

    def _lost(self, connection: "_Connection") -> None:
        if connection is self._connection:
            self.doubt()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _fence(self) -> bool:
        """Return whether the registration was deleted."""
        node, watched = self._node, self._watched
        transaction = fencing.fence(
            node.metadata.image,
            (node.broker_id, node.member.epoch),
            watched.broker_id,
            watched.broker_epoch,
        )
        if transaction is None:
            return False
        try:
            revision = await node.store.transact(*transaction)
        except StorageError as error:
            _log.warning(
                "a broker that has died was not fenced: node_id=%d error=%s",
                *(watched.broker_id, error),
            )
            return False
        if revision is None:  # another broker was first, or it has registered anew
            return False
        _log.warning(
            "the process of a broker has died, its leaderships move now: node_id=%d"
            " broker_epoch=%d address=%s:%d",
            *(watched.broker_id, watched.broker_epoch, *self._place),
        )
        return True


class _Connection(asyncio.Protocol):
    """A connection over which nothing is sent.

    Attributes:
        place: host and port of the other side, None if the connection was not made, or had ended.
        is_lost: whether it has ended.
    """

    def __init__(self, on_loss: Callable[["_Connection"], None]) -> None:
        self.place: tuple[str, int] | None = None
        self.is_lost = False
        self._on_loss = on_loss
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer is not None:  # it has not ended already
            self.place = peer[0], peer[1]

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_lost = True
        self._on_loss(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
