"""The image of a cluster: loads, changes, what has changed, and what it counts."""

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.cluster import records
from broker.core.cluster.counts import PartitionCounts
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.records import (
    BrokerState,
    ControllerClaim,
    DeletedTopic,
    PartitionState,
    Registration,
    TopicRecord,
)
from broker.core.cluster.security_entries import Kind
from broker.core.cluster.slices import complete
from broker.model.errors import StorageError
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP
from broker.storage import metadata
from broker.storage.metadata import Absent, Changes, Delete, Event, KeyValue, Put, Unchanged
from tests.support.memory_store import MemoryStore

IDS = [bytes([each] * 16) for each in range(1, 5)]
NAMES = {"a": IDS[:2], "b": IDS[2:]}  # an id never has another name


def topic(topic_id: bytes, *replicas: tuple[int, ...], epoch: int = 1) -> bytes:
    epochs = {each: epoch for replica_list in replicas for each in replica_list}
    return records.topic_value(TopicRecord(topic_id, len(replicas), replicas, epochs))


def state(leader: int, *replicas: int, epoch: int = 1) -> bytes:
    return records.partition_value(
        PartitionState(leader, epoch, 1 if leader >= 0 else 0, replicas, replicas, epoch)
    )


def loaded(store: MemoryStore) -> ClusterImage:
    image = ClusterImage()
    complete(image.load(*store.scan()))
    return image


def content(image: ClusterImage) -> dict[str, Any]:
    counts = image.counts
    return {
        **{
            name: getattr(image, name)
            for name in image.__slots__
            if name[0] != "_" and name != "seen"
        },
        "counts": (counts.replicas, counts.preferred, counts.leaders),
        "security": {kind: dict(image.security.entries(kind)) for kind in Kind},
    }


def counted(image: ClusterImage) -> PartitionCounts:
    """Count anew."""
    counts = PartitionCounts()
    for topic_id, each in image.topics.items():
        for partition in range(each.record.partitions):
            found = image.state(topic_id, partition)
            assert found is not None
            counts.add(found.leader, found.replicas, 1)
    return counts


def changed(old: ClusterImage, new: ClusterImage) -> dict[str, Any]:
    """Compare two images by everything that they keep."""

    def differ(name: str) -> set[Any]:
        here, there = getattr(old, name), getattr(new, name)
        return {key for key in here.keys() | there.keys() if here.get(key) != there.get(key)}

    partitions = {
        (topic_id, partition)
        for topic_id in old.stored.keys() | new.stored.keys()
        for partition in range(5)
        if old.stored.get(topic_id, {}).get(partition)
        != new.stored.get(topic_id, {}).get(partition)
    }
    return {
        "brokers": differ("brokers"),
        "is_controller_changed": old.controller != new.controller,
        "topics": differ("topics") & new.topics.keys(),
        "deleted_topics": {key: old.topics[key] for key in old.topics.keys() - new.topics.keys()},
        "partitions": partitions,
        "deleted": differ("deleted"),
        "configs": differ("configs"),
    }


def shown(delta: Delta) -> dict[str, Any]:
    return {
        name: set(found)
        if isinstance(found := getattr(delta, name), dict) and (name != "deleted_topics")
        else found
        for name in delta.__slots__
    }


def random_operation(rng: Random) -> Put | Delete:
    """Return any change, also one that no broker makes: of a name's id, or of fewer partitions."""
    replicas = [tuple(rng.sample(range(3), rng.randint(1, 3))) for _ in range(rng.randint(1, 4))]
    name = rng.choice(list(NAMES))
    topic_id = rng.choice(NAMES[name])
    registration = Registration(
        *(str(rng.random()), (), None, "h", rng.choice(list(BrokerState))),
        is_fenced=rng.random() < 0.3,
    )
    keys: dict[bytes, bytes] = {
        metadata.topic_key(name): topic(topic_id, *replicas),
        records.partition_key(topic_id, rng.randrange(5)): state(replicas[0][-1], *replicas[0]),
        records.broker_key(rng.randrange(3)): records.registration_value(registration),
        records.CONTROLLER: records.controller_value(ControllerClaim(rng.randrange(3), 1)),
        metadata.topic_config_key("a"): str(rng.random()).encode(),
        metadata.deleted_topic_key(topic_id): records.deleted_value(
            DeletedTopic("a", 1, (), rng.randrange(9))
        ),
        records.CLUSTER: records.cluster_value("c"),
        metadata.security_key("acl", str(rng.randrange(4))): str(rng.random()).encode(),
        metadata.security_key("newer", "a"): b"whatever",
        b"node/1": b"whatever",
    }
    key = rng.choice(list(keys))
    return Delete(key) if rng.random() < 0.3 else Put(key, keys[key])


def change_at_random(store: MemoryStore, rng: Random) -> None:
    operations = {each.key: each for each in (random_operation(rng) for _ in range(3))}
    store.transact([], list(operations.values()))


