"""One member's next step from what it has to what it shall have (KIP-848, section "Rebalance").

    has and shall not: give back first; the epoch waits until the member no longer reports it
    shall and nobody has: take, and go to the target's epoch
    shall and another has: go to the target's epoch, ask again at the next heartbeat

A partition is nobody's only once its last owner no longer reports it, has left or was fenced, so
no two members have it at once, whatever the targets were in between.
"""

from collections.abc import Callable, Container

from broker.core.groups.consumer.records import (
    NO_PARTITIONS,
    CurrentAssignment,
    MemberState,
    Partitions,
)


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_taken: Callable[[bytes, int], bool],
) -> CurrentAssignment:
    """What the member has from now on; the same object if nothing has changed.

    Args:
        current: what it has.
        target_epoch: of the newest target.
        target: what it shall have, of topics that it is subscribed to.
        owned: what it says it owns; None if it does not say.
        is_taken: whether somebody else has a partition.
    """
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, current.revoking):
        return current
    kept = intersection(current.assigned, target)
    revoking = difference(current.assigned, target)
    if revoking and _owns(owned, revoking):
        return CurrentAssignment(
            current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    wanted = difference(target, kept)
    free = {
        topic: tuple(each for each in numbers if not is_taken(topic, each))
        for topic, numbers in wanted.items()
    }
    is_complete = all(len(free[topic]) == len(numbers) for topic, numbers in wanted.items())
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    taken = CurrentAssignment(target_epoch, current.epoch, state, union(kept, free))
    return current if _is_same(taken, current) else taken


def _is_same(after: CurrentAssignment, before: CurrentAssignment) -> bool:
    """Whether only the previous epoch would change, as when a member asks again in vain."""
    return after._replace(previous_epoch=before.previous_epoch) == before


def _owns(owned: Partitions | None, revoking: Partitions) -> bool:
    """Whether a member may still have some of these; one that does not say may have all."""
    return owned is None or bool(intersection(revoking, owned))


def is_subset(some: Partitions, others: Partitions) -> bool:
    """Whether all of the partitions are among the others."""
    return all(set(numbers).issubset(others.get(topic, ())) for topic, numbers in some.items())


def intersection(some: Partitions, others: Partitions) -> Partitions:
    """The partitions that are in both."""
    return _filtered(some, others, is_wanted=True)


def difference(some: Partitions, others: Partitions) -> Partitions:
    """The partitions that are not among the others."""
    return _filtered(some, others, is_wanted=False)


def union(some: Partitions, others: Partitions) -> Partitions:
    """The partitions that are in either; none is in both."""
    topics = {**some, **others}
    merged = {
        topic: tuple(sorted(some.get(topic, ()) + others.get(topic, ())))
        for topic in sorted(topics)
    }
    return {topic: numbers for topic, numbers in merged.items() if numbers} or NO_PARTITIONS


def only_topics(partitions: Partitions, topics: Container[bytes]) -> Partitions:
    """The partitions of these topics; the same object if that is all of them."""
    if all(topic in topics for topic in partitions):
        return partitions
    return {topic: numbers for topic, numbers in partitions.items() if topic in topics}


def _filtered(some: Partitions, others: Partitions, *, is_wanted: bool) -> Partitions:
    left = {}
    for topic, numbers in some.items():
        known = frozenset(others.get(topic, ()))
        kept = tuple(each for each in numbers if (each in known) is is_wanted)
        if kept:
            left[topic] = kept
    return left or NO_PARTITIONS
