"""The assignor "range": each member gets adjacent partitions of each topic (KIP-848).

Members have the same order for all topics, static ones by instance id. So members with the same
subscriptions get the same partition numbers of each topic, which joins by key need.
"""

from broker.core.groups.consumer.targets import Assigned, AssignmentSpec, AssignmentSteps


def assign(spec: AssignmentSpec) -> AssignmentSteps:
    """Compute the new target; yield the amount of work of each step."""
    result: Assigned = {}
    subscribers: dict[bytes, list[str]] = {}
    for member in sorted(
        spec.subscriptions, key=lambda each: (spec.instances.get(each, each), each)
    ):
        result[member] = {}
        for topic in spec.subscriptions[member]:
            subscribers.setdefault(topic, []).append(member)
        yield 1 + len(spec.subscriptions[member])
    for topic, members in subscribers.items():
        quota, extra = divmod(spec.partitions[topic], len(members))
        first = 0
        for place, member in enumerate(members):
            count = quota + (place < extra)
            if not count:
                break
            result[member][topic] = list(range(first, first + count))
            first += count
            yield 1 + count
    return result
