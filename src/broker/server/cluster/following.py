"""Lets topics and configurations follow what the image of the cluster has become.

Each changed topic is followed in a task of its own, a bounded number at a time. A topic that cannot
be followed, because a disk fails or another process still has one of its logs open, is followed
again after CLUSTER_RETRY_MS; meanwhile it takes no place of another one. Configurations of groups
are followed at once, those of brokers in one task.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from broker.core.cluster.image import Delta
from broker.core.scheduling.steps import in_steps
from broker.core.service import Service
from broker.model.errors import ConfigError, StorageError
from broker.model.limits import (
    CLUSTER_PARTITIONS_PER_STEP,
    CLUSTER_RETRY_MS,
    TOPICS_FOLLOWED_AT_ONCE,
)
from broker.server.cluster.metadata import ClusterMetadata
from broker.server.cluster.node import Node
from broker.storage import metadata

if TYPE_CHECKING:
    from broker.core.cluster.writes import Item

_TRIES_PER_LINE = 150  # half a minute
_log = logging.getLogger(__name__)
_TURN_SECONDS = 0.001  # within which `run` begins with a change


class Topics(Protocol):
    """The topics of this broker."""

    def names(self) -> Collection[str]:
        """Return the names of those that are registered."""

    async def follow(self, name: str, partitions: Collection[int] | None = None) -> object:
        """Make a topic what the image says; StorageError when logs cannot be opened.

        `partitions` are those whose leader may have changed; None: any of them.
        """

    async def follow_deleted(self, topic_id: bytes) -> object:
        """Remove what this broker has of a topic that was deleted."""

    def when_busy(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets a topic some of whose logs another process has open."""


class BrokerConfigs(Protocol):
    """The configuration of this broker."""

    async def follow(self) -> None:
        """Put into force what is stored; StorageError when it is damaged."""


class GroupConfigs(Protocol):
    """The configurations of groups."""

    def follow(self, group_id: str) -> None:
        """Put into force what is stored; StorageError when it is damaged."""


class FollowingConfigs(Service):
    """The configurations of brokers and groups that were altered, whoever has altered them."""

    name = "configurations of the cluster"

    def __init__(
        self, known: ClusterMetadata, brokers: BrokerConfigs, groups: GroupConfigs
    ) -> None:
        """Follow the groups' from now on, the brokers' while `run` runs."""
        self._brokers = brokers
        self._groups = groups
        self._something = asyncio.Event()
        known.when_changed(self._image_changed)

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            try:
                await self._brokers.follow()
            except StorageError as error:
                _log.error("settings of brokers not in force, alter them: error=%s", error)

    def _image_changed(self, delta: Delta) -> None:
        for key in delta.configs:
            if key.startswith(metadata.BROKER_CONFIGS):
                self._something.set()
            elif key.startswith(metadata.GROUP_CONFIGS):
                self._follow_group(key.removeprefix(metadata.GROUP_CONFIGS))

    def _follow_group(self, name: bytes) -> None:
        try:
            self._groups.follow(name.decode())
        except (StorageError, UnicodeDecodeError) as error:
            _log.error(
                "configuration of a group not in force, alter it: group=%r error=%s", name, error
            )


