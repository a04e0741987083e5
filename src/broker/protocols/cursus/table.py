"""The table of commands: handler, parameters and needs of each.

Handlers check what depends on more than the command: CREATE, LIST, LIST_GROUPS, CONSUME with a
pattern, and the group of SUBSCRIBE, CONSUME and STREAM, which has a default.
"""

from typing import Final, NamedTuple

from broker.core.access import Need, on_cluster
from broker.core.security.acls import Operation
from broker.protocols.cursus import forwarding
from broker.protocols.cursus.grammar import BARE, Form, named, positional
from broker.protocols.cursus.handlers import (
    between,
    commits,
    consume,
    event_streams,
    groups,
    offsets,
    patterns,
    produce,
    protocol,
    staging,
    stream,
    topics,
    transactions,
)
from broker.protocols.cursus.permissions import on_group, on_topic, on_transaction
from broker.protocols.cursus.reads import ONLY
from broker.protocols.cursus.requests import Handler, Request

_DESCRIBE: Final = on_topic(Operation.DESCRIBE)
_READ: Final = on_topic(Operation.READ)
_WRITE: Final = on_topic(Operation.WRITE)
_MEMBER: Final = on_group(Operation.READ)
_MEMBERSHIP: Final = (_MEMBER, _READ)
_PRODUCER: Final = on_transaction(Operation.WRITE)
_BROKER: Final = on_cluster(Operation.CLUSTER_ACTION)
_TRANSACTION: Final = "transactional_id txn transaction producerId producer_id epoch"


class Entry(NamedTuple):
    """A command."""

    handle: Handler
    form: Form
    needs: tuple[Need, ...] = ()  # what a client must be allowed


async def _list_commands(_: Request) -> str:
    """Return the names of all commands."""
    return f"OK commands={','.join([*COMMANDS, 'EXIT'])}"


