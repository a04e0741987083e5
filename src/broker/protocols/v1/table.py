"""The table of commands: usage, number of arguments, handler and needs of each.

ADMIN_CREATE_TOPIC and ADMIN_GET_METADATA check what they need themselves: one permission of two,
and one for each topic.
"""

from operator import itemgetter
from typing import Final

from broker.core.access import Need, on_cluster
from broker.core.security.acls import Operation, ResourceType
from broker.protocols.v1 import forwarding
from broker.protocols.v1.commands import Command, Handler
from broker.protocols.v1.errors import RefusedError, bad_request
from broker.protocols.v1.handlers import admin, consume, groups, offsets, produce, replication

_TOPIC: Final = "<topic>"
_GROUP: Final = "<group>"
_ARGUMENTS: Final = {ResourceType.TOPIC: _TOPIC, ResourceType.GROUP: _GROUP}


def _command(usage: str, handle: Handler, *needs: Need | tuple[Operation, ResourceType]) -> Command:
    """Return a row; arguments in brackets are optional.

    A need of a type of resource is one of the argument that names it.
    """
    args = usage.split()
    optional = sum(each.startswith("[") for each in args)
    topic_at = args.index(_TOPIC) if _TOPIC in args else -1
    named = tuple(
        each if isinstance(each, Need) else Need(*each, itemgetter(args.index(_ARGUMENTS[each[1]])))
        for each in needs
    )
    return Command(usage, range(len(args) - optional, len(args) + 1), handle, topic_at, named)


_MEMBER: Final = "<group> <topic> <consumer_id> <generation>"
_FOLLOWED: Final = "<topic> <partition> <follower_id>"
_READ: Final = (Operation.READ, ResourceType.TOPIC)
_MEMBERSHIP: Final = (Operation.READ, ResourceType.GROUP)
_COPY: Final = on_cluster(Operation.CLUSTER_ACTION)
_ALTER: Final = on_cluster(Operation.ALTER)

COMMANDS: Final[dict[str, Command]] = {
    "PRODUCE": _command(
        "<topic> <key>:<value> [acks=0|1|all]",
        produce.handle,
        (Operation.WRITE, ResourceType.TOPIC),
    ),
    "CONSUME": _command("<topic> <partition> <offset>", consume.handle, _READ),
    "JOIN": _command(
        "<group> <topic> <consumer_id> [assignor=round_robin|range]",
        groups.join,
        *(_MEMBERSHIP, _READ),
    ),
    "SYNC": _command(_MEMBER, groups.sync, _MEMBERSHIP),
    "HEARTBEAT": _command(_MEMBER, groups.heartbeat, _MEMBERSHIP),
    "LEAVE": _command(_MEMBER, groups.leave, _MEMBERSHIP),
    "COMMIT": _command(f"{_MEMBER} <partition> <offset>", groups.commit, _MEMBERSHIP, _READ),
    "OFFSET": _command(
        "<group> <topic> <partition>",
        offsets.handle,
        (Operation.DESCRIBE, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TOPIC),
    ),
    "REPLICA_FETCH": _command(
        "<topic> <partition> <replica_id> <offset>", replication.replica_fetch, _COPY
    ),
    "SET_PARTITION_ROLE": _command(
        "<topic> <partition> <leader|follower>", replication.set_partition_role, _ALTER
    ),
    "BROKER_FETCH": _command(f"{_FOLLOWED} <offset> [max_messages]", admin.broker_fetch, _COPY),
    "BROKER_REPLICA_ACK": _command(f"{_FOLLOWED} <acked_offset>", admin.broker_replica_ack, _COPY),
    "BROKER_FORWARDING": _command("<client_host> <revision>", forwarding.accept, _COPY),
    "ADMIN_CREATE_TOPIC": _command("<topic> <partitions> <replication_factor>", admin.create_topic),
    "ADMIN_REGISTER_BROKER": _command(
        "<broker_id> <host> <port> [epoch]", admin.register_broker, _COPY
    ),
    "ADMIN_BROKER_HEARTBEAT": _command("<broker_id>", admin.broker_heartbeat, _COPY),
    "ADMIN_RECONCILE_BROKER_HEALTH": _command(
        "<timeout_ms>", admin.reconcile_broker_health, _ALTER
    ),
    "ADMIN_FENCE_BROKER": _command("<broker_id>", admin.fence_broker, _ALTER),
    "ADMIN_UNFENCE_BROKER": _command("<broker_id>", admin.unfence_broker, _ALTER),
    "ADMIN_SET_PARTITION_LEADER": _command(
        "<topic> <partition> <leader_id> <isr_csv>", admin.set_partition_leader, _ALTER
    ),
    "ADMIN_ELECT_TOPIC_LEADERS": _command("<topic>", admin.elect_topic_leaders, _ALTER),
    "ADMIN_GET_METADATA": _command("", admin.get_metadata),
}


def wrong_count(name: str, command: Command) -> RefusedError:
    """Return the error for too few or too many arguments."""
    usage = f"requires: {command.usage}" if command.usage else "requires no args"
    return bad_request(f"{name} {usage}")
