"""REPLICA_FETCH and SET_PARTITION_ROLE: reports of clients about replicas.

A partition with replicas on several brokers has its own ISR, which is shown whatever clients
report. For one with a single replica the reports are kept, and shown as the original shows them.
"""

from typing import Final

from broker.core.forwarding import check_led
from broker.core.topics.lookup import log_of
from broker.protocols.v1.commands import Request, boolean, integer, numbers
from broker.protocols.v1.errors import bad_request
from broker.protocols.v1.replicas import LEADER, REPLICATION_FACTOR
from broker.protocols.v1.topics import last_readable, topic_or_new

_ROLES: Final = {"leader": False, "follower": True}
_NOTHING: Final = -1


async def replica_fetch(request: Request) -> str:
    """Record a follower's last offset; a topic that does not exist is shown as empty."""
    name, partition_text, replica_text, offset_text = request.args
    partition = integer(partition_text, "partition")
    replica = integer(replica_text, "replica_id")
    offset = integer(offset_text, "offset")
    if not LEADER < replica < REPLICATION_FACTOR:
        raise bad_request("invalid replica id")
    topic = request.session.broker.topics.get(name)
    if topic is None or not topic.has_partition(partition):
        minimum = request.session.broker.config.integer("min.insync.replicas")
        return _report(replica, offset, _NOTHING, [LEADER, replica], minimum)
    check_led(request.session, topic, partition)
    log = log_of(topic, partition)
    key = (topic.name, partition)
    if request.replicas.is_follower(key):
        raise bad_request("partition is not leader")
    now_ms = request.session.broker.clock.monotonic_ms()
    leader_last = log.log_end_offset - 1
    leadership = request.session.broker.cluster.leadership(topic, partition)
    if len(leadership.replicas) > 1:
        in_sync = list(leadership.isr)
    else:
        request.replicas.report(key, replica, offset, leader_last, now_ms)
        in_sync = request.replicas.in_sync(key, leader_last, now_ms)
    minimum = topic.config.integer("min.insync.replicas")
    return _report(replica, offset, last_readable(log), in_sync, minimum)


def _report(
    replica: int, offset: int, high_watermark: int, in_sync: list[int], minimum: int
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
    now_ms = request.session.broker.clock.monotonic_ms()
    request.replicas.set_follower((topic.name, partition), now_ms, is_follower=_ROLES[role])
    return f"topic={name} partition={partition} role={role} hw={last_readable(log)}"
