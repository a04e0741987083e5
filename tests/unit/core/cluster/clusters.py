"""Clusters in a memory store, for the tests of this folder."""

from collections.abc import Sequence

from broker.core.cluster import placement, records, topics
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import (
    NO_EPOCH,
    BrokerState,
    ControllerClaim,
    PartitionState,
    Registration,
    Replicas,
    Transaction,
)
from broker.core.cluster.slices import complete
from broker.storage import metadata
from broker.storage.metadata import Put
from tests.support.memory_store import MemoryStore


class Cluster:
    """A store, the brokers that are registered in it, and one image of it."""

    def __init__(self, brokers: int = 0) -> None:
        self.store = MemoryStore()
        self.image = ClusterImage()
        self.leases: dict[int, int] = {}
        self.intact_since: dict[int, int] = {}  # of the brokers' directories
        for broker_id in range(1, brokers + 1):
            self.register(broker_id)
        self.refresh()

    def register(
        self,
        broker_id: int,
        *,
        host: str = "",
        rack: str | None = None,
        state: BrokerState = BrokerState.RUNNING,
    ) -> int:
        """Register a broker, or change its registration; return its epoch."""
        if broker_id not in self.leases:
            self.leases[broker_id] = self.store.grant()
        since = self.intact_since.get(broker_id, NO_EPOCH)
        host = host or f"h{broker_id}"
        registration = Registration(f"i{broker_id}", (), rack, host, state, since)
        key, value = records.broker_key(broker_id), records.registration_value(registration)
        self.store.transact([], [Put(key, value, self.leases[broker_id])])
        entry = self.store.get(key)
        assert entry is not None
        self.intact_since.setdefault(broker_id, entry.create_revision)
        return entry.create_revision

    def drain(self, broker_id: int) -> None:
        self.register(broker_id, state=BrokerState.DRAINING)
        self.refresh()

    def fail(self, broker_id: int) -> None:
        """Let a broker's lease end."""
        self.store.expire(self.leases.pop(broker_id))
        self.refresh()

    def restart(self, broker_id: int) -> int:
        """Let a broker register anew; return its epoch."""
        if broker_id in self.leases:
            self.fail(broker_id)
        epoch = self.register(broker_id)
        self.refresh()
        return epoch

    def empty(self, broker_id: int) -> None:
        """Let a broker lose its directory, while it does not run."""
        del self.intact_since[broker_id]

    def take_office(self, broker_id: int) -> int:
        """Make a broker the controller; return the controller epoch."""
        claim = ControllerClaim(broker_id, self.image.brokers[broker_id].epoch)
        put = Put(records.CONTROLLER, records.controller_value(claim), self.leases[broker_id])
        revision = self.commit(Transaction([], [put]))
        assert revision is not None
        return revision

    def create(self, name: str, *replicas: Replicas) -> bytes:
        """Create a topic; return its id."""
        topic_id = name.encode().rjust(16, b"-")
        assert self.commit(topics.creation(self.image, name, topic_id, replicas)) is not None
        return topic_id

    def put(self, topic_id: bytes, partition: int, state: PartitionState) -> None:
        """Store the state of a partition, as another broker."""
        key = records.partition_key(topic_id, partition)
        self.store.transact([], [Put(key, records.partition_value(state))])
        self.refresh()

    def state(self, topic_id: bytes, partition: int = 0) -> PartitionState:
        state = self.image.state(topic_id, partition)
        assert state is not None
        return state

    def commit(self, transaction: Transaction) -> int | None:
        """Make a transaction, and see it in the image."""
        revision = self.store.transact(*transaction)
        self.refresh()
        return revision

    def refresh(self) -> None:
        for changes in self.store.changes(self.image.revision):
            complete(self.image.apply(changes))

    def place(self, partitions: int, factor: int, start: int = 0) -> tuple[Replicas, ...]:
        return complete(placement.place(self.image, partitions, factor, start))


def keys(entries: Sequence[metadata.Operation]) -> list[bytes]:
    return [each.key for each in entries]
