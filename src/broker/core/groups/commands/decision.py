"""The responses of all commands, and the decision that every command to a group returns."""

from typing import TypeAlias

from broker.core.coordination.machine import Decision
from broker.core.groups.commands import classic, consumer, offsets
from broker.core.groups.commands.assigned import AssignedResponse, AssignedStatus
from broker.core.groups.commands.listing import ListGroupsResponse
from broker.core.groups.records.encoding import Record
from broker.model.errors import ErrorCode

Response: TypeAlias = (
    classic.JoinResponse
    | classic.SyncResponse
    | classic.LeaveResponse
    | offsets.CommitResponse
    | offsets.FetchOffsetsResponse
    | classic.GroupDescription
    | offsets.DeleteOffsetsResponse
    | ListGroupsResponse
    | consumer.ConsumerHeartbeatResponse
    | consumer.ConsumerGroupDescription
    | AssignedResponse
    | AssignedStatus
    | ErrorCode
)

GroupDecision: TypeAlias = Decision[Record, Response]
