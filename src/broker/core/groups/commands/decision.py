"""The responses of all commands, and the decision that every command to a group returns."""

from typing import TypeAlias

from broker.core.coordination.machine import Decision
from broker.core.groups.commands.assigned import AssignedResponse, AssignedStatus
from broker.core.groups.commands.classic import (
    GroupDescription,
    JoinResponse,
    LeaveResponse,
    SyncResponse,
)
from broker.core.groups.commands.consumer import (
    ConsumerGroupDescription,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.commands.listing import ListGroupsResponse
from broker.core.groups.commands.offsets import (
    CommitResponse,
    DeleteOffsetsResponse,
    FetchOffsetsResponse,
)
from broker.core.groups.records.encoding import Record
from broker.model.errors import ErrorCode

Response: TypeAlias = (
    JoinResponse
    | SyncResponse
    | LeaveResponse
    | CommitResponse
    | FetchOffsetsResponse
    | GroupDescription
    | DeleteOffsetsResponse
    | ListGroupsResponse
    | ConsumerHeartbeatResponse
    | ConsumerGroupDescription
    | AssignedResponse
    | AssignedStatus
    | ErrorCode
)

GroupDecision: TypeAlias = Decision[Record, Response]
