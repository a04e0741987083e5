"""Metadata as lines of JSON, into another store, and with higher leader epochs."""

import json
from collections.abc import Sequence

import pytest

from broker.core.cluster import records, transfer
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, DeletedTopic, PartitionState, TopicRecord
from broker.core.cluster.slices import complete
from broker.core.cluster.transfer import Header
from broker.model.errors import ConfigError, StorageError
from broker.storage import metadata
from broker.storage.metadata import KeyValue, Put
from tests.support.memory_store import MemoryStore
from tests.unit.core.cluster.clusters import Cluster

TOPIC_ID = bytes(range(16))
OWN = Header("c" * 22, 3)
OF_CLUSTER = Header("c" * 22, None)


def entry(key: bytes, value: bytes) -> KeyValue:
    return KeyValue(key, value, 5, 7)


def topic(partitions: int = 2) -> KeyValue:
    """Return a topic of a standalone broker."""
    value = records.topic_value(TopicRecord(TOPIC_ID, partitions, (), {}))
    return entry(metadata.topic_key("t"), value)


def image_of(puts: Sequence[Put]) -> ClusterImage:
    store = MemoryStore()
    assert store.transact([], puts)
    image = ClusterImage()
    complete(image.load(*store.scan()))
    return image


def imported(header: Header, *entries: KeyValue) -> ClusterImage:
    return image_of(list(transfer.imported(header, entries, 99)))


def test_what_is_exported_is_what_is_parsed() -> None:
    entries = [topic(), entry(metadata.group_config_key("grüße"), b'{"version": 1, "config": {}}')]

    header, parsed = transfer.parse(transfer.lines(OWN, entries))

    assert header == OWN
    assert [(each.key, json.loads(each.value)) for each in parsed] == [
        (each.key, json.loads(each.value)) for each in entries
    ]


def test_what_belongs_to_running_brokers_or_to_the_store_is_not_exported() -> None:
    cluster = Cluster(2)
    cluster.take_office(1)
    cluster.store.transact(
        [],
        [
            Put(records.CLUSTER, records.cluster_value("c")),
            Put(metadata.MOVED_TO, b"{}"),
        ],
    )
    cluster.create("t", (1,))

    shown = list(transfer.lines(OF_CLUSTER, cluster.store.scan()[0]))

    assert [json.loads(each)["key"].split("/")[0] for each in shown[1:]] == ["topic", "topicid"]


