"""The brokers of the cluster, as links for forwarded requests use them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.model.address import Address
from broker.model.errors import StorageError
from broker.model.limits import (
    FORWARDING_FOLLOW_SECONDS,
    TOPIC_LOOKUP_PAUSE_MS,
    TOPICS_LEARNED_AT_ONCE,
    TOPICS_UNKNOWN_MAX,
)
from broker.model.listener import UNSECURED, ListenerConfig
from broker.server.cluster.metadata import ClusterMetadata
from broker.storage.metadata import topic_key

if TYPE_CHECKING:
    from broker.server.cluster.following import Following


class Nodes:
    """Implements core.links.Nodes from the image of the metadata.

    Attributes:
        following: of this broker's topics; None until they are made.
    """

    def __init__(
        self,
        metadata: ClusterMetadata,
        monotonic_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        listener: ListenerConfig = UNSECURED,
    ) -> None:
        """Keep the metadata, whose image changes, a clock, and the listener of brokers."""
        self._listener = listener
        self._metadata = metadata
        self._monotonic_ms = monotonic_ms
        self._sleep = sleep
        self.following: Following | None = None
        self._learning: dict[str, asyncio.Future[None]] = {}
        self._unknown: dict[str, int] = {}  # topics that were not in the store, and when
        self._room = asyncio.Semaphore(TOPICS_LEARNED_AT_ONCE)

    @property
    def unknown_count(self) -> int:
        """The number of topics that are remembered because they were not in the store."""
        return len(self._unknown)

    @property
    def revision(self) -> int:
        """The revision of the image."""
        return self._metadata.image.revision

    def address_of(self, broker_id: int, protocol: str) -> Address | None:
        """Return the address at which a registered broker serves a protocol."""
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None:
            return None
        endpoint = broker.registration.endpoint(protocol, self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    async def follow(self, revision: int) -> None:
        """Wait until the image has a revision and topics follow it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FORWARDING_FOLLOW_SECONDS):
                await self._metadata.reached(revision, FORWARDING_FOLLOW_SECONDS)
                if self.following is not None:
                    await self.following.caught_up()

    async def learn(self, topic: str) -> None:
        """Look up a topic, once for all who ask for it at the same time.

        After a topic was not there, the next to ask wait until TOPIC_LOOKUP_PAUSE_MS are over:
        a client that asks in a loop would read the store with each request. An earlier answer is
        not used again, because another broker may have created the topic since.
        """
        learning = self._learning.get(topic)
        if learning is None:
            learning = self._learning[topic] = asyncio.ensure_future(self._learn(topic))
            learning.add_done_callback(lambda _: self._learning.pop(topic))
        await asyncio.shield(learning)

    async def _learn(self, topic: str) -> None:
        since_ms = self._unknown.pop(topic, None)
        if since_ms is not None:
            pause_ms = since_ms + TOPIC_LOOKUP_PAUSE_MS - self._monotonic_ms()
            await self._sleep(max(0, pause_ms) / 1000)
        with suppress(StorageError, TimeoutError):
            async with asyncio.timeout(FORWARDING_FOLLOW_SECONDS):
                async with self._room:
                    found = await self._metadata.get(topic_key(topic))
                if found is not None:
                    await self.follow(found.mod_revision)
                    return
                self._unknown[topic] = self._monotonic_ms()
                if len(self._unknown) > TOPICS_UNKNOWN_MAX:
                    del self._unknown[next(iter(self._unknown))]  # the oldest
