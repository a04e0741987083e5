"""Event sourcing: streams of versioned events, as the event stores of Cursus's clients use them."""

import struct
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.compatibility.cursus.event_stores import EventStore, RefusedError
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch
from tests.support.wire_client import WireClient

StartBroker = Callable[..., BrokerProcess]




@pytest.fixture
def store(broker: Broker) -> Iterator[EventStore]:
    with EventStore(broker.address, f"es-{uuid.uuid4().hex[:8]}") as found:
        found.create(2)
        yield found


def test_events_get_the_versions_that_were_expected(store: EventStore) -> None:
    first = store.append("order-1", 1, "placed")
    second = store.append("order-1", 2, "paid", metadata="by=card")
    other = store.append("order-2", 1, "placed")

    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert (store.version("order-1"), store.version("order-2")) == (2, 1)
    assert store.version("order-3") == 0
    snapshot, events = store.read("order-1")
    assert snapshot is None
    assert [
        (each.aggregate_version, each.offset, each.payload, each.metadata) for each in events
    ] == [(1, first.offset, b"placed", b""), (2, second.offset, b"paid", b"by=card")]
    assert {(each.event_type, each.schema_version, each.key) for each in events} == {
        (b"Happened", 1, b"order-1")
    }


def test_another_version_than_the_next_is_a_conflict(store: EventStore) -> None:
    store.append("a", 1, "x")

    for version in (1, 3, 0):
        with pytest.raises(RefusedError, match=f"version_conflict current=1 expected={version}"):
            store.append("a", version, "again")

    assert [each.payload for each in store.read("a").events] == [b"x"]
