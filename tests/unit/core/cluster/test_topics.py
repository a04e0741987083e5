"""The transactions that create, enlarge and delete topics."""

import pytest

from broker.core.cluster import eligibility, records, topics
from broker.core.cluster.image import Topic
from broker.core.cluster.records import DeletedTopic, PartitionState, Transaction
from broker.core.cluster.slices import complete
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import BROKERS_PER_TOPIC_MAX, CLUSTER_PARTITIONS_PER_STEP
from broker.storage import metadata
from broker.storage.metadata import Put
from tests.unit.core.cluster.clusters import Cluster

TOPIC_ID = bytes([7] * 16)


def topic_of(cluster: Cluster, name: str) -> Topic:
    topic = cluster.image.topic(name)
    assert topic is not None
    return topic


def test_a_topic_is_created_in_one_transaction_with_its_id_and_configuration() -> None:
    cluster = Cluster(2)
    config = Put(metadata.topic_config_key("t"), b"config")

    revision = cluster.commit(
        topics.creation(cluster.image, "t", TOPIC_ID, ((1, 2), (2, 1)), [config])
    )

    assert revision is not None
    assert topic_of(cluster, "t").mod_revision == revision
    assert cluster.state(TOPIC_ID, 1) == PartitionState(
        2, 0, cluster.image.brokers[2].epoch, (2, 1), (2, 1), 0
    )
    assert cluster.image.configs[config.key].value == b"config"
    assert cluster.store.get(metadata.topic_id_key(TOPIC_ID)) is not None


def test_of_two_creations_of_a_name_one_is_refused() -> None:
    cluster = Cluster(1)
    first = topics.creation(cluster.image, "t", TOPIC_ID, ((1,),))
    second = topics.creation(cluster.image, "t", bytes(16), ((1,),))

    assert cluster.commit(first) is not None
    assert cluster.commit(second) is None


@pytest.mark.parametrize("change", ["fail", "restart"])
def test_a_topic_is_not_placed_on_an_incarnation_that_has_ended(change: str) -> None:
    cluster = Cluster(2)
    creation = topics.creation(cluster.image, "t", TOPIC_ID, ((1, 2),))
    getattr(cluster, change)(2)

    assert cluster.commit(creation) is None


def test_replicas_on_brokers_that_are_not_registered_are_refused() -> None:
    cluster = Cluster(2)

    with pytest.raises(RequestError, match=r"\[3\]") as refused:
        topics.creation(cluster.image, "t", TOPIC_ID, ((1, 3),))
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_on_more_brokers_than_a_transaction_can_guard_are_refused() -> None:
    cluster = Cluster(BROKERS_PER_TOPIC_MAX + 1)
    replicas = tuple((each,) for each in range(1, BROKERS_PER_TOPIC_MAX + 2))

    with pytest.raises(RequestError, match="at most"):
        topics.creation(cluster.image, "t", TOPIC_ID, replicas)


def test_an_enlargement_keeps_the_incarnations_from_which_old_states_follow() -> None:
    cluster = Cluster(2)
    topic_id = cluster.create("t", (1, 2))
    before = cluster.state(topic_id)
    cluster.restart(1)
    cluster.register(3)
    cluster.refresh()

    added = topics.enlargement(cluster.image, topic_of(cluster, "t"), ((1, 3), (3, 2)))

    assert cluster.commit(added) is not None
    assert cluster.state(topic_id) == before
    # The restarted broker is not served by its epoch at the creation: the controller elects it.
    assert cluster.state(topic_id, 1) == PartitionState(
        1, 0, before.broker_epoch, (1, 3), (1, 3), 0
    )
    assert cluster.state(topic_id, 2).broker_epoch == cluster.image.brokers[3].epoch


def test_an_enlargement_of_a_topic_that_has_changed_is_refused() -> None:
    cluster = Cluster(1)
    cluster.create("t", (1,))
    first = topics.enlargement(cluster.image, topic_of(cluster, "t"), ((1,),))
    second = topics.enlargement(cluster.image, topic_of(cluster, "t"), ((1,), (1,)))

    assert cluster.commit(first) is not None
    assert cluster.commit(second) is None


def test_a_topic_of_a_standalone_broker_is_enlarged_without_replicas() -> None:
    cluster = Cluster(1)
    record = records.TopicRecord(TOPIC_ID, 2, (), {})
    cluster.store.transact([], [Put(metadata.topic_key("t"), records.topic_value(record))])
    cluster.refresh()

    added = topics.enlargement(cluster.image, topic_of(cluster, "t"), ((1,),))

    assert cluster.commit(added) is not None
    assert topic_of(cluster, "t").record == record._replace(partitions=3)


