"""Every refusal, as each dialect says it: the one table.

Codes and texts are the original's (shared notes 1.3, 1.6); what it had no words for has ours. A
client of the JSON dialect sees the text alone. Nothing here closes a connection but the first two.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from broker.model.errors import ErrorCode, PolylogError, RequestError


class Failure(Enum):
    """What went wrong."""

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
    """A failure's code and text in the binary dialect, and its text in JSON."""

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
    # In JSON a commit that is refused is an answer of its own, {"OffsetCommit":{"success":false}}.
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
_TAKEN = "the group has live members of another protocol"
# Why core refuses, in words; it has words of its own for what is not here.
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
    ErrorCode.UNKNOWN_MEMBER_ID: _TAKEN,
    ErrorCode.ILLEGAL_GENERATION: _TAKEN,
    ErrorCode.STALE_MEMBER_EPOCH: _TAKEN,
    ErrorCode.FENCED_INSTANCE_ID: _TAKEN,
    ErrorCode.REBALANCE_IN_PROGRESS: _TAKEN,
    ErrorCode.INVALID_GROUP_ID: "no group can have this name",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "there are too many groups",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "the group has too many offsets",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist any more",
}


class RefusalError(PolylogError):
    """A request that is answered with an error."""

    def __init__(self, failure: Failure, **fields: object) -> None:
        """Keep what the texts of the table name."""
        super().__init__(f"{failure.name} {fields}")
        self.failure = failure
        self.fields = fields

    @property
    def code(self) -> int:
        """The number that the binary dialect has for it."""
        return TABLE[self.failure].code

    @property
    def text(self) -> str:
        """The binary dialect's message."""
        return TABLE[self.failure].text.format_map(self.fields)

    @property
    def json(self) -> str:
        """The JSON dialect's message."""
        return TABLE[self.failure].json.format_map(self.fields)


def reason(code: ErrorCode) -> str:
    """Why core refuses, for who cannot know Kafka's names."""
    return _REASONS.get(code) or code.name.lower().replace("_", " ")


def refusal(failure: Failure, error: RequestError) -> RefusalError:
    """What core has refused, as a failure with its reason."""
    return RefusalError(
        failure, reason=_REASONS.get(error.code) or error.message or reason(error.code)
    )
