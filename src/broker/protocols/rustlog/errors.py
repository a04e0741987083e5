"""The table of errors: the code and texts of each in the binary and in the JSON form.

Codes and texts are the original's; errors that it does not have use its nearest code, with a text
of this broker. The JSON form sends the text without the code. Only EMPTY_FRAME and LONG_FRAME close
the connection.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from broker.model.errors import ErrorCode, PolylogError, RequestError


class Failure(Enum):
    """The kinds of errors."""

    EMPTY_FRAME = auto()
    LONG_FRAME = auto()
    UNKNOWN_REQUEST = auto()
    BAD_REQUEST = auto()
    FETCH = auto()
    OFFSET_OUT_OF_RANGE = auto()
    COMMIT = auto()
    GROUP_OFFSET = auto()
    NO_PARTITION = auto()
    TOPIC_EXISTS = auto()
    PARTITION_COUNT = auto()
    DESCRIBE_TOPIC = auto()
    DESCRIBE_PARTITION = auto()
    WRITE = auto()
    CREATE = auto()


class ErrorTexts(NamedTuple):
    """A failure's code and text in the binary form, and its text in the JSON form."""

    code: int
    text: str
    json: str


TABLE: Final[dict[Failure, ErrorTexts]] = {
    Failure.EMPTY_FRAME: ErrorTexts(
        1, "Frame error: invalid protocol: zero-length frame", "failed to parse request"
    ),
    Failure.LONG_FRAME: ErrorTexts(
        1,
        "Frame error: frame too large: {size} bytes (max: {size_max})",
        "max frame size exceeded",
    ),
    Failure.UNKNOWN_REQUEST: ErrorTexts(
        2, "Decode error: unknown request type: {kind}", "failed to parse request"
    ),
    Failure.BAD_REQUEST: ErrorTexts(
        2, "Decode error: decode error: {what}", "failed to parse request"
    ),
    Failure.FETCH: ErrorTexts(4, "Fetch failed: {reason}", "fetch failed: {reason}"),
    Failure.OFFSET_OUT_OF_RANGE: ErrorTexts(
        4, "Fetch failed: offset out of range", "offset out of range"
    ),
    # In JSON a refused commit is answered with {"OffsetCommit":{"success":false}}, without a text.
    Failure.COMMIT: ErrorTexts(
        5, "Offset commit failed: {reason}", "offset commit failed: {reason}"
    ),
    Failure.GROUP_OFFSET: ErrorTexts(
        5, "Offset fetch failed: {reason}", "offset fetch failed: {reason}"
    ),
    Failure.NO_PARTITION: ErrorTexts(
        10,
        "Topic or partition does not exist: topic={topic}, partition={partition}",
        "partition not found: topic={topic}, partition={partition}",
    ),
    Failure.TOPIC_EXISTS: ErrorTexts(
        11, "Topic '{topic}' already exists", "topic '{topic}' already exists"
    ),
    Failure.PARTITION_COUNT: ErrorTexts(
        12, "Invalid partition count: {count}", "invalid partition count: {count}"
    ),
    Failure.DESCRIBE_TOPIC: ErrorTexts(
        13, "DescribeTopic failed: {reason}", "describe topic failed: {reason}"
    ),
    Failure.DESCRIBE_PARTITION: ErrorTexts(
        14, "DescribePartition failed: {reason}", "describe partition failed: {reason}"
    ),
    Failure.WRITE: ErrorTexts(
        500, "Failed to write record: {reason}", "failed to write record: {reason}"
    ),
    Failure.CREATE: ErrorTexts(
        500, "Failed to create topic: {reason}", "failed to create topic: {reason}"
    ),
}

_LOADING = "the partition is still loading, try again"
_COORDINATOR = "the group is still loading, try again"
_REPLICAS = "too few replicas are in sync, try again"
_DISK_FULL = "the disk is full, try again later"
_HAS_MEMBERS = "the group has live members of another protocol"
# The reason of an error code; for other codes the message of the RequestError is used.
_REASONS: Final[dict[ErrorCode, str]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _LOADING,
    ErrorCode.LEADER_NOT_AVAILABLE: _LOADING,
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
        """Keep the failure and the fields of its texts in TABLE."""
        super().__init__(f"{failure.name} {fields}")
        self.failure = failure
        self.fields = fields

    @property
    def code(self) -> int:
        """The error's code in the binary form."""
        return TABLE[self.failure].code

    @property
    def text(self) -> str:
        """The error's message in the binary form."""
        return TABLE[self.failure].text.format_map(self.fields)

    @property
    def json(self) -> str:
        """The error's message in the JSON form."""
        return TABLE[self.failure].json.format_map(self.fields)


def reason(code: ErrorCode) -> str:
    """Return the reason of an error code as a text, because clients do not know Kafka's codes."""
    return _REASONS.get(code) or code.name.lower().replace("_", " ")


def refusal(failure: Failure, error: RequestError) -> RefusalError:
    """Return the error for a RequestError of core: the failure with a reason."""
    return RefusalError(
        failure, reason=_REASONS.get(error.code) or error.message or reason(error.code)
    )
