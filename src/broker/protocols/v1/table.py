"""Every command: how it is called, how many arguments it takes, what serves it."""

from typing import Final

from broker.protocols.v1.commands import Command, Handler
from broker.protocols.v1.errors import RefusedError, bad_request
from broker.protocols.v1.handlers import admin, consume, groups, offsets, produce, replication


def _takes(usage: str, handle: Handler) -> Command:
    """A row; what stands in brackets may be left out."""
    args = usage.split()
    optional = sum(each.startswith("[") for each in args)
    return Command(usage, range(len(args) - optional, len(args) + 1), handle)


_MEMBER: Final = "<group> <topic> <consumer_id> <generation>"
_FOLLOWED: Final = "<topic> <partition> <follower_id>"

COMMANDS: Final[dict[str, Command]] = {
    "PRODUCE": _takes("<topic> <key>:<value> [acks=0|1|all]", produce.handle),
    "CONSUME": _takes("<topic> <partition> <offset>", consume.handle),
    "JOIN": _takes("<group> <topic> <consumer_id> [assignor=round_robin|range]", groups.join),
    "SYNC": _takes(_MEMBER, groups.sync),
    "HEARTBEAT": _takes(_MEMBER, groups.heartbeat),
    "LEAVE": _takes(_MEMBER, groups.leave),
    "COMMIT": _takes(f"{_MEMBER} <partition> <offset>", groups.commit),
    "OFFSET": _takes("<group> <topic> <partition>", offsets.handle),
    "REPLICA_FETCH": _takes("<topic> <partition> <replica_id> <offset>", replication.replica_fetch),
    "SET_PARTITION_ROLE": _takes(
        "<topic> <partition> <leader|follower>", replication.set_partition_role
    ),
    "BROKER_FETCH": _takes(f"{_FOLLOWED} <offset> [max_messages]", admin.broker_fetch),
    "BROKER_REPLICA_ACK": _takes(f"{_FOLLOWED} <acked_offset>", admin.broker_replica_ack),
    "ADMIN_CREATE_TOPIC": _takes("<topic> <partitions> <replication_factor>", admin.create_topic),
    "ADMIN_REGISTER_BROKER": _takes("<broker_id> <host> <port> [epoch]", admin.register_broker),
    "ADMIN_BROKER_HEARTBEAT": _takes("<broker_id>", admin.broker_heartbeat),
    "ADMIN_RECONCILE_BROKER_HEALTH": _takes("<timeout_ms>", admin.reconcile_broker_health),
    "ADMIN_FENCE_BROKER": _takes("<broker_id>", admin.fence_broker),
    "ADMIN_UNFENCE_BROKER": _takes("<broker_id>", admin.fence_broker),
    "ADMIN_SET_PARTITION_LEADER": _takes(
        "<topic> <partition> <leader_id> <isr_csv>", admin.set_partition_leader
    ),
    "ADMIN_ELECT_TOPIC_LEADERS": _takes("<topic>", admin.elect_topic_leaders),
    "ADMIN_GET_METADATA": _takes("", admin.get_metadata),
}


def wrong_count(name: str, command: Command) -> RefusedError:
    """What is said to who gives too few arguments, or too many."""
    usage = f"requires: {command.usage}" if command.usage else "requires no args"
    return bad_request(f"{name} {usage}")