def test_a_value_that_is_no_json_is_not_exported() -> None:
    with pytest.raises(StorageError, match="damaged b'x'"):
        list(transfer.lines(OWN, [entry(b"x", b"\xff")]))


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([], "line 1 is not that"),
        (["x"], "line 1 is not a JSON object"),
        (['{"version": 2, "cluster_id": "c"}'], "line 1 is not that"),
        (['{"version": 1, "cluster_id": "c", "standalone": "x"}'], "line 1 is not that"),
        (['{"version": 1, "cluster_id": "c"}', "[]"], "line 2 is not a JSON object"),
        (['{"version": 1, "cluster_id": "c"}', '{"key": "a"}'], "line 2 has no key and value"),
        (['{"version": 1, "cluster_id": "c"}', '{"key": "a", "value": 1}'], "line 2 has no key"),
    ],
)
def test_a_wrong_line_is_named(lines: list[str], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        transfer.parse(lines)


def test_a_standalone_brokers_topics_are_placed_on_it_above_its_leader_epochs() -> None:
    image = imported(OWN, topic(), entry(b"node/3", b'{"version": 1, "unclean_starts": 6}'))

    for number in range(2):
        state = image.state(TOPIC_ID, number)
        assert state == PartitionState(NO_LEADER, 6, 0, (3,), (3,), 1)
    assert image.state(TOPIC_ID, 2) is None


def test_without_unclean_starts_the_first_election_is_above_epoch_0() -> None:
    image = imported(OWN, topic())

    assert image.state(TOPIC_ID, 1) == PartitionState(3, 0, 0, (3,), (3,), 0)
    assert not image.is_registered(3, 0), "so the controller elects it, with epoch 1"


def test_a_standalone_brokers_deleted_topic_waits_for_it() -> None:
    value = records.deleted_value(DeletedTopic("t", 2))

    image = imported(OWN, entry(metadata.deleted_topic_key(TOPIC_ID), value))

    assert image.deleted[TOPIC_ID].topic == DeletedTopic("t", 2, (3,), 99)


def test_a_clusters_leader_epochs_are_kept_and_its_broker_epochs_are_not() -> None:
    """A broker of the new store may be registered at a revision that the old one had."""
    cluster = Cluster(2)
    topic_id = cluster.create("t", (1, 2), (2, 1))
    cluster.put(topic_id, 1, PartitionState(2, 4, 2, (2, 1), (2, 1), 9, successor=1))

    lines = list(transfer.lines(OF_CLUSTER, cluster.store.scan()[0]))
    image = imported(*_both(lines))

    assert image.state(topic_id, 0) == PartitionState(1, 0, 0, (1, 2), (1, 2), 0)
    assert image.state(topic_id, 1) == PartitionState(NO_LEADER, 4, 0, (2, 1), (2, 1), 9)


def _both(lines: list[str]) -> tuple[Header, *tuple[KeyValue, ...]]:
    header, entries = transfer.parse(lines)
    return (header, *entries)


def test_bumped_leader_epochs_are_above_those_of_any_log_and_nobody_leads() -> None:
    cluster = Cluster(2)
    topic_id = cluster.create("t", *[(1, 2)] * 250)
    cluster.put(topic_id, 7, PartitionState(2, 41, 2, (1, 2), (2,), 9))

    transactions = transfer.bumped(cluster.image)
    assert [len(each.operations) for each in transactions] == [100, 100, 50]
    for each in transactions:
        assert cluster.commit(each) is not None

    assert cluster.state(topic_id, 0) == PartitionState(NO_LEADER, 1_000_000, 0, (1, 2), (1, 2), 1)
    assert cluster.state(topic_id, 7) == PartitionState(NO_LEADER, 1_000_041, 0, (1, 2), (2,), 10)
    assert transactions[0].guards
    assert cluster.store.transact(*transactions[0]) is None, "it was changed meanwhile"


@pytest.mark.parametrize(
    ("value", "store"), [(transfer.moved_value("etcd://h:1/p"), "etcd://h:1/p"), (b"?", "another")]
)
def test_a_moved_store_names_its_successor(value: bytes, store: str) -> None:
    assert transfer.moved_to(None) is None
    assert (transfer.moved_to(entry(metadata.MOVED_TO, value)) or "").startswith(store)


def test_members_of_an_imported_state_are_known_as_of_the_import() -> None:
    state = PartitionState(1, 4, 9, (1, 2, 3), (1,), 6, 2, (2,), (3,), (), ((2, 5),))
    key = records.partition_key(TOPIC_ID, 0)
    image = imported(OF_CLUSTER, entry(key, records.partition_value(state)))

    stored = image.stored[TOPIC_ID][0]

    assert stored.state == PartitionState(
        NO_LEADER, 4, 0, (1, 2, 3), (1,), 6, elr=(2,), adding=(3,)
    )
    assert stored.mod_revision == image.revision


def test_an_imported_topic_names_no_incarnations_for_any_partition() -> None:
    record = TopicRecord(TOPIC_ID, 2, ((1,), (2,)), {1: 5, 2: 6}, ((1, {2: 7}),))
    image = imported(OF_CLUSTER, entry(metadata.topic_key("t"), records.topic_value(record)))

    topic = image.topics[TOPIC_ID]

    assert topic.record == TopicRecord(TOPIC_ID, 2, ((1,), (2,)), {1: 0, 2: 0})
    assert image.revision_of(TOPIC_ID, 1) == topic.create_revision == image.revision


def test_a_raised_state_names_its_members_as_of_the_backup_and_has_no_elr() -> None:
    cluster = Cluster(2)
    topic_id = cluster.create("t", (1, 2))
    state = cluster.state(topic_id)._replace(isr=(1,), elr=(2,), partition_epoch=1)
    cluster.put(topic_id, 0, state)
    revision = cluster.image.revision
    cluster.fail(1)
    cluster.fail(2)

    for transaction in transfer.bumped(cluster.image):
        assert cluster.commit(transaction) is not None

    raised = cluster.state(topic_id)
    assert (raised.isr, raised.elr, raised.absent) == ((1,), (), ((1, revision),))
