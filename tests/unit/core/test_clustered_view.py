"""What a broker knows of its cluster from the image of the metadata, and tells clients."""

import pytest

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import (
    NO_LEADER,
    BrokerState,
    Endpoint,
    PartitionState,
    Registration,
    TopicRecord,
)
from broker.core.cluster.slices import complete
from broker.core.cluster_view import KnownBroker
from broker.core.clustered_view import Clustered
from broker.storage import metadata
from broker.storage.metadata import Put
from tests.support.memory_store import MemoryStore

ID = bytes([1] * 16)
SELF = KnownBroker(2, "asked.at", 9, "r2")


def registered(store: MemoryStore, *broker_ids: int) -> ClusterImage:
    for each in broker_ids:
        registration = Registration(
            f"run-{each}", (Endpoint("", "h", each),), f"r{each}", f"h{each}", BrokerState.RUNNING
        )
        store.transact(
            [], [Put(records.broker_key(each), records.registration_value(registration))]
        )
    image = ClusterImage()
    complete(image.load(*store.scan()))
    return image


@pytest.mark.parametrize("others", [(), (1,), (3,), (1, 3)])
@pytest.mark.parametrize("is_registered", [True, False])
def test_a_broker_names_those_that_are_registered_and_itself_if_there_are_none(
    others: tuple[int, ...], is_registered: bool
) -> None:
    image = registered(MemoryStore(), *others, *((2,) if is_registered else ()))
    view = Clustered(2, "r2", image)

    found = view.brokers("asked.at", 9)

    own = [SELF] if is_registered or not others else []
    assert found == sorted([*own, *(KnownBroker(each, "h", each, f"r{each}") for each in others)])


def test_the_leader_of_a_partition_is_that_of_the_image() -> None:
    store = MemoryStore()
    registration = Registration("", (Endpoint("", "a", 1),), None, "h", BrokerState.RUNNING)
    epochs = {}
    for broker_id in (1, 2):
        put = Put(records.broker_key(broker_id), records.registration_value(registration))
        revision = store.transact([], [put])
        assert revision is not None
        epochs[broker_id] = revision
    replicas = ((1,), (2,), (3,), (2,))
    record = TopicRecord(ID, len(replicas), replicas, {**epochs, 3: 1})
    gone = PartitionState(2, epochs[2] - 1, 1, (2,), (2,), 1)
    store.transact(
        [],
        [
            Put(metadata.topic_key("t"), records.topic_value(record)),
            Put(records.partition_key(ID, 3), records.partition_value(gone)),
        ],
    )
    image = ClusterImage()
    complete(image.load(*store.scan()))

    view = Clustered(1, None, image)

    assert [view.leader_of("t", each) for each in range(5)] == [1, 2, NO_LEADER, NO_LEADER, None]
    assert view.leader_of("u", 0) is None


@pytest.mark.parametrize(("reads_by_rack", "expected"), [(False, {}), (True, {1: b"r1", 3: b"r3"})])
def test_consumers_read_in_their_rack_if_that_is_configured(
    reads_by_rack: bool, expected: dict[int, bytes]
) -> None:
    image = registered(MemoryStore(), 1, 2, 3)
    view = Clustered(2, "r2", image, reads_by_rack=reads_by_rack)
    assert view.reader_racks == expected


def test_a_leader_serves_its_own_rack_itself() -> None:
    view = Clustered(2, "r3", registered(MemoryStore(), 1, 2, 3), reads_by_rack=True)
    assert view.reader_racks == {1: b"r1"}
