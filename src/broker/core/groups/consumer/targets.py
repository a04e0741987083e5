"""A new target for all members of a group, computed in slices.

The work is a generator that yields how much it has done, so that a large group's takes many turns
of the loop and a small one's is done within the heartbeat that asked for it. What it computes is
of the members and topics at its start: whoever has come or gone meanwhile is the next one's.
"""

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, TypeAlias

from broker.core.groups.consumer.records import (
    ConsumerMember,
    Partitions,
    TargetEpochRecord,
    TargetRecord,
    in_order,
)
from broker.core.groups.consumer.subscriptions import SeenTopics

Assigned: TypeAlias = dict[str, dict[bytes, list[int]]]  # member → topic id → partitions
Assigning: TypeAlias = Generator[int, None, Assigned]


class Spec(NamedTuple):
    """What an assignor is given: topics are ids, and exist."""

    subscriptions: Mapping[str, tuple[bytes, ...]]
    partitions: Mapping[bytes, int]
    previous: Mapping[str, Partitions]
    instances: Mapping[str, str]


class TargetJob:
    """The computation of one target."""

    def __init__(self, epoch: int, work: Assigning) -> None:
        """Begin; nothing has been done yet."""
        self.epoch = epoch
        self._work = work
        self._assigned: Assigned | None = None

    def run(self, budget: int) -> bool:
        """Do about so much more of the work; whether all is done."""
        while budget > 0 and self._assigned is None:
            try:
                budget -= next(self._work)
            except StopIteration as end:
                self._assigned = end.value
        return self._assigned is not None

    def target(self, member_id: str) -> Partitions | None:
        """What a member shall have; None for one that this was not about."""
        assert self._assigned is not None
        partitions = self._assigned.get(member_id)
        return None if partitions is None else in_order(partitions)

    def records(
        self, group_id: str, before: Mapping[str, Partitions]
    ) -> list[TargetRecord | TargetEpochRecord]:
        """The records of what has changed; `before` is what each member shall have as yet."""
        assert self._assigned is not None
        records: list[TargetRecord | TargetEpochRecord] = []
        for member_id in self._assigned:
            target = self.target(member_id)
            if target is not None and target != before.get(member_id, target):
                records.append(TargetRecord(group_id, member_id, target))
        records.append(TargetEpochRecord(group_id, self.epoch))
        return records


def assigning(
    members: Mapping[str, ConsumerMember],
    previous: Mapping[str, Partitions],
    topics_of: Callable[[ConsumerMember], tuple[str, ...]],
    topics: SeenTopics,
    assign: Callable[[Spec], Assigning],
) -> Assigning:
    """The work of an assignor for these members, which have had these partitions."""
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
    return (yield from assign(Spec(subscriptions, partitions, previous, instances)))
