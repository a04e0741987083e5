"""The table of errors: the code and texts of each in the binary and in the JSON form.

Codes and texts are the original's; errors that it does not have use its nearest code, with a text
of this broker. The JSON form sends the text without the code. Only EMPTY_FRAME and LONG_FRAME close
the connection.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from broker.model.errors import ErrorCode, PolylogError, RequestError


class ErrorTexts(NamedTuple):
    """A failure's code and text in the binary form, and its text in the JSON form.

    Unless it is given, the JSON text is the other one with a small first letter.
    """

    code: int
    text: str
    json_text: str = ""

    @property
    def json(self) -> str:
        """The text in the JSON form."""
        return self.json_text or self.text[0].lower() + self.text[1:]


_NOT_PARSED = "failed to parse request"


@unique
class Failure(Enum):
    """The kinds of errors."""

    EMPTY_FRAME = ErrorTexts(1, "Frame error: invalid protocol: zero-length frame", _NOT_PARSED)
    LONG_FRAME = ErrorTexts(
        1, "Frame error: frame too large: {size} bytes (max: {size_max})", "max frame size exceeded"
    )
    UNKNOWN_REQUEST = ErrorTexts(2, "Decode error: unknown request type: {kind}")
    BAD_REQUEST = ErrorTexts(2, "Decode error: decode error: {what}", _NOT_PARSED)
    FETCH = ErrorTexts(4, "Fetch failed: {reason}")
    OFFSET_OUT_OF_RANGE = ErrorTexts(4, "Fetch failed: offset out of range", "offset out of range")
    # In JSON a refused commit is answered with {"OffsetCommit":{"success":false}}, without a text.
    COMMIT = ErrorTexts(5, "Offset commit failed: {reason}")
    GROUP_OFFSET = ErrorTexts(5, "Offset fetch failed: {reason}")
    NO_PARTITION = ErrorTexts(
        10,
        "Topic or partition does not exist: topic={topic}, partition={partition}",
        "partition not found: topic={topic}, partition={partition}",
    )
    TOPIC_EXISTS = ErrorTexts(11, "Topic '{topic}' already exists")
    PARTITION_COUNT = ErrorTexts(12, "Invalid partition count: {count}")
    DESCRIBE_TOPIC = ErrorTexts(13, "DescribeTopic failed: {reason}")
    DESCRIBE_PARTITION = ErrorTexts(14, "DescribePartition failed: {reason}")
    WRITE = ErrorTexts(500, "Failed to write record: {reason}")
    CREATE = ErrorTexts(500, "Failed to create topic: {reason}")
    METRICS = ErrorTexts(500, "Metrics fetch failed: {reason}")
    FORWARDING = ErrorTexts(500, "Forwarding failed: {reason}")


_LOADING = "the partition is still loading, try again"
_COORDINATOR = "the group is still loading, try again"
_REPLICAS = "too few replicas are in sync, try again"
_DISK_FULL = "the disk is full, try again later"
_HAS_MEMBERS = "the group has live members of another protocol"
# The reason of an error code; for other codes the message of the RequestError is used.
_REASONS: Final[dict[ErrorCode, str]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized for this request",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _LOADING,
    ErrorCode.LEADER_NOT_AVAILABLE: "the broker that serves this cannot be reached, try again",
    ErrorCode.KAFKA_STORAGE_ERROR: "the partition is offline: its disk has failed or is full",
    ErrorCode.DISK_FULL: _DISK_FULL,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _COORDINATOR,
    ErrorCode.NOT_COORDINATOR: _COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: _REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _REPLICAS,
    ErrorCode.UNKNOWN_MEMBER_ID: _HAS_MEMBERS,
    ErrorCode.ILLEGAL_GENERATION: _HAS_MEMBERS,
    ErrorCode.STALE_MEMBER_EPOCH: _HAS_MEMBERS,
    ErrorCode.FENCED_INSTANCE_ID: _HAS_MEMBERS,
    ErrorCode.REBALANCE_IN_PROGRESS: _HAS_MEMBERS,
    ErrorCode.INVALID_GROUP_ID: "no group can have this name",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "there are too many groups",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "the group has too many offsets",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist any more",
}


class RefusalError(PolylogError):
    """A request is answered with an error."""

    def __init__(self, failure: Failure, **fields: object) -> None:
        """Keep the failure and the fields of its texts."""
        super().__init__(f"{failure.name} {fields}")
        self.failure = failure
        self.fields = fields

    @property
    def text(self) -> str:
        """The error's message in the binary form."""
        return self.failure.value.text.format_map(self.fields)

    @property
    def json(self) -> str:
        """The error's message in the JSON form."""
        return self.failure.value.json.format_map(self.fields)


def reason(code: ErrorCode) -> str:
    """Return the reason of an error code as a text, because clients do not know Kafka's codes."""
    return _REASONS.get(code) or code.name.lower().replace("_", " ")


def refusal(failure: Failure, error: RequestError) -> RefusalError:
    """Return the error for a RequestError of core: the failure with a reason."""
    return RefusalError(
        failure, reason=_REASONS.get(error.code) or error.message or reason(error.code)
    )
