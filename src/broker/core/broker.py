"""The parts of a broker that protocols and the server use, in one tuple, without logic."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from broker.core.cluster_view import ClusterView
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.configs.group_configs import GroupConfigs
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.health import Health
from broker.core.logs.log import Log
from broker.core.logs.partition import LogWaiters
from broker.core.logs.recompression import Recompression
from broker.core.metadata import Metadata
from broker.core.metrics.measured import Measured
from broker.core.producer_ids import ProducerIds
from broker.core.scheduling.admission import Admission
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.response_cache import ResponseCache
from broker.core.scheduling.tasks import Tasks
from broker.core.security import Security
from broker.core.topics.topics import Topics
from broker.core.transactions.coordinator import TransactionCoordinator
from broker.model.clock import Clock
from broker.model.config import Config
from broker.storage.directories import Directories
from broker.storage.log_dir import DiskSpace, disk_space

if TYPE_CHECKING:
    from broker._native.wire.connection import Connection
    from broker.core.links import Links
    from broker.core.maintenance.moves import Moves
    from broker.core.partition_changes import PartitionChanges


class Broker(NamedTuple):
    """The parts of a running broker, made and loaded by the server."""

    configs: BrokerConfigs
    clock: Clock
    cluster_id: str
    io_thread: IoThread
    topics: Topics
    log_waiters: LogWaiters
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    recompression: Recompression
    # Makes new log start offsets durable; raises StorageError.
    persist_log_starts: Callable[[Sequence[tuple[Log, int]]], Awaitable[None]]
    group_configs: GroupConfigs
    metadata: Metadata
    cluster: ClusterView
    appends: Tasks  # of requests whose connections may be closed before all is appended
    long_answers: Admission  # responses that are whole in memory before they are sent
    response_cache: ResponseCache  # responses about all topics
    health: Health
    metrics: Measured
    links: "Links | None" = None  # to the other brokers; None: standalone
    partition_changes: "PartitionChanges | None" = None  # None: standalone
    security: Security = Security()
    # All that are open now; those that clients have opened have a Session.
    connections: "Callable[[], Sequence[Connection]]" = tuple
    more_directories: Directories | None = None  # None: all is in the data directory
    moves: "Moves | None" = None  # None: there is one directory

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.configs.current

    @property
    def node_id(self) -> int:
        """The broker id that clients see."""
        return self.config.integer("node.id")

    @property
    def directories(self) -> Directories:
        """Where the folders of partitions are."""
        return self.more_directories or Directories(self.config.data_dir)

    async def disk_space(self, directory: Path | None = None) -> DiskSpace:
        """Return the size of a directory's file system; raises StorageError."""
        return await self.io_thread.run(partial(disk_space, directory or self.config.data_dir))
