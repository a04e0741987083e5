"""Other replicas for a partition, while it is led and written to (KIP-455).

    step                      replicas                adding            removing      by
    none                      1 2 3                   -                 -
    begun, with 4 2 5         4 2 5 1 3               4 5               1 3           any broker
    all of 4 2 5 are added    -                       -                 -             the leader
    to the ISR
    the leader is one of 1 3  a successor of 4 2 5 is named, and the leader hands over to it
    completed                 4 2 5                   -                 -             the controller

Another target replaces the one of a reassignment in progress: what it has added and the new target
lacks is to be removed. Cancelling is a reassignment to the replicas that were not being added, so
that a leader among these hands over, too.

Nothing that was acknowledged is lost: the ISR becomes smaller at the end, by members that are not
needed because others have everything.

A removed replica deletes what it has, and may be added again at once, in the same incarnation. What
it has told of its log before must not count then. So a removal raises the leader epoch, as in
Kafka: the leader stays, and knows nothing of any replica until that has asked in the new epoch.
It waits for a hand-over that is under way: a leader that has stopped begins no epoch any more.
"""

from collections.abc import Sequence

from broker.core.cluster import election, eligibility, records
from broker.core.cluster.eligibility import Known
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, PartitionState, Replicas, Transaction
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    BROKERS_PER_TOPIC_MAX,
)
from broker.storage import metadata
from broker.storage.metadata import CreatedAt, Unchanged

# ---- by an operator
# -------------------------------------------------------------------------------------------------


def begin(
    image: ClusterImage, topic_id: bytes, partition: int, target: Sequence[int]
) -> Transaction:
    """Return the transaction that begins a reassignment, or changes the target of one.

    Raises:
        RequestError: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT, when a broker of the
            target is not registered or is there twice.
    """
    found = _known(image, topic_id, partition)
    _check(image, target)
    return _transaction(image, topic_id, found, partition, begun(found.state, tuple(target)))


def cancel(image: ClusterImage, topic_id: bytes, partition: int) -> Transaction:
    """Return the transaction that cancels a reassignment.

    Raises:
        RequestError: UNKNOWN_TOPIC_OR_PARTITION; NO_REASSIGNMENT_IN_PROGRESS;
            INVALID_REPLICA_ASSIGNMENT, when no replica would be left.
    """
    found = _known(image, topic_id, partition)
    state = found.state
    if not state.adding and not state.removing:
        raise RequestError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not being reassigned"
        )
    kept = tuple([each for each in state.replicas if each not in state.adding])
    if not kept:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all replicas of the partition are being added"
        )
    return _transaction(image, topic_id, found, partition, begun(state, kept))


def begun(state: PartitionState, target: Replicas) -> PartitionState:
    """Return the state in which a partition is reassigned to a target."""
    established = set(state.replicas).difference(state.adding)
    adding = tuple([each for each in target if each not in established])
    removing = tuple([each for each in state.replicas if each not in target])
    return state._replace(replicas=target + removing, adding=adding, removing=removing)


def _known(image: ClusterImage, topic_id: bytes, partition: int) -> Known:
    found = eligibility.known(image, topic_id, partition) if partition >= 0 else None
    if found is None or not found.state.replicas:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
    return found


def _check(image: ClusterImage, target: Sequence[int]) -> None:
    if not 0 < len(target) == len(set(target)) <= BROKERS_PER_TOPIC_MAX:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {list(target)}: they are 1 to {BROKERS_PER_TOPIC_MAX} different brokers",
        )
    missing = [each for each in target if each not in image.brokers]
    if missing:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"brokers {missing} are not registered"
        )


def _transaction(
    image: ClusterImage, topic_id: bytes, found: Known, partition: int, changed: PartitionState
) -> Transaction:
    topic = image.topics[topic_id]
    changed = found.next(changed)
    guards, put = eligibility.change(image, (topic_id, partition), found, changed)
    added = [
        CreatedAt(records.broker_key(each), image.brokers[each].epoch)
        for each in changed.adding
        if each in image.brokers
    ]
    of_topic = Unchanged(metadata.topic_key(topic.name), topic.mod_revision)
    return Transaction(list(dict.fromkeys([of_topic, *guards, *added])), [put])


# ---- by the controller
# -------------------------------------------------------------------------------------------------


def advanced(found: Known, settings: ReplicaSettings) -> PartitionState | None:
    """Return the next step of a reassignment in progress; None: it waits, or there is none."""
    state = found.state
    if not (state.adding or state.removing) or not election.has_leader(found):
        return None
    target = [each for each in state.replicas if each not in state.removing]
    isr = [each for each in target if each in state.isr and found.counts(each)]
    if not isr or not set(state.adding).issubset(isr):
        return None
    if state.leader in target:
        if state.successor != NO_LEADER:
            return None
    else:
        if state.successor in isr:
            return None
        successor = next((each for each in isr if election.runs(each, found.brokers)), None)
        return None if successor is None else found.next(state._replace(successor=successor))
    leader_epoch = state.leader_epoch + bool(state.removing)
    completed = state._replace(
        leader_epoch=leader_epoch, replicas=tuple(target), adding=(), removing=()
    )
    members, elr = eligibility.without(found, tuple(isr), (), completed.min_isr(settings.min_isr))
    return found.next(
        completed._replace(isr=members, elr=tuple([each for each in elr if each in target]))
    )
