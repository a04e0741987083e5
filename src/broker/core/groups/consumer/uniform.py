"""The assignor "uniform": balanced, with as few moves of partitions as possible (KIP-848).

If all members are subscribed to the same topics, their numbers of partitions differ by at most one,
a member keeps its partitions up to its quota, and a member that leaves moves only its own. If
subscriptions differ, free partitions go to the member with the fewest, topics with the fewest
subscribers first; then partitions move from members with more to members with fewer until no move
improves the balance. The cost is linear in members, partitions and subscriptions, times the
logarithm of the heaps.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace

from broker.core.groups.consumer.targets import Assigned, AssignmentSpec, AssignmentSteps
from broker.model.limits import ASSIGNMENT_BALANCE_PASSES_MAX


def assign(spec: AssignmentSpec) -> AssignmentSteps:
    """Compute the new target; yield the amount of work of each step."""
    different = set(spec.subscriptions.values())
    if len(different) <= 1:
        return _assign_homogeneous(spec)
    return _assign_heterogeneous(spec)


# ---- the same subscription -----------------------------------------------------------------------


def _assign_homogeneous(spec: AssignmentSpec) -> AssignmentSteps:
    members = sorted(spec.subscriptions)
    result: Assigned = {member: {} for member in members}
    if not members:
        return result
    topics = spec.subscriptions[members[0]]
    taken = {topic: bytearray(spec.partitions[topic]) for topic in topics}
    quota, extra = divmod(sum(map(len, taken.values())), len(members))
    counts = []
    for member in members:
        count = _keep(spec, member, quota + (extra > 0), taken, result[member])
        extra -= count > quota
        counts.append(count)
        yield 1 + count
    free = _free(taken)
    for place, member in enumerate(members):
        count = counts[place]
        room = quota - count if extra == 0 or count > quota else quota + 1 - count
        extra -= room > 0 and count + room > quota
        for topic, partition in _take(free, room):
            result[member].setdefault(topic, []).append(partition)
        yield 1 + max(room, 0)
    return result


def _keep(
    spec: AssignmentSpec,
    member: str,
    limit: int,
    taken: dict[bytes, bytearray],
    kept: dict[bytes, list[int]],
) -> int:
    """Keep a member's partitions that exist, up to its quota; return how many."""
    count = 0
    for topic, partitions in spec.previous.get(member, {}).items():
        flags = taken.get(topic)
        if flags is None or count == limit:
            continue
        numbers = [each for each in partitions if each < len(flags) and not flags[each]]
        numbers = numbers[: limit - count]
        for number in numbers:
            flags[number] = 1
        if numbers:
            kept[topic] = numbers
            count += len(numbers)
    return count


def _free(taken: dict[bytes, bytearray]) -> Iterator[tuple[bytes, int]]:
    for topic, flags in taken.items():
        partition = flags.find(0)
        while partition >= 0:
            yield topic, partition
            partition = flags.find(0, partition + 1)


def _take(free: Iterator[tuple[bytes, int]], count: int) -> Iterator[tuple[bytes, int]]:
    for _ in range(count):
        yield next(free)


# ---- different subscriptions ---------------------------------------------------------------------


def _assign_heterogeneous(spec: AssignmentSpec) -> AssignmentSteps:
    subscribers: dict[bytes, list[str]] = {}
    for member in sorted(spec.subscriptions):
        for topic in spec.subscriptions[member]:
            subscribers.setdefault(topic, []).append(member)
        yield 1 + len(spec.subscriptions[member])
    result: Assigned = {member: {} for member in sorted(spec.subscriptions)}
    taken = {topic: bytearray(spec.partitions[topic]) for topic in subscribers}
    total = sum(map(len, taken.values()))
    counts = {}
    for member, kept in result.items():
        own = {topic: taken[topic] for topic in spec.subscriptions[member]}
        counts[member] = _keep(spec, member, total, own, kept)
        yield 1 + counts[member]
    for topic in sorted(subscribers, key=lambda each: (len(subscribers[each]), each)):
        yield from _give_free(topic, subscribers[topic], taken[topic], counts, result)
    for _ in range(ASSIGNMENT_BALANCE_PASSES_MAX):
        moved = 0
        for topic, members in subscribers.items():
            moves = _balance(topic, members, counts, result)
            moved += moves
            yield len(members) + moves
        if not moved:
            break
    return result


def _give_free(
    topic: bytes,
    members: Sequence[str],
    flags: bytearray,
    counts: dict[str, int],
    result: Assigned,
) -> Iterator[int]:
    """Assign free partitions of a topic to the subscribers with the fewest partitions."""
    heap = [(counts[member], member) for member in members]
    heapify(heap)
    yield len(members)
    for topic_, partition in _free({topic: flags}):
        count, member = heap[0]
        result[member].setdefault(topic_, []).append(partition)
        counts[member] = count + 1
        heapreplace(heap, (count + 1, member))
        yield 1


def _balance(topic: bytes, members: Sequence[str], counts: dict[str, int], result: Assigned) -> int:
    """Move partitions of a topic from members with the most to those with the fewest.

    Returns:
        The number of moves.
    """
    poorest = [(counts[member], member) for member in members]
    heapify(poorest)
    moves = 0
    for rich in sorted(members, key=counts.__getitem__, reverse=True):
        spare = result[rich].get(topic)
        while spare:
            count, poor = poorest[0]
            if count != counts[poor]:  # The entry is outdated.
                heapreplace(poorest, (counts[poor], poor))
                continue
            if counts[rich] - count <= 1:
                break
            result[poor].setdefault(topic, []).append(spare.pop())
            counts[rich] -= 1
            counts[poor] += 1
            moves += 1
    return moves