def test_a_deletion_names_all_brokers_that_hold_a_replica_now() -> None:
    cluster = Cluster(4)
    topic_id = cluster.create("t", (1, 2), (2, 1))
    cluster.put(topic_id, 0, PartitionState(3, 1, 3, (3, 2), (3, 2), 1))

    deletion = complete(topics.deletion(cluster.image, topic_of(cluster, "t"), 1_000))

    assert cluster.commit(deletion) is not None
    assert cluster.image.topic("t") is None
    assert cluster.store.get(metadata.topic_id_key(topic_id)) is None
    assert cluster.image.deleted[topic_id].topic == DeletedTopic("t", 2, (1, 2, 3), 1_000)


def test_the_deletion_of_a_topic_that_has_changed_is_refused() -> None:
    cluster = Cluster(1)
    cluster.create("t", (1,))
    deletion = complete(topics.deletion(cluster.image, topic_of(cluster, "t"), 1_000))
    cluster.commit(topics.enlargement(cluster.image, topic_of(cluster, "t"), ((1,),)))

    assert cluster.commit(deletion) is None


def test_a_large_topic_is_deleted_in_slices() -> None:
    cluster = Cluster(1)
    cluster.create("t", *[(1,)] * 2 * CLUSTER_PARTITIONS_PER_STEP)
    deletion = topics.deletion(cluster.image, topic_of(cluster, "t"), 1_000)

    assert sum(1 for _ in deletion) == 2


def test_each_broker_confirms_once_that_it_has_no_folders_any_more() -> None:
    cluster = Cluster(2)
    topic_id = cluster.create("t", (1, 2))
    cluster.commit(complete(topics.deletion(cluster.image, topic_of(cluster, "t"), 1_000)))

    for broker_id in (1, 2):
        confirmation = topics.confirmation(cluster.image, topic_id, broker_id)
        assert confirmation is not None
        assert cluster.commit(confirmation) is not None
        assert topics.confirmation(cluster.image, topic_id, broker_id) is None
    assert cluster.image.deleted[topic_id].topic.pending == ()
    assert topics.confirmation(cluster.image, TOPIC_ID, 1) is None


def test_an_enlargement_names_other_incarnations_for_brokers_that_were_emptied() -> None:
    cluster = Cluster(2)
    topic_id = cluster.create("t", (1, 2), (2, 1))
    cluster.empty(2)
    epoch = cluster.restart(2)
    topic = cluster.image.topics[topic_id]

    assert cluster.commit(topics.enlargement(cluster.image, topic, ((2, 1),))) is not None

    record = cluster.image.topics[topic_id].record
    assert record.broker_epochs == topic.record.broker_epochs
    assert record.enlarged == ((2, {1: 1, 2: epoch}),)
    assert [eligibility.counts(cluster.image, (topic_id, each), 2) for each in range(3)] == [
        False,
        False,
        True,
    ]
    assert cluster.state(topic_id, 2).is_served_by(2, epoch)


def test_later_enlargements_keep_these_incarnations_and_add_brokers() -> None:
    cluster = Cluster(3)
    topic_id = cluster.create("t", (1, 2))
    cluster.empty(2)
    epoch = cluster.restart(2)
    for replicas in ((2, 1), (1, 2), (3, 2)):
        topic = cluster.image.topics[topic_id]
        assert cluster.commit(topics.enlargement(cluster.image, topic, (replicas,))) is not None

    record = cluster.image.topics[topic_id].record

    assert record.enlarged == ((1, {1: 1, 2: epoch}), (3, {1: 1, 2: epoch, 3: 3}))
    assert all(eligibility.counts(cluster.image, (topic_id, each), 2) for each in (1, 2, 3))


def test_a_topic_counts_its_members_as_of_its_creation_if_it_names_no_incarnations() -> None:
    cluster = Cluster(2)
    topic_id = cluster.create("t", (1, 2))
    key = metadata.topic_key("t")
    record = cluster.image.topics[topic_id].record._replace(broker_epochs={1: 0, 2: 0})
    cluster.commit(Transaction([], [Put(key, records.topic_value(record))]))
    cluster.restart(1)
    cluster.empty(2)
    cluster.restart(2)

    assert eligibility.counts(cluster.image, (topic_id, 0), 1)
    assert not eligibility.counts(cluster.image, (topic_id, 0), 2)
