"""Every command that is served: its word, and what serves it.

Transactions are understood by the grammar and not served yet.
"""

from typing import Final

from broker.protocols.cursus.handlers import (
    commits,
    consume,
    groups,
    offsets,
    produce,
    protocol,
    stream,
    topics,
)
from broker.protocols.cursus.requests import Handler

COMMANDS: Final[dict[str, Handler]] = {
    "CREATE": topics.create,
    "DELETE": topics.delete,
    "LIST": topics.list_topics,
    "DESCRIBE": topics.describe,
    "METADATA": topics.metadata,
    "LIST_OFFSETS": topics.list_offsets,
    "HELP": protocol.list_commands,
    "PUBLISH": produce.publish,
    "CONSUME": consume.handle,
    "STREAM": stream.handle,
    "REGISTER_GROUP": groups.register,
    "SUBSCRIBE": groups.subscribe,
    "JOIN_GROUP": groups.join,
    "SYNC_GROUP": groups.sync,
    "HEARTBEAT": groups.heartbeat,
    "LEAVE_GROUP": groups.leave,
    "GROUP_STATUS": groups.status,
    "LIST_GROUPS": groups.list_groups,
    "FIND_COORDINATOR": protocol.find_coordinator,
    "FETCH_OFFSET": offsets.fetch,
    "COMMIT": offsets.commit,
    "COMMIT_OFFSET": commits.commit,
    "BATCH_COMMIT": commits.commit_batch,
    "PROTOCOL_INFO": protocol.info,
    "NEGOTIATE": protocol.negotiate,
    "AUTH": protocol.authenticate,
    "LIST_CLUSTER": protocol.list_cluster,
    "CLUSTER_STATUS": protocol.need_cluster,
    "ELECT_LEADER": protocol.need_cluster,
}