@given(st.integers(0, 1 << 32), st.integers(0, 20), st.integers(1, 10))
def test_changes_lead_to_the_same_image_as_a_load_and_the_delta_is_what_differs(
    seed: int, before: int, after: int
) -> None:
    store, rng = MemoryStore(), Random(seed)
    for _ in range(before):
        change_at_random(store, rng)
    image, reloaded, old = loaded(store), loaded(store), loaded(store)
    for _ in range(after):
        change_at_random(store, rng)
    events = [each for changes in store.changes(image.revision) for each in changes.events]

    delta = complete(image.apply(Changes(store.revision, events)))
    loaded_delta = complete(reloaded.load(*store.scan()))

    assert content(image) == content(reloaded) == content(loaded(store))
    counts = counted(image)
    assert content(image)["counts"] == (counts.replicas, counts.preferred, counts.leaders)
    assert shown(loaded_delta) == changed(old, image)
    # A watch also shows what was changed and changed back.
    for name, differing in shown(loaded_delta).items():
        applied = shown(delta)[name]
        if name != "deleted_topics":
            assert applied >= differing
    assert delta.deleted_topics.keys() >= loaded_delta.deleted_topics.keys()
    assert not delta.deleted_topics.keys() & image.topics.keys()


def test_a_partition_without_a_key_has_the_state_of_its_topic() -> None:
    store = MemoryStore()
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1), (1, 2), epoch=7))])
    image = loaded(store)

    assert image.state(IDS[0], 0) == PartitionState(2, 0, 7, (2, 1), (2, 1), 0)
    assert image.state(IDS[0], 2) is None
    assert image.state(IDS[1], 0) is None
    assert image.guard(IDS[0], 0) == Absent(records.partition_key(IDS[0], 0))


def test_a_topic_of_a_standalone_broker_has_partitions_without_leaders() -> None:
    store = MemoryStore()
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0]).replace(b'ns": 0', b'ns": 2'))])

    assert loaded(store).state(IDS[0], 1) == PartitionState(-1, 0, 0, (), (), 0)


def test_a_stored_state_replaces_that_of_the_topic_and_is_guarded_by_its_revision() -> None:
    store = MemoryStore()
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1)))])
    store.transact([], [Put(records.partition_key(IDS[0], 0), state(1, 2, 1, epoch=5))])
    image = loaded(store)

    assert image.state(IDS[0], 0) == PartitionState(1, 5, 1, (2, 1), (2, 1), 5)
    assert image.guard(IDS[0], 0) == Unchanged(records.partition_key(IDS[0], 0), 2)
    assert (image.counts.preferred, image.counts.leaders) == ({2: 1}, {1: 1})


def test_changes_of_leaders_and_isrs_are_counted_where_they_lead_to() -> None:
    store = MemoryStore()
    key = records.partition_key(IDS[0], 0)
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1)))])
    store.transact([], [Put(key, state(1, 2, 1, epoch=5))])
    image = loaded(store)
    assert not image.seen.elections, "what a load finds was seen by nobody"

    for value in (state(2, 2, epoch=6), state(2, 2, 1, epoch=6), state(3, 3, epoch=7)):
        before = image.revision
        store.transact([], [Put(key, value)])
        [changes] = store.changes(before)
        complete(image.apply(changes))
    store.transact([], [Delete(key)])
    [changes] = store.changes(image.revision)
    complete(image.apply(changes))

    assert image.seen.elections == {2: 2, 3: 1}, "the state of its topic is the last one"
    assert image.seen.unclean_elections == {3: 1, 2: 1}
    assert image.seen.shrinks == {2: 1, 3: 1}
    assert image.seen.expansions == {2: 2}
    complete(image.load(*store.scan()))
    assert image.seen.elections == {2: 2, 3: 1}


def test_states_of_a_deleted_topic_stay_until_their_keys_are_deleted() -> None:
    store = MemoryStore()
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1)))])
    store.transact([], [Put(records.partition_key(IDS[0], 0), state(1, 2, 1))])
    store.transact([], [Delete(metadata.topic_key("a"))])
    image = loaded(store)

    assert image.topic("a") is None
    assert image.state(IDS[0], 0) is None
    assert image.stored.keys() == {IDS[0]}
    assert content(image)["counts"] == ({}, {}, {})


def test_an_enlargement_keeps_the_states_of_the_old_partitions() -> None:
    store = MemoryStore()
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1), epoch=7))])
    image = loaded(store)
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1), (1, 2), epoch=7))])

    delta = complete(image.apply(store.changes(image.revision)[0]))

    assert list(delta.topics) == [IDS[0]]
    assert not delta.deleted_topics
    assert image.counts.replicas == {1: 2, 2: 2}


def test_a_topic_that_was_created_again_is_another_one() -> None:
    store = MemoryStore()
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[0], (2, 1)))])
    image = loaded(store)
    store.transact([], [Put(metadata.topic_key("a"), topic(IDS[1], (1,)))])

    delta = complete(image.apply(store.changes(image.revision)[0]))

    assert list(delta.topics) == [IDS[1]]
    assert delta.deleted_topics.keys() == {IDS[0]}
    created = image.topic("a")
    assert created is not None
    assert created.record.topic_id == IDS[1]


