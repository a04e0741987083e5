"""Brokers of one cluster over a memory store: each has an image of its own, which may be behind."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.records import NO_EPOCH, BrokerState, Endpoint, Registration
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.clustered_view import Clustered as View
from broker.core.partition_changes import PartitionChanges
from broker.core.session import Session
from broker.core.topics.cluster_placing import Clustered
from broker.core.topics.roles import Role, role_of
from broker.model.errors import StorageError
from broker.storage.files.deletion import DeletedFolders
from broker.storage.metadata import Guard, KeyValue, Operation, Put
from broker.storage.recovery.epochs import ElectedEpochs
from tests.support.fakes import NOW_MS, FakeBroker
from tests.support.memory_store import MemoryStore
from tests.unit.core.logs.test_native_log import NativeBroker


class MemoryMetadata:
    """The metadata of one broker; it learns of the changes of others in `catch_up`.

    Attributes:
        is_unavailable: whether changes fail.
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.image = ClusterImage()
        self.is_unavailable = False
        self.callbacks: list[Callable[[Delta], None]] = []
        self.catch_up()

    async def get(self, key: bytes) -> KeyValue | None:
        return self.store.get(key)

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        await asyncio.sleep(0)  # others may be first, as with every store
        if self.is_unavailable:
            raise StorageError("the store does not answer")
        revision = self.store.transact(guards, operations)
        self.catch_up()
        return revision

    def catch_up(self) -> None:
        for changes in self.store.changes(self.image.revision):
            delta = complete(self.image.apply(changes))
            for callback in self.callbacks:
                callback(delta)


class Led:
    """Leadership as the image has it (core/topics/interfaces.py).

    Attributes:
        is_member: whether the broker is registered, as far as it knows.
        pending: replicas whose addition to the ISR of any partition it is writing.
    """

    def __init__(self, broker_id: int, image: ClusterImage) -> None:
        self.is_member = True
        self.pending: tuple[int, ...] = ()
        self._broker_id = broker_id
        self._image = image

    def role(self, topic_id: bytes, partition: int, /) -> Role | None:
        state = self._image.state(topic_id, partition)
        if state is None:
            return None
        broker = self._image.brokers.get(self._broker_id)
        may_serve = broker is not None and self.is_member
        epoch = NO_EPOCH if broker is None else broker.epoch
        return role_of(state, (self._broker_id, epoch), self.pending, may_serve=may_serve)

    def keeps(self, topic_id: bytes, partition: int, /) -> bool:
        state = self._image.state(topic_id, partition)
        return state is None or self._broker_id in state.replicas


class MemoryCluster:
    """A store in which brokers are registered, and what each of them needs to be one."""

    def __init__(self, *broker_ids: int, racks: Sequence[str | None] = ()) -> None:
        self.store = MemoryStore()
        for place, broker_id in enumerate(broker_ids):
            self.register(broker_id, racks[place] if racks else None)

    def register(self, broker_id: int, rack: str | None = None) -> None:
        endpoints = (Endpoint("", f"host{broker_id}", 9000 + broker_id),)
        value = Registration(f"i{broker_id}", endpoints, rack, f"h{broker_id}", BrokerState.RUNNING)
        put = Put(records.broker_key(broker_id), records.registration_value(value))
        assert self.store.transact([], [put]) is not None

    def parts(self, broker_id: int) -> dict[str, Any]:
        """Return the arguments of FakeBroker that make it a broker of this cluster."""
        known = MemoryMetadata(self.store)
        return {
            "leadership": Led(broker_id, known.image),
            "known": known,
            "placing": Clustered(broker_id, known.image, lambda: NOW_MS, 0),
            "cluster": View(broker_id, None, known.image),
        }

    def broker(self, broker_id: int, **settings: str) -> FakeBroker:
        """Return a broker of fakes, with the image of now."""
        fake = FakeBroker({"node.id": str(broker_id), **settings}, **self.parts(broker_id))
        image = fake.metadata.image
        changes = PartitionChanges(
            *(fake.metadata, broker_id, TopicSettings(image, ReplicaSettings)), is_shared=False
        )
        fake.broker = fake.broker._replace(partition_changes=changes)
        fake.session = Session(fake.broker, "127.0.0.1", "broker.example", 9092)
        return fake

    def native(self, broker_id: int, path: Path) -> NativeBroker:
        """Return a broker whose logs are real."""
        broker = NativeBroker(path, ElectedEpochs(), broker_id, **self.parts(broker_id))
        broker.deletions._folders = DeletedFolders(path)
        return broker

    def deleted(self) -> list[records.DeletedTopic]:
        """Return the records of deleted topics."""
        prefix = b"deleted/"
        return [
            records.parse_deleted(entry)
            for key, entry in sorted(self.store.entries.items())
            if key.startswith(prefix)
        ]


def catch_up(broker: FakeBroker) -> None:
    """Let a broker's image have all changes; nothing follows it yet."""
    assert isinstance(broker.metadata, MemoryMetadata)
    broker.metadata.catch_up()