COMMANDS: Final[dict[str, Entry]] = {
    # topics
    "CREATE": Entry(
        topics.create,
        positional(
            "topic partitions",
            "idempotent event_sourcing replication_factor cleanup_policy retention_hours"
            " retention_bytes partitioner auth_policy read_acl write_acl",
            positional_min=1,
        ),
    ),
    "DELETE": Entry(topics.delete, positional("topic"), (on_topic(Operation.DELETE),)),
    "LIST": Entry(topics.list_topics, positional("topic", positional_min=0), (_DESCRIBE,)),
    "DESCRIBE": Entry(topics.describe, positional("topic"), (_DESCRIBE,)),
    "METADATA": Entry(topics.metadata, positional("topic"), (_DESCRIBE,)),
    "LIST_OFFSETS": Entry(
        topics.list_offsets, positional("topic partition", positional_min=1), (_DESCRIBE,)
    ),
    "HELP": Entry(_list_commands, BARE),
    # records
    "PUBLISH": Entry(
        produce.publish,
        positional(
            "topic",
            "partition key acks producerId producer_id seqNum epoch isIdempotent"
            " transactional_id txn transaction",
            has_message=True,
        ),
        (_WRITE,),
    ),
    "CONSUME": Entry(
        consume.handle,
        positional(
            "topic partition offset",
            "member group generation autoOffsetReset isolation isolation_level batch wait_ms"
            f" {ONLY}",
        ),
    ),
    "STREAM": Entry(
        stream.handle,
        positional(
            "topic partition offset",
            "member group generation autoOffsetReset isolation isolation_level batch",
        ),
        (_READ,),
    ),
    # groups and offsets
    "REGISTER_GROUP": Entry(groups.register, named("topic group"), (*_MEMBERSHIP,)),
    "SUBSCRIBE": Entry(groups.subscribe, positional("topic group", positional_min=1), (_READ,)),
    "JOIN_GROUP": Entry(
        groups.join, positional("topic group member", "generation"), (*_MEMBERSHIP,)
    ),
    "SYNC_GROUP": Entry(groups.sync, positional("topic group member generation"), (*_MEMBERSHIP,)),
    "HEARTBEAT": Entry(
        groups.heartbeat,
        positional("topic group consumerId member generation", positional_min=4),
        (*_MEMBERSHIP,),
    ),
    "LEAVE_GROUP": Entry(
        groups.leave, positional("topic group member", "generation"), (*_MEMBERSHIP,)
    ),
    "GROUP_STATUS": Entry(groups.status, positional("group"), (on_group(Operation.DESCRIBE),)),
    "LIST_GROUPS": Entry(groups.list_groups, BARE),
    "FIND_COORDINATOR": Entry(
        protocol.find_coordinator,
        named("group transactional_id txn transaction"),
        (on_group(Operation.DESCRIBE), on_transaction(Operation.DESCRIBE)),
    ),
    "FETCH_OFFSET": Entry(
        patterns.fetch, named("topic partition group"), (on_group(Operation.DESCRIBE), _DESCRIBE)
    ),
    "COMMIT_OFFSET": Entry(
        patterns.commit, named("topic partition group offset generation member"), (*_MEMBERSHIP,)
    ),
    "COMMIT": Entry(offsets.commit, positional("topic group partition offset"), (*_MEMBERSHIP,)),
    "BATCH_COMMIT": Entry(
        commits.commit_batch,
        positional("topic group member generation", has_payload=True),
        (*_MEMBERSHIP,),
    ),
    # transactions
    "INIT_PRODUCER_ID": Entry(transactions.initialise, named(_TRANSACTION), (_PRODUCER,)),
    "BEGIN_TXN": Entry(transactions.begin, named(_TRANSACTION), (_PRODUCER,)),
    "TXN_PUBLISH": Entry(
        staging.publish,
        named(f"{_TRANSACTION} topic partition seqNum key", has_message=True),
        (_PRODUCER, _WRITE),
    ),
    "SEND_OFFSETS_TO_TXN": Entry(
        staging.send_offsets,
        named(f"{_TRANSACTION} topic group member generation", has_payload=True),
        (_PRODUCER, *_MEMBERSHIP),
    ),
    "END_TXN": Entry(transactions.end, named(f"{_TRANSACTION} result action state"), (_PRODUCER,)),
    "TXN_STATUS": Entry(
        transactions.status, named(_TRANSACTION), (on_transaction(Operation.DESCRIBE),)
    ),
    # event sourcing
    "APPEND_STREAM": Entry(
        event_streams.append_event,
        named("topic key version event_type schema_version metadata producerId", has_message=True),
        (_WRITE,),
    ),
    "READ_STREAM": Entry(event_streams.read, named("topic key from_version limit"), (_READ,)),
    "STREAM_VERSION": Entry(event_streams.version_of, named("topic key"), (_DESCRIBE,)),
    "SAVE_SNAPSHOT": Entry(
        event_streams.save_snapshot, named("topic key version", has_message=True), (_WRITE,)
    ),
    "READ_SNAPSHOT": Entry(event_streams.read_snapshot, named("topic key"), (_READ,)),
    # the protocol, and a cluster
    "PROTOCOL_INFO": Entry(protocol.info, BARE),
    "NEGOTIATE": Entry(protocol.negotiate, named("version features require_features")),
    "AUTH": Entry(protocol.authenticate, named("principal token")),
    "LIST_CLUSTER": Entry(protocol.list_cluster, BARE, (on_cluster(Operation.DESCRIBE),)),
    "CLUSTER_STATUS": Entry(protocol.cluster_status, BARE, (on_cluster(Operation.DESCRIBE),)),
    "ELECT_LEADER": Entry(
        protocol.elect_leader, named("topic partition broker"), (on_cluster(Operation.ALTER),)
    ),
}
# What only other brokers send; HELP does not list it.
_BETWEEN_BROKERS: Final[dict[str, Entry]] = {
    "FORWARDED": Entry(forwarding.accept, named("client revision structured"), (_BROKER,)),
    "CHECK_MEMBER": Entry(between.check_member, named("topic group member generation"), (_BROKER,)),
    "COMMITTED_OFFSET": Entry(between.committed_offset, named("topic partition group"), (_BROKER,)),
    "STAGE": Entry(
        staging.stage,
        named("transactional_id topic partition producerId epoch seqNum key", has_message=True),
        (_BROKER,),
    ),
    "STAGE_OFFSETS": Entry(
        staging.stage_offsets,
        named("topic group member generation producerId epoch", has_payload=True),
        (_BROKER,),
    ),
}
ENTRIES: Final = COMMANDS | _BETWEEN_BROKERS
FORMS: Final = {keyword: each.form for keyword, each in ENTRIES.items()}