def test_brokers_and_controller_are_known_by_the_revision_of_their_creation() -> None:
    store = MemoryStore()
    lease = store.grant()
    running = Registration("i", (), "r", "h", BrokerState.RUNNING)
    draining = running._replace(state=BrokerState.DRAINING)
    key = records.broker_key(1)
    store.transact([], [Put(key, records.registration_value(running), lease)])
    claim = records.controller_value(ControllerClaim(1, 1))
    store.transact([], [Put(records.CONTROLLER, claim, lease)])
    store.transact([], [Put(key, records.registration_value(draining), lease)])
    image = loaded(store)

    assert image.brokers[1].epoch == 1
    assert image.brokers[1].is_draining
    assert image.is_registered(1, 1)
    assert not image.is_registered(1, 3)
    assert image.controller is not None
    assert image.controller.epoch == 2
    assert image.is_controller(1, 1)
    assert not image.is_controller(1, 2)

    store.expire(lease)
    delta = complete(image.apply(store.changes(image.revision)[0]))

    assert delta.brokers == {1}
    assert delta.is_controller_changed
    assert not image.brokers
    assert not image.is_controller(1, 1)


def test_a_registration_that_is_fenced_counts_once_it_is_no_longer() -> None:
    store = MemoryStore()
    lease = store.grant()
    fenced = Registration("i", (), None, "h", BrokerState.RUNNING, is_fenced=True)
    key = records.broker_key(1)
    image = loaded(store)

    def next_delta(registration: Registration | None) -> Delta:
        if registration is None:
            store.expire(lease)
        else:
            store.transact([], [Put(key, records.registration_value(registration), lease)])
        return complete(image.apply(store.changes(image.revision)[0]))

    assert not next_delta(fenced).brokers
    assert not image.brokers
    assert image.is_fenced(1, 1)
    assert not image.is_registered(1, 1)
    assert loaded(store).fenced == image.fenced
    assert next_delta(fenced._replace(is_fenced=False)).brokers == {1}
    assert image.is_registered(1, 1)
    assert not image.fenced
    assert next_delta(None).brokers == {1}


def test_a_registration_that_ends_while_it_is_fenced_changes_no_broker() -> None:
    store = MemoryStore()
    lease = store.grant()
    fenced = Registration("i", (), None, "h", BrokerState.RUNNING, is_fenced=True)
    value = records.registration_value(fenced)
    store.transact([], [Put(records.broker_key(1), value, lease)])
    image = loaded(store)
    store.expire(lease)

    delta = complete(image.apply(store.changes(image.revision)[0]))

    assert not delta.brokers
    assert not image.fenced


@pytest.mark.parametrize("key", [b"broker/1", b"controller", b"cluster", b"topic/a", b"deleted/x"])
def test_a_damaged_entry_ends_a_load_and_is_named(key: bytes) -> None:
    image = ClusterImage()

    with pytest.raises(StorageError, match=key.decode()):
        complete(image.load([KeyValue(key, b"{}", 1, 1)], 1))


@pytest.mark.parametrize("partitions", [1, 10, 10_000])
def test_loads_and_changes_of_many_partitions_take_many_slices(partitions: int) -> None:
    store = MemoryStore()
    for each in range(10_000 // partitions):
        replicas = [(1, 2, 3)] * partitions
        topic_id = each.to_bytes(16)
        store.transact([], [Put(metadata.topic_key(str(each)), topic(topic_id, *replicas))])
    image, previous = ClusterImage(), content(ClusterImage())
    entries, revision = store.scan()
    events = [Event(each.key, each, each.mod_revision) for each in entries]
    applied = ClusterImage()

    slices = 0
    for _ in image.load(entries, revision):
        slices += 1
        assert content(image) == previous
    changes = sum(1 for _ in applied.apply(Changes(revision, events)))

    assert min(slices, changes) >= 10_000 // CLUSTER_PARTITIONS_PER_STEP
    assert content(image) == content(applied)
    loaded_again = sum(1 for _ in image.load(entries, revision))
    assert loaded_again >= slices
    complete(image.release())
    assert content(image) == content(applied)


def test_what_was_missed_may_be_everything_that_an_image_has() -> None:
    store = MemoryStore()
    count = 3 * CLUSTER_PARTITIONS_PER_STEP
    store.transact([], [Put(metadata.topic_key("t"), topic(IDS[0], *[(1, 2)] * count))])
    for each in range(count):
        store.transact([], [Put(records.partition_key(IDS[0], each), state(2, 1, 2))])
    image = loaded(store)

    delta = complete(Delta.of_everything(image))

    assert list(delta.topics) == [IDS[0]]
    assert set(delta.partitions) == {(IDS[0], each) for each in range(count)}
    assert delta.is_controller_changed


def test_a_partition_in_its_default_state_takes_less_than_a_kilobyte() -> None:
    store = MemoryStore()
    for each in range(1_000):
        store.transact(
            [], [Put(metadata.topic_key(str(each)), topic(each.to_bytes(16), (1, 2, 3)))]
        )
    entries, revision = store.scan()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        image = ClusterImage()
        complete(image.load(entries, revision))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(image.topics) == 1_000
    assert after - before < 1_000 * 1_024
