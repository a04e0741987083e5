"""The table of commands: handler and parameters of each."""

from typing import Final, NamedTuple

from broker.protocols.cursus import forwarding
from broker.protocols.cursus.grammar import BARE, Form, named, positional
from broker.protocols.cursus.handlers import (
    between,
    commits,
    consume,
    groups,
    offsets,
    produce,
    protocol,
    staging,
    stream,
    topics,
    transactions,
)
from broker.protocols.cursus.requests import Handler, Request

_TRANSACTION: Final = "transactional_id txn transaction producerId producer_id epoch"


class Entry(NamedTuple):
    """A command."""

    handle: Handler
    form: Form


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
    "DELETE": Entry(topics.delete, positional("topic")),
    "LIST": Entry(topics.list_topics, positional("topic", positional_min=0)),
    "DESCRIBE": Entry(topics.describe, positional("topic")),
    "METADATA": Entry(topics.metadata, positional("topic")),
    "LIST_OFFSETS": Entry(topics.list_offsets, positional("topic partition", positional_min=1)),
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
    ),
    "CONSUME": Entry(
        consume.handle,
        positional(
            "topic partition offset",
            "member group generation autoOffsetReset isolation isolation_level batch wait_ms",
        ),
    ),
    "STREAM": Entry(
        stream.handle,
        positional(
            "topic partition offset",
            "member group generation autoOffsetReset isolation isolation_level batch",
        ),
    ),
    # groups and offsets
    "REGISTER_GROUP": Entry(groups.register, named("topic group")),
    "SUBSCRIBE": Entry(groups.subscribe, positional("topic group", positional_min=1)),
    "JOIN_GROUP": Entry(groups.join, positional("topic group member", "generation")),
    "SYNC_GROUP": Entry(groups.sync, positional("topic group member generation")),
    "HEARTBEAT": Entry(
        groups.heartbeat, positional("topic group consumerId member generation", positional_min=4)
    ),
    "LEAVE_GROUP": Entry(groups.leave, positional("topic group member", "generation")),
    "GROUP_STATUS": Entry(groups.status, positional("group")),
    "LIST_GROUPS": Entry(groups.list_groups, BARE),
    "FIND_COORDINATOR": Entry(
        protocol.find_coordinator, named("group transactional_id txn transaction")
    ),
    "FETCH_OFFSET": Entry(offsets.fetch, named("topic partition group")),
    "COMMIT_OFFSET": Entry(commits.commit, named("topic partition group offset generation member")),
    "COMMIT": Entry(offsets.commit, positional("topic group partition offset")),
    "BATCH_COMMIT": Entry(
        commits.commit_batch, positional("topic group member generation", has_payload=True)
    ),
    # transactions
    "INIT_PRODUCER_ID": Entry(transactions.initialise, named(_TRANSACTION)),
    "BEGIN_TXN": Entry(transactions.begin, named(_TRANSACTION)),
    "TXN_PUBLISH": Entry(
        staging.publish, named(f"{_TRANSACTION} topic partition seqNum key", has_message=True)
    ),
    "SEND_OFFSETS_TO_TXN": Entry(
        staging.send_offsets,
        named(f"{_TRANSACTION} topic group member generation", has_payload=True),
    ),
    "END_TXN": Entry(transactions.end, named(f"{_TRANSACTION} result action state")),
    "TXN_STATUS": Entry(transactions.status, named(_TRANSACTION)),
    # event sourcing
    "APPEND_STREAM": Entry(
        protocol.need_event_sourcing,
        named("topic key version event_type schema_version metadata producerId", has_message=True),
    ),
    "READ_STREAM": Entry(protocol.read_event_stream, named("topic key from_version")),
    "STREAM_VERSION": Entry(protocol.need_event_sourcing, named("topic key")),
    "SAVE_SNAPSHOT": Entry(
        protocol.need_event_sourcing, named("topic key version", has_message=True)
    ),
    "READ_SNAPSHOT": Entry(protocol.need_event_sourcing, named("topic key")),
    # the protocol, and a cluster
    "PROTOCOL_INFO": Entry(protocol.info, BARE),
    "NEGOTIATE": Entry(protocol.negotiate, named("version features require_features")),
    "AUTH": Entry(protocol.authenticate, named("principal token")),
    "LIST_CLUSTER": Entry(protocol.list_cluster, BARE),
    "CLUSTER_STATUS": Entry(protocol.cluster_status, BARE),
    "ELECT_LEADER": Entry(protocol.elect_leader, named("topic partition broker")),
}
# What only other brokers send; HELP does not list it.
_BETWEEN_BROKERS: Final[dict[str, Entry]] = {
    "FORWARDED": Entry(forwarding.accept, named("client revision structured")),
    "CHECK_MEMBER": Entry(between.check_member, named("topic group member generation")),
    "COMMITTED_OFFSET": Entry(between.committed_offset, named("topic partition group")),
    "STAGE": Entry(
        staging.stage,
        named("transactional_id topic partition producerId epoch seqNum key", has_message=True),
    ),
    "STAGE_OFFSETS": Entry(
        staging.stage_offsets,
        named("topic group member generation producerId epoch", has_payload=True),
    ),
}
ENTRIES: Final = COMMANDS | _BETWEEN_BROKERS
FORMS: Final = {keyword: each.form for keyword, each in ENTRIES.items()}
