"""The table of commands: usage, number of arguments and handler of each."""

from typing import Final

from broker.protocols.v1 import forwarding
from broker.protocols.v1.commands import Command, Handler
from broker.protocols.v1.errors import RefusedError, bad_request
from broker.protocols.v1.handlers import admin, consume, groups, offsets, produce, replication

_TOPIC: Final = "<topic>"


def _command(usage: str, handle: Handler) -> Command:
    """Return a row; arguments in brackets are optional."""
    args = usage.split()
    optional = sum(each.startswith("[") for each in args)
    topic_at = args.index(_TOPIC) if _TOPIC in args else -1
    return Command(usage, range(len(args) - optional, len(args) + 1), handle, topic_at)


_MEMBER: Final = "<group> <topic> <consumer_id> <generation>"
_FOLLOWED: Final = "<topic> <partition> <follower_id>"

COMMANDS: Final[dict[str, Command]] = {
    "PRODUCE": _command("<topic> <key>:<value> [acks=0|1|all]", produce.handle),
    "CONSUME": _command("<topic> <partition> <offset>", consume.handle),
    "JOIN": _command("<group> <topic> <consumer_id> [assignor=round_robin|range]", groups.join),
    "SYNC": _command(_MEMBER, groups.sync),
    "HEARTBEAT": _command(_MEMBER, groups.heartbeat),
    "LEAVE": _command(_MEMBER, groups.leave),
    "COMMIT": _command(f"{_MEMBER} <partition> <offset>", groups.commit),
    "OFFSET": _command("<group> <topic> <partition>", offsets.handle),
    "REPLICA_FETCH": _command(
        "<topic> <partition> <replica_id> <offset>", replication.replica_fetch
    ),
    "SET_PARTITION_ROLE": _command(
        "<topic> <partition> <leader|follower>", replication.set_partition_role
    ),
    "BROKER_FETCH": _command(f"{_FOLLOWED} <offset> [max_messages]", admin.broker_fetch),
    "BROKER_REPLICA_ACK": _command(f"{_FOLLOWED} <acked_offset>", admin.broker_replica_ack),
    "BROKER_FORWARDING": _command("<client_host> <revision>", forwarding.accept),
    "ADMIN_CREATE_TOPIC": _command("<topic> <partitions> <replication_factor>", admin.create_topic),
    "ADMIN_REGISTER_BROKER": _command("<broker_id> <host> <port> [epoch]", admin.register_broker),
    "ADMIN_BROKER_HEARTBEAT": _command("<broker_id>", admin.broker_heartbeat),
    "ADMIN_RECONCILE_BROKER_HEALTH": _command("<timeout_ms>", admin.reconcile_broker_health),
    "ADMIN_FENCE_BROKER": _command("<broker_id>", admin.fence_broker),
    "ADMIN_UNFENCE_BROKER": _command("<broker_id>", admin.fence_broker),
    "ADMIN_SET_PARTITION_LEADER": _command(
        "<topic> <partition> <leader_id> <isr_csv>", admin.set_partition_leader
    ),
    "ADMIN_ELECT_TOPIC_LEADERS": _command("<topic>", admin.elect_topic_leaders),
    "ADMIN_GET_METADATA": _command("", admin.get_metadata),
}


def wrong_count(name: str, command: Command) -> RefusedError:
    """Return the error for too few or too many arguments."""
    usage = f"requires: {command.usage}" if command.usage else "requires no args"
    return bad_request(f"{name} {usage}")
