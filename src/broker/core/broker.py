"""What the protocols and the server see of core: the parts, side by side, without logic."""

from broker.core.coordinator import Coordinator
from broker.core.io_thread import IoThread
from broker.core.partition import Growth
from broker.core.producer_ids import ProducerIds
from broker.core.topics import Topics
from broker.model.config import Config


class Broker:
    """The parts of a running broker."""

    __slots__ = (
        "cluster_id",
        "config",
        "groups",
        "growth",
        "io_thread",
        "node_id",
        "producer_ids",
        "topics",
    )

    def __init__(
        self,
        config: Config,
        cluster_id: str,
        io_thread: IoThread,
        topics: Topics,
        groups: Coordinator,
        producer_ids: ProducerIds,
    ) -> None:
        """Take the parts, which the server has made and loaded."""
        self.config = config
        self.node_id = config.integer("node.id")
        self.cluster_id = cluster_id
        self.io_thread = io_thread
        self.topics = topics
        self.groups = groups
        self.producer_ids = producer_ids
        self.growth = Growth()
