"""The logs of partitions, as topics use them: files, native logs, and those still being loaded."""

from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.core.logs.log_loader import LogLoader
from broker.storage.recovery.partitions import Partitions


class NativeLogs:
    """Implements core.topics.interfaces.PartitionLogs."""

    def __init__(self, partitions: Partitions, loader: LogLoader[PartitionLog], turn: Turn) -> None:
        """Keep what it needs."""
        self._turn = turn
        self.open_topic = partitions.open_topic
        self.announce_topic = partitions.announce_topic
        self.delete = partitions.delete
        self.configure = partitions.configure
        self.until_loaded = loader.until_loaded

    @property
    def is_read_only(self) -> bool:
        """Whether the disk has only space for deletes."""
        return self._turn.is_read_only

    @property
    def change_count(self) -> int:
        """How often the states have changed that Metadata shows."""
        return self._turn.log_changes