class Following(Service):
    """The topics that have to be looked at, each once however often it has changed."""

    name = "topics of the cluster"
    is_essential = True

    def __init__(self, node: Node, topics: Topics) -> None:
        """Start with none: nothing is led here before the member reports its epoch."""
        self._node = node
        self._topics = topics
        # Names of topics, and ids of deleted ones, in the order of their first change; with the
        # partitions that have changed, or None for all.
        self._changed: dict[str | bytes, dict[int, None] | None] = {}
        self._partitions: deque[Collection[Item]] = deque()  # others that have changed
        self._something = asyncio.Event()
        self._following: set[asyncio.Task[None]] = set()
        self._failures: dict[str | bytes, int] = {}  # in a row, of what is followed again
        self._retries: dict[str | bytes, asyncio.TimerHandle] = {}
        topics.when_busy(self._is_busy)
        node.metadata.when_changed(self._image_changed)
        node.member.when_phase_changes(self._all_changed)

    async def run(self) -> None:
        """Follow until cancelled."""
        room = asyncio.Semaphore(TOPICS_FOLLOWED_AT_ONCE)
        try:
            while True:
                await self._something.wait()
                while self._changed or self._partitions:
                    await self._take_partitions()
                    if not self._changed:
                        continue
                    await room.acquire()
                    task = asyncio.ensure_future(self._follow(*self._next()))
                    self._following.add(task)
                    task.add_done_callback(self._following.discard)
                    task.add_done_callback(lambda _: room.release())
                self._something.clear()
        finally:
            for task in self._following:
                task.cancel()
            for retry in self._retries.values():
                retry.cancel()

    async def caught_up(self) -> None:
        """Wait until everything that has changed so far is followed, or has failed."""
        while self._changed or self._partitions or self._following:
            if self._following:
                await asyncio.wait(self._following, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(_TURN_SECONDS)

    def _next(self) -> tuple[str | bytes, dict[int, None] | None]:
        changed = next(iter(self._changed))
        return changed, self._changed.pop(changed)

    async def _follow(self, changed: str | bytes, partitions: Collection[int] | None) -> None:
        failures = self._failures.get(changed, 0)
        try:
            if isinstance(changed, bytes):
                await self._topics.follow_deleted(changed)
            else:
                await self._topics.follow(changed, partitions)
        except ConfigError as error:
            _log.error("topic not followed, alter it: topic=%s error=%s", changed, error)
        except StorageError as error:
            self._has_failed(changed, str(error))
        except Exception:  # noqa: BLE001 (whatever it is: the topic must not stay as it is)
            if failures == 0:
                _log.exception("topic not followed, tried again: topic=%s", changed)
            self._has_failed(changed, "")
        else:
            if failures and self._failures.get(changed) == failures:
                del self._failures[changed]
                _log.info("topic followed after all: topic=%s failures=%d", changed, failures)

    def _is_busy(self, name: str) -> None:
        """Follow a topic again soon; meanwhile its partitions are refused as led elsewhere."""
        self._has_failed(name, "logs are open in another process")

    def _has_failed(self, changed: str | bytes, reason: str) -> None:
        """Follow a topic again later; log the reason now and then, as long as it fails."""
        failures = self._failures[changed] = self._failures.get(changed, 0) + 1
        if reason and failures % _TRIES_PER_LINE == 1:
            _log.warning("topic not followed yet, tried again: topic=%s reason=%s", changed, reason)
        if changed not in self._retries:
            delay = CLUSTER_RETRY_MS / 1000
            retry = asyncio.get_running_loop().call_later(delay, self._try_again, changed)
            self._retries[changed] = retry

    def _try_again(self, changed: str | bytes) -> None:
        del self._retries[changed]
        self._add([changed])

    def _image_changed(self, delta: Delta) -> None:
        topics = self._node.metadata.image.topics
        names: list[str | bytes] = [topics[each].name for each in delta.topics if each in topics]
        names += [topic.name for topic in delta.deleted_topics.values()]
        prefix = metadata.TOPIC_CONFIGS
        names += [  # no topic has a name that is not UTF-8
            each.removeprefix(prefix).decode(errors="replace")
            for each in delta.configs
            if each.startswith(prefix)
        ]
        self._add([*names, *delta.deleted])
        if delta.partitions:
            self._partitions.append(delta.partitions)
            self._something.set()

    def _all_changed(self) -> None:
        """The broker epoch has changed, and with it what this broker leads."""
        image = self._node.metadata.image
        self._add([*self._topics.names(), *image.topic_ids])

    def _add(self, changed: Collection[str | bytes]) -> None:
        self._changed.update(dict.fromkeys(changed))
        if self._changed:
            self._something.set()

    async def _take_partitions(self) -> None:
        """Let the topics of partitions that have changed be followed.

        An election of all leaders changes a topic of many partitions a hundred times.
        """
        image = self._node.metadata.image
        while self._partitions:
            changed = self._partitions[0]
            async for topic_id, number in in_steps(changed, CLUSTER_PARTITIONS_PER_STEP):
                topic = image.topics.get(topic_id)
                if topic is not None:
                    partitions = self._changed.setdefault(topic.name, {})
                    if partitions is not None:
                        partitions[number] = None
            self._partitions.popleft()  # `caught_up` has waited for all of them
