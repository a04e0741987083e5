"""The transactions that create, enlarge and delete topics. Any broker may make them.

    creation     topic/<name>, topicid/<id>           guards: there is no such topic; the brokers
                                                      are still the incarnations of the image
    enlargement  topic/<name>, with more replicas     guards: the topic is unchanged; as above
    deletion     topic/<name>, topicid/<id> deleted,  guard: the topic is unchanged
                 deleted/<id> made
    confirmation deleted/<id>, without one broker     guard: it is unchanged

The controller deletes the keys of a deleted topic's partitions, and `deleted/<id>` once no broker
has folders of it.

An enlarged topic keeps the broker epochs of its creation, because the states of its old partitions
follow from them. A new partition whose preferred leader has restarted since then has no leader
until the controller has elected one. If a broker has lost its records since then, the topic gets
other epochs for its new partitions: none of their replicas has lost anything (eligibility.py).
"""

from collections.abc import Iterable, Mapping, Sequence

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage, Topic
from broker.core.cluster.records import DeletedTopic, Replicas, TopicRecord, Transaction
from broker.core.cluster.slices import Slices
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import BROKERS_PER_TOPIC_MAX, CLUSTER_PARTITIONS_PER_STEP
from broker.storage import metadata
from broker.storage.metadata import Absent, CreatedAt, Delete, Guard, Operation, Put, Unchanged


def creation(
    image: ClusterImage,
    name: str,
    topic_id: bytes,
    replicas: tuple[Replicas, ...],
    others: Sequence[Operation] = (),
) -> Transaction:
    """Return the transaction that creates a topic.

    Args:
        image: the brokers.
        name: of the topic.
        topic_id: a new id.
        replicas: of each partition, by `placement.place` or as a client wants them.
        others: further operations, such as the topic's configuration.

    Raises:
        RequestError: INVALID_REPLICA_ASSIGNMENT, when a broker is not registered.
    """
    epochs = _epochs(image, replicas)
    record = TopicRecord(topic_id, len(replicas), replicas, epochs)
    guards: list[Guard] = [Absent(metadata.topic_key(name)), *_are_registered(epochs.items())]
    return Transaction(
        guards,
        [
            Put(metadata.topic_key(name), records.topic_value(record)),
            Put(metadata.topic_id_key(topic_id), records.topic_name_value(name)),
            *others,
        ],
    )


def enlargement(image: ClusterImage, topic: Topic, added: tuple[Replicas, ...]) -> Transaction:
    """Return the transaction that adds partitions; RequestError as for `creation`.

    A topic of a standalone broker remains one without replicas.
    """
    placed_on, first = _epochs(image, added), topic.record.partitions
    record = topic.record._replace(partitions=first + len(added))
    if record.replicas:
        record = record._replace(replicas=record.replicas + added)
        record = _with_epochs(image, record, first, placed_on)
    key = metadata.topic_key(topic.name)
    guards: list[Guard] = [Unchanged(key, topic.mod_revision), *_are_registered(placed_on.items())]
    return Transaction(guards, [Put(key, records.topic_value(record))])


def deletion(
    image: ClusterImage, topic: Topic, deleted_ms: int, others: Sequence[Operation] = ()
) -> Slices[Transaction]:
    """Return the transaction that deletes a topic.

    Args:
        image: the states of its partitions.
        topic: as the image has it.
        deleted_ms: the wall time.
        others: further operations, such as the deletion of its configuration.
    """
    record, key = topic.record, metadata.topic_key(topic.name)
    holders: set[int] = set()
    for partition in range(record.partitions):
        state = image.state(record.topic_id, partition)
        if state is not None:  # else it was deleted meanwhile, and the guard will not hold
            holders.update(state.replicas)
        if partition % CLUSTER_PARTITIONS_PER_STEP == CLUSTER_PARTITIONS_PER_STEP - 1:
            yield
    deleted = DeletedTopic(topic.name, record.partitions)
    if record.replicas:
        deleted = deleted._replace(pending=tuple(sorted(holders)), deleted_ms=deleted_ms)
    return Transaction(
        [Unchanged(key, topic.mod_revision)],
        [
            Delete(key),
            Delete(metadata.topic_id_key(record.topic_id)),
            Put(metadata.deleted_topic_key(record.topic_id), records.deleted_value(deleted)),
            *others,
        ],
    )


def confirmation(image: ClusterImage, topic_id: bytes, broker_id: int) -> Transaction | None:
    """Return how a broker confirms that it has no folders of a deleted topic; None: it need not."""
    stored = image.deleted.get(topic_id)
    if stored is None or stored.topic.pending is None or broker_id not in stored.topic.pending:
        return None
    rest = tuple(each for each in stored.topic.pending if each != broker_id)
    key = metadata.deleted_topic_key(topic_id)
    value = records.deleted_value(stored.topic._replace(pending=rest))
    return Transaction([Unchanged(key, stored.mod_revision)], [Put(key, value)])


def _with_epochs(
    image: ClusterImage, record: TopicRecord, first: int, placed_on: Mapping[int, int]
) -> TopicRecord:
    """Return a record with the broker epochs that its partitions have from `first` on."""
    known = record.epochs_of(first)
    record = record._replace(broker_epochs={**placed_on, **record.broker_epochs})
    has_lost = any(
        each in known and image.brokers[each].intact_since > known[each] for each in placed_on
    )
    if has_lost:
        return record._replace(enlarged=(*record.enlarged, (first, placed_on)))
    if not record.enlarged or placed_on.keys() <= known.keys():
        return record
    return record._replace(enlarged=(*record.enlarged, (first, {**placed_on, **known})))


def _epochs(image: ClusterImage, replicas: Iterable[Replicas]) -> dict[int, int]:
    placed_on = sorted({each for unique in set(replicas) for each in unique})
    if len(placed_on) > BROKERS_PER_TOPIC_MAX:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"a topic is placed on at most {BROKERS_PER_TOPIC_MAX} brokers",
        )
    missing = [each for each in placed_on if each not in image.brokers]
    if missing:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"brokers {missing} are not registered"
        )
    return {each: image.brokers[each].epoch for each in placed_on}


def _are_registered(epochs: Iterable[tuple[int, int]]) -> Iterable[Guard]:
    return (CreatedAt(records.broker_key(each), epoch) for each, epoch in epochs)
