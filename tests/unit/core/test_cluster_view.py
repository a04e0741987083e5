"""What a broker of a cluster tells clients of it."""

import pytest

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import BrokerState, Endpoint, Registration
from broker.core.cluster.slices import complete
from broker.core.cluster_view import Clustered, KnownBroker
from broker.storage.metadata import Put
from tests.support.memory_store import MemoryStore

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
def test_a_broker_is_always_one_of_the_brokers_that_it_names(
    others: tuple[int, ...], is_registered: bool
) -> None:
    image = registered(MemoryStore(), *others, *((2,) if is_registered else ()))
    view = Clustered(2, "r2", image)

    found = view.brokers("asked.at", 9)

    assert found == sorted([SELF, *(KnownBroker(each, "h", each, f"r{each}") for each in others)])
