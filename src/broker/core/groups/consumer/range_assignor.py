"""The assignor "range": of each topic a member gets neighbouring partitions (KIP-848).

Members stand in one order for all topics, static ones by instance id, so that who is subscribed to
the same topics gets the same partition numbers of each: topics joined by key stay together.
"""

from broker.core.groups.consumer.targets import Assigned, Assigning, Spec


def assign(spec: Spec) -> Assigning:
    """The new target, in steps whose size is yielded."""
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
