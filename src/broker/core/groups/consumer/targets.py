"""A new target assignment for all members of a group, computed in slices.

The work is a generator that yields the amount of work done, so that a large group's target takes
several turns of the loop, and a small one's is computed within the heartbeat that needs it. It is
computed for the members and topics at its start; later changes are part of the next target.
"""

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, TypeAlias

from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.records.consumer import (
    ConsumerMember,
    Partitions,
    in_order,
)
from broker.model.limits import TARGETS_PER_BATCH

Assigned: TypeAlias = dict[str, dict[bytes, list[int]]]  # member → topic id → partitions
AssignmentSteps: TypeAlias = Generator[int, None, Assigned]


class AssignmentSpec(NamedTuple):
    """The input of an assignor; topics are ids of existing topics."""

    subscriptions: Mapping[str, tuple[bytes, ...]]
    partitions: Mapping[bytes, int]
    previous: Mapping[str, Partitions]
    instances: Mapping[str, str]


class TargetJob:
    """The computation of one target."""

    def __init__(
        self, epoch: int, work: AssignmentSteps, previous: Mapping[str, Partitions]
    ) -> None:
        """Begin a computation; `run` continues it."""
        self.epoch = epoch
        self._work = _changes(work, previous)
        self._changes: list[tuple[str, Partitions]] | None = None

    def run(self, budget: int) -> bool:
        """Do about so much more work; return whether it is complete."""
        while budget > 0 and self._changes is None:
            try:
                budget -= next(self._work)
            except StopIteration as end:
                self._changes = end.value
        return self._changes is not None

    @property
    def is_large(self) -> bool:
        """Whether the result changes more members than one batch should."""
        assert self._changes is not None
        return len(self._changes) > TARGETS_PER_BATCH

    def take(self) -> list[tuple[str, Partitions]]:
        """Remove and return the next members with a changed target, and their targets."""
        assert self._changes is not None
        taken = self._changes[:TARGETS_PER_BATCH]
        del self._changes[:TARGETS_PER_BATCH]
        return taken

    @property
    def is_taken(self) -> bool:
        """Whether all of the result has been taken."""
        return self._changes == []


def _changes(
    work: AssignmentSteps, previous: Mapping[str, Partitions]
) -> Generator[int, None, list[tuple[str, Partitions]]]:
    """Run an assignor, then compare its result with the previous targets."""
    assigned = yield from work
    changes = []
    for member_id, partitions in assigned.items():
        target = in_order(partitions)
        if target != previous[member_id]:
            changes.append((member_id, target))
        yield 1 + sum(map(len, target.values()))
    return changes


def assignment_steps(
    members: Mapping[str, ConsumerMember],
    previous: Mapping[str, Partitions],
    topics_of: Callable[[ConsumerMember], tuple[str, ...]],
    topics: TopicsView,
    assign: Callable[[AssignmentSpec], AssignmentSteps],
) -> AssignmentSteps:
    """Run an assignor for these members, with their previous targets."""
    subscriptions: dict[str, tuple[bytes, ...]] = {}
    partitions: dict[bytes, int] = {}
    known: dict[tuple[str, ...], tuple[bytes, ...]] = {}
    for member_id, member in members.items():
        names = topics_of(member)
        ids = known.get(names)
        if ids is None:
            found = [topic for topic in map(topics.get, names) if topic is not None]
            partitions.update((topic.topic_id, topic.partition_count) for topic in found)
            ids = known[names] = tuple(sorted(topic.topic_id for topic in found))
            yield len(names)
        subscriptions[member_id] = ids
        yield 1
    instances = {each: member.instance_id or each for each, member in members.items()}
    yield len(members)
    return (yield from assign(AssignmentSpec(subscriptions, partitions, previous, instances)))
