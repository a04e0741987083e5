"""The mapping of errors to V1's: one of five codes, and a text.

Clients decide by the code alone whether to retry: after NOT_LEADER later or at another broker,
after GENERATION_MISMATCH by joining again. So every transient error is NOT_LEADER.
"""

from enum import Enum
from typing import Final, NamedTuple

from broker.core.groups.commands.assigned import AssignedError
from broker.model.errors import ErrorCode, PolylogError, RequestError
from broker.model.limits import ERROR_TEXT_CHARS_MAX

NOT_LEADER_TEXT = "partition leader unavailable on this broker"
_NO_COORDINATOR = "group coordinator unavailable on this broker"


class Code(Enum):
    """V1's error codes."""

    BAD_REQUEST = "BAD_REQUEST"
    UNKNOWN_COMMAND = "UNKNOWN_COMMAND"
    REPLICATION_TIMEOUT = "REPLICATION_TIMEOUT"
    NOT_LEADER = "NOT_LEADER"
    GENERATION_MISMATCH = "GENERATION_MISMATCH"


class Refusal(NamedTuple):
    """The code and text of an error line."""

    code: Code
    text: str


class RefusedError(PolylogError):
    """A command is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        """Keep the code and text of the line."""
        super().__init__(refusal.text)
        self.refusal = refusal


def bad_request(text: str) -> RefusedError:
    """Return a BAD_REQUEST error with this text."""
    return RefusedError(Refusal(Code.BAD_REQUEST, text))


NOT_LEADER: Final = Refusal(Code.NOT_LEADER, NOT_LEADER_TEXT)
ACKS_TIMEOUT: Final = Refusal(Code.REPLICATION_TIMEOUT, "acks=all timeout")


def _not_leader(reason: str) -> Refusal:
    return Refusal(Code.NOT_LEADER, f"{NOT_LEADER_TEXT}: {reason}")


# The message of the RequestError, if it has one, is appended to the text.
_BY_CODE: Final[dict[ErrorCode, Refusal]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Refusal(
        Code.BAD_REQUEST, "not authorized for this topic"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Refusal(
        Code.BAD_REQUEST, "not authorized for this group"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Refusal(
        Code.BAD_REQUEST, "not authorized for this command"
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _not_leader("it is still loading"),
    ErrorCode.LEADER_NOT_AVAILABLE: NOT_LEADER,
    ErrorCode.KAFKA_STORAGE_ERROR: _not_leader("its disk has failed or is full"),
    ErrorCode.DISK_FULL: _not_leader("its disk is full"),
    ErrorCode.NOT_ENOUGH_REPLICAS: _not_leader("too few replicas are in sync"),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ACKS_TIMEOUT,
    ErrorCode.REQUEST_TIMED_OUT: _not_leader("it is busy"),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Refusal(
        Code.NOT_LEADER, f"{_NO_COORDINATOR}: it is still loading"
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Refusal(Code.NOT_LEADER, _NO_COORDINATOR),
    ErrorCode.NOT_COORDINATOR: Refusal(Code.NOT_LEADER, _NO_COORDINATOR),
    ErrorCode.INVALID_TOPIC_EXCEPTION: Refusal(Code.BAD_REQUEST, "invalid topic"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Refusal(Code.BAD_REQUEST, "invalid partition"),
    ErrorCode.MESSAGE_TOO_LARGE: Refusal(Code.BAD_REQUEST, "message too large"),
    ErrorCode.RECORD_LIST_TOO_LARGE: Refusal(Code.BAD_REQUEST, "message too large"),
}

# In the order of AssignedError, without NONE.
_OF_GROUP: Final[dict[AssignedError, Refusal]] = {
    AssignedError.LOADING: _BY_CODE[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
    AssignedError.UNAVAILABLE: _BY_CODE[ErrorCode.COORDINATOR_NOT_AVAILABLE],
    AssignedError.INVALID_NAME: Refusal(
        Code.BAD_REQUEST, "invalid group, topic or consumer_id: it is too long"
    ),
    AssignedError.OTHER_PROTOCOL: Refusal(
        Code.BAD_REQUEST, "group has live members of another protocol"
    ),
    AssignedError.FULL: Refusal(Code.BAD_REQUEST, "too many groups, or members in this one"),
    AssignedError.GROUP_NOT_FOUND: Refusal(Code.GENERATION_MISMATCH, "group not found"),
    AssignedError.OTHER_TOPIC: Refusal(Code.GENERATION_MISMATCH, "group not found"),
    AssignedError.STALE_GENERATION: Refusal(Code.GENERATION_MISMATCH, "stale generation"),
    AssignedError.UNKNOWN_MEMBER: Refusal(Code.GENERATION_MISMATCH, "unknown member"),
    AssignedError.NOT_ASSIGNED: Refusal(
        Code.GENERATION_MISMATCH, "partition not assigned to member"
    ),
    AssignedError.OFFSET_REFUSED: Refusal(
        Code.BAD_REQUEST, "the group has as many committed offsets as it may"
    ),
    AssignedError.OFFSET_REGRESSION: Refusal(Code.BAD_REQUEST, "more is committed already"),
}


def of_request(error: RequestError) -> Refusal:
    """Return V1's code and text for a RequestError."""
    refusal = _BY_CODE.get(error.code, Refusal(Code.BAD_REQUEST, ""))
    detail = " ".join(error.message[:ERROR_TEXT_CHARS_MAX].split())
    if not refusal.text:
        return refusal._replace(text=detail or error.code.name.lower().replace("_", " "))
    return refusal._replace(text=f"{refusal.text}: {detail}") if detail else refusal


def of_group(error: AssignedError) -> Refusal:
    """Return V1's code and text for an error of a group."""
    return _OF_GROUP[error]
