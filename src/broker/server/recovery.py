"""What a start does with topics and their logs, before the first connection.

Topics are registered; folders of no topic are renamed; the logs are then recovered in threads
while the broker already serves those that are ready.
"""

from broker._native.log.partition_log import PartitionLog
from broker.core.logs.log_loader import LogLoader
from broker.core.topics.deletion import Deletions
from broker.core.topics.topics import Topics
from broker.model import limits
from broker.storage.recovery.partitions import Partitions


class Recovery:
    """The recovery of one start."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        deletions: Deletions,
        loader: LogLoader[PartitionLog],
    ) -> None:
        """Keep what it needs; nothing is read yet."""
        self._topics = topics
        self._partitions = partitions
        self._deletions = deletions
        self._loader = loader
        self._logs: list[PartitionLog] = []

    def register_topics(self) -> None:
        """Register all topics of the metadata store, with logs that are not loaded."""
        self._logs = self._topics.load()

    def remove_strays(self) -> None:
        """Put folders aside that belong to no topic, and remove those that are deleted."""
        self._deletions.remove(self._partitions.rename_strays())

    def load_logs(self) -> None:
        """Begin to load the logs of all topics."""
        logs, self._logs = self._logs, []
        self._loader.start(logs, limits.RECOVERY_THREADS)
