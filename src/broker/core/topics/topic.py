"""A topic: name, id, configuration and logs."""

from broker.core.logs.log import Log
from broker.core.security.audit import AUDIT_TOPIC
from broker.model.topic_config import TopicConfig

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, AUDIT_TOPIC))


class Topic:
    """A topic that exists; its configuration and the list of its logs may be replaced."""

    __slots__ = ("config", "followed", "logs", "name", "topic_id")

    def __init__(
        self, name: str, topic_id: bytes, config: TopicConfig, logs: list[Log | None]
    ) -> None:
        """Keep the logs, in the order of their partitions; None: another broker leads it."""
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.logs = logs
        self.followed: dict[int, Log] = {}  # by partition: logs that copy their leaders'

    @property
    def is_internal(self) -> bool:
        """Whether only the broker itself writes to it."""
        return self.name in INTERNAL_TOPICS

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.logs)

    @property
    def led_logs(self) -> list[Log]:
        """The logs of the partitions that this broker leads."""
        return [log for log in self.logs if log is not None]

    @property
    def held_logs(self) -> list[Log]:
        """The logs of all partitions of which this broker has a copy, led and followed."""
        return [*self.led_logs, *self.followed.values()]

    def has_partition(self, partition: int) -> bool:
        """Return whether it has a partition of that number."""
        return 0 <= partition < len(self.logs)

    def log(self, partition: int) -> Log | None:
        """Return the log of a partition that this broker leads, or None."""
        return self.logs[partition] if self.has_partition(partition) else None

    def held_log(self, partition: int) -> Log | None:
        """Return the log of a partition that this broker leads or follows, or None."""
        return self.log(partition) or self.followed.get(partition)
