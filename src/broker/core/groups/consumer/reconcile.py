"""One member's next step from its assignment to its target (KIP-848, section "Rebalance").

    assigned, not in the target: revoke first; the epoch stays until the member does not report it
    in the target, and free: assign, and advance to the target epoch
    in the target, owned by another member: advance to the target epoch, retry with each heartbeat

A partition is free only when its last owner does not report it any more, has left or was fenced. So
no two members own it at the same time, whatever targets there were in between.
"""

from collections.abc import Callable, Container

from broker.core.groups.records.consumer import (
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
    is_owned: Callable[[bytes, int], bool],
) -> CurrentAssignment:
    """Return the member's new assignment; the same object if it has not changed.

    Args:
        current: its assignment.
        target_epoch: of the newest target.
        target: its target, of topics that it is subscribed to.
        owned: the partitions that it reports; None if the heartbeat has no list.
        is_owned: whether another member owns a partition.
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
        topic: tuple(each for each in numbers if not is_owned(topic, each))
        for topic, numbers in wanted.items()
    }
    is_complete = all(len(free[topic]) == len(numbers) for topic, numbers in wanted.items())
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    taken = CurrentAssignment(target_epoch, current.epoch, state, union(kept, free))
    return current if _is_same(taken, current) else taken


def _is_same(after: CurrentAssignment, before: CurrentAssignment) -> bool:
    """Return whether only the previous epoch would change, as in a retry without result."""
    return after._replace(previous_epoch=before.previous_epoch) == before


def _owns(owned: Partitions | None, revoking: Partitions) -> bool:
    """Return whether a member may still own some of these; without a list, it may own all."""
    return owned is None or bool(intersection(revoking, owned))


def is_subset(some: Partitions, others: Partitions) -> bool:
    """Return whether all of the partitions are among the others."""
    return all(set(numbers).issubset(others.get(topic, ())) for topic, numbers in some.items())


def intersection(some: Partitions, others: Partitions) -> Partitions:
    """Return the partitions that are in both."""
    return _filtered(some, others, is_wanted=True)


def difference(some: Partitions, others: Partitions) -> Partitions:
    """Return the partitions that are not among the others."""
    return _filtered(some, others, is_wanted=False)


def union(some: Partitions, others: Partitions) -> Partitions:
    """Return the partitions of both, which must be disjoint."""
    topics = {**some, **others}
    merged = {
        topic: tuple(sorted(some.get(topic, ()) + others.get(topic, ())))
        for topic in sorted(topics)
    }
    return {topic: numbers for topic, numbers in merged.items() if numbers} or NO_PARTITIONS


def only_topics(partitions: Partitions, topics: Container[bytes]) -> Partitions:
    """Return the partitions of these topics; the same object if these are all."""
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
