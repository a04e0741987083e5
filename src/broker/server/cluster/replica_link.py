"""The connection to one leader's broker, over which partitions are copied from it.

    nothing to copy --add--> connecting --> connected --lost--> a pause --> connecting
                                 |                                 ^
                                 '------------ refused ------------'

The pauses double as long as no connection brings an answer. When the broker registers anew, the
next attempt is made at once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from broker._native.log.turn import Turn
from broker._native.replication.fetcher import ReplicaFetcher
from broker._native.wire.poller import Poller
from broker._native.wire.tls import TlsChannel
from broker.core.cluster.writes import Item
from broker.core.dialing import Dialer
from broker.core.scheduling.events import is_set_within
from broker.model import limits
from broker.model.address import Address
from broker.model.config import Config
from broker.model.errors import PeerError, Unreachable

_log = logging.getLogger(__name__)


class Fetching(NamedTuple):
    """What all links of a broker have in common.

    `address_of` returns where a broker is asked; `suspect` is called with the id of one to which a
    connection has ended.
    """

    turn: Turn
    poller: Poller
    address_of: Callable[[int], Address | None]
    suspect: Callable[[int], object]
    broker_id: int
    wait_ms: int
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int
    timeout_ms: int
    dialer: Dialer = Dialer()

    @classmethod
    def by(
        cls,
        config: Config,
        native: tuple[Turn, Poller],
        address_of: Callable[[int], Address | None],
        suspect: Callable[[int], object],
        dialer: Dialer,
    ) -> "Fetching":
        """Return what the broker's settings say."""
        return cls(
            *native,
            address_of,
            suspect,
            config.integer("node.id"),
            config.integer("replica.fetch.wait.max.ms"),
            config.integer("replica.fetch.min.bytes"),
            config.integer("replica.fetch.response.max.bytes"),
            config.integer("replica.fetch.max.bytes"),
            config.integer("replica.socket.timeout.ms"),
            dialer,
        )

    def fetcher(
        self, epoch: int, on_events: Callable[[], object], on_lost: Callable[[str], object]
    ) -> ReplicaFetcher:
        """Return a fetcher for a leader; `epoch` is that of this broker's registration."""
        return ReplicaFetcher(
            self.turn,
            self.broker_id,
            epoch,
            on_events,
            on_lost,
            wait_ms=self.wait_ms,
            bytes_min=self.bytes_min,
            bytes_max=self.bytes_max,
            partition_bytes_max=self.partition_bytes_max,
            timeout_ms=self.timeout_ms,
        )


class ReplicaLink:
    """What is copied from one broker.

    Attributes:
        leader: its id.
        fetcher: the native side; its events are for who has made the link.
    """

    def __init__(
        self,
        leader: int,
        fetching: Fetching,
        epoch: int,
        on_events: Callable[[], object],
    ) -> None:
        """Begin to connect once there is something to copy.

        `epoch` is that of this broker's registration; `on_events` is called when the fetcher has
        events.
        """
        self.leader = leader
        self.fetcher = fetching.fetcher(epoch, on_events, self._is_lost)
        self._fetching = fetching
        self._something = asyncio.Event()  # has happened: an end of the connection or of a pause
        self._pause_ms = limits.REPLICA_CONNECT_PAUSE_MS
        self._failures = 0  # in a row
        self._replies = 0  # when the present connection began
        self._is_closed = False
        self._running = asyncio.ensure_future(self._run())

    def add(self, log: Any, item: Item, epoch: int) -> None:  # noqa: ANN401 (a log)
        """Copy a partition, or copy it anew."""
        self.fetcher.add(log, *item, epoch)
        if not self.fetcher.is_connected and self.fetcher.partitions == 1:
            self._something.set()

    def remove(self, item: Item) -> None:
        """Copy a partition no more."""
        self.fetcher.remove(*item)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is copied."""
        return self.fetcher.partitions == 0

    def hurry(self) -> None:
        """Connect now, if there is no connection: the broker has registered."""
        self._pause_ms = limits.REPLICA_CONNECT_PAUSE_MS
        self._something.set()

    async def close(self) -> None:
        """End the connection, and whatever is copied over it."""
        self._is_closed = True
        self._running.cancel()
        await asyncio.wait([self._running])
        self.fetcher.close("nothing is copied from it any more")

    def _is_lost(self, reason: str) -> None:
        if not self._is_closed:
            if self.fetcher.replies > self._replies:  # so it is after a pause of either process
                self._failures = 0
                _log.info(
                    "connection to a leader ended: leader=%d partitions=%d reason=%s",
                    *(self.leader, self.fetcher.partitions, reason),
                )
            else:
                self._note_failure(reason)
            self._fetching.suspect(self.leader)
            self._something.set()

    async def _run(self) -> None:
        while True:
            await self._until(lambda: not self.fetcher.is_connected and not self.is_empty)
            if await self._connect():
                await self._until(lambda: not self.fetcher.is_connected)
                if self.fetcher.replies > self._replies:
                    self._pause_ms = limits.REPLICA_CONNECT_PAUSE_MS
            await self._pause()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._something.clear()
            await self._something.wait()

    async def _pause(self) -> None:
        self._something.clear()
        if not await is_set_within(self._something, self._pause_ms / 1000):
            self._pause_ms = min(2 * self._pause_ms, limits.REPLICA_CONNECT_PAUSE_MS_MAX)

    async def _connect(self) -> bool:
        address = self._fetching.address_of(self.leader)
        if address is None:
            self._note_failure("it is not registered")
            return False
        try:
            async with asyncio.timeout(limits.PEER_CONNECT_SECONDS):
                connected, channel = await self._fetching.dialer.connect(address)
        except (OSError, EOFError, TimeoutError, UnicodeError, PeerError, Unreachable) as error:
            self._note_failure(str(error) or "no connection in time")
            return False
        except Exception:  # noqa: BLE001 (whatever it is: the link must not end for ever)
            _log.exception("no connection to a leader, tried again: leader=%d", self.leader)
            return False
        self._replies = self.fetcher.replies
        try:
            tls = None if channel is None else TlsChannel(None, None, None, channel)
            self.fetcher.connect(self._fetching.poller, connected.fileno(), address.host, tls)
        except OSError as error:  # no memory for it
            connected.close()
            self._note_failure(str(error))
            return False
        connected.detach()
        return True

    def _note_failure(self, reason: str) -> None:
        """Log the first failure after an answer, and then one now and then."""
        self._failures += 1
        if self._failures % limits.REPLICA_FAILURES_PER_LINE == 1:
            _log.warning(
                "no connection to a leader, tried again: leader=%d partitions=%d reason=%s",
                *(self.leader, self.fetcher.partitions, reason),
            )
