"""REPLICA_FETCH and SET_PARTITION_ROLE.

Replicas are other brokers of the cluster, which copy records by Kafka's protocol. So the ISR that
is shown is the one that acknowledgements wait for, whatever clients report.
"""

from typing import Final

from broker.core.forwarding import check_led
from broker.core.topics.lookup import log_of
from broker.protocols.v1.commands import Request, boolean, integer, numbers
from broker.protocols.v1.errors import bad_request
from broker.protocols.v1.topics import last_readable, topic_or_new

_ROLES: Final = {"leader": False, "follower": True}
_REPLICAS: Final = range(1, 3)  # the original's followers; its leader is 0
_NOTHING: Final = -1


async def replica_fetch(request: Request) -> str:
    """Return the ISR of a partition; a topic that does not exist is shown as empty."""
    name, partition_text, replica_text, offset_text = request.args
    partition = integer(partition_text, "partition")
    replica = integer(replica_text, "replica_id")
    offset = integer(offset_text, "offset")
    if replica not in _REPLICAS:
        raise bad_request("invalid replica id")
    broker = request.session.broker
    topic = broker.topics.get(name)
    if topic is None or not topic.has_partition(partition):
        return _report(replica, offset, _NOTHING, (broker.node_id,), 1)
    check_led(request.session, topic, partition)
    log = log_of(topic, partition)
    if request.roles.is_follower((topic.name, partition)):
        raise bad_request("partition is not leader")
    leadership = broker.cluster.leadership(topic, partition)
    # As an acks=all counts it: with fewer replicas than this they are enough (KIP-966).
    minimum = min(topic.config.integer("min.insync.replicas"), leadership.wanted)
    return _report(replica, offset, last_readable(log), leadership.isr, minimum)


def _report(
    replica: int, offset: int, high_watermark: int, in_sync: tuple[int, ...], minimum: int
) -> str:
    return (
        f"replica={replica} acked_offset={offset} hw={high_watermark} isr={numbers(in_sync)}"
        f" under_replicated={boolean(len(in_sync) < minimum)}"
    )


async def set_partition_role(request: Request) -> str:
    """Set a partition's role: while it is a follower, V1's PRODUCE to it is refused."""
    name, partition_text, role = request.args
    partition = integer(partition_text, "partition")
    if role not in _ROLES:
        raise bad_request("invalid role")
    if partition < 0:
        raise bad_request("partition must be >= 0")
    topic = await topic_or_new(request, name)
    if not topic.has_partition(partition):
        raise bad_request(f"partition not found: topic={name} partition={partition}")
    check_led(request.session, topic, partition)
    log = log_of(topic, partition)
    request.roles.set_follower((topic.name, partition), is_follower=_ROLES[role])
    return f"topic={name} partition={partition} role={role} hw={last_readable(log)}"
