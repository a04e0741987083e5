"""What can go wrong, in words that no protocol owns.

Two kinds of failure, kept apart. An expected one is an `ErrorCode`: a value that a response
carries, mapped to a protocol's number at that protocol's edge. An exception of the tree below ends
what was being done and says what was expected, what came, and where:

    PolylogError
      CodecError        bytes that are not what their format says; whose they are decides what
                        follows: a connection is closed, a log is cut, a caller is told
        Truncated         they end before what their lengths promise
        Corrupt           a length, count, checksum or value that cannot be
        Unsupported       a format, version or compression that this build does not have
        LimitExceeded     more than the reader allowed
      PeerError         the other side broke its protocol: its connection is closed
      RequestError      a request that can be answered, with an ErrorCode
      ConfigError       a setting that does not exist or is out of range   (exit 2)
      DataDirError      a data directory that cannot be used              (exit 73)
      StorageError      the disk failed                                   (exit 74)
        DiskFull        or has no room: nothing is broken, and it can be tried again later
      NoRoom            a limit is reached: nothing was written, and what there is can be used
      SegmentGone       a reader comes too late: retention or a delete took the file away
      SchemaMismatch    rows that a sink cannot write, and what it expected
      MarkerMismatch    an earlier attempt wrote something else of the same batch

The names are Kafka's (protocol guide, error codes) but for DISK_FULL; every dialect maps from them.
"""

from enum import Enum


class ErrorCode(Enum):
    """Why a request was refused; NONE when it was not."""

    # There is one of each. Enum's own hash is a call of Python, for every answer that looks up a
    # number.
    __hash__ = object.__hash__

    NONE = "NONE"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    CORRUPT_MESSAGE = "CORRUPT_MESSAGE"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    INVALID_FETCH_SIZE = "INVALID_FETCH_SIZE"
    LEADER_NOT_AVAILABLE = "LEADER_NOT_AVAILABLE"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE"
    REPLICA_NOT_AVAILABLE = "REPLICA_NOT_AVAILABLE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    STALE_CONTROLLER_EPOCH = "STALE_CONTROLLER_EPOCH"
    OFFSET_METADATA_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"
    NETWORK_EXCEPTION = "NETWORK_EXCEPTION"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
    RECORD_LIST_TOO_LARGE = "RECORD_LIST_TOO_LARGE"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    INVALID_REQUIRED_ACKS = "INVALID_REQUIRED_ACKS"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    INVALID_COMMIT_OFFSET_SIZE = "INVALID_COMMIT_OFFSET_SIZE"
    TOPIC_AUTHORIZATION_FAILED = "TOPIC_AUTHORIZATION_FAILED"
    GROUP_AUTHORIZATION_FAILED = "GROUP_AUTHORIZATION_FAILED"
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED"
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    UNSUPPORTED_SASL_MECHANISM = "UNSUPPORTED_SASL_MECHANISM"
    ILLEGAL_SASL_STATE = "ILLEGAL_SASL_STATE"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
    INVALID_CONFIG = "INVALID_CONFIG"
    NOT_CONTROLLER = "NOT_CONTROLLER"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    DUPLICATE_SEQUENCE_NUMBER = "DUPLICATE_SEQUENCE_NUMBER"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    TRANSACTION_COORDINATOR_FENCED = "TRANSACTION_COORDINATOR_FENCED"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    SECURITY_DISABLED = "SECURITY_DISABLED"
    OPERATION_NOT_ATTEMPTED = "OPERATION_NOT_ATTEMPTED"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
    LOG_DIR_NOT_FOUND = "LOG_DIR_NOT_FOUND"
    SASL_AUTHENTICATION_FAILED = "SASL_AUTHENTICATION_FAILED"
    UNKNOWN_PRODUCER_ID = "UNKNOWN_PRODUCER_ID"
    REASSIGNMENT_IN_PROGRESS = "REASSIGNMENT_IN_PROGRESS"
    DELEGATION_TOKEN_AUTH_DISABLED = "DELEGATION_TOKEN_AUTH_DISABLED"
    DELEGATION_TOKEN_NOT_FOUND = "DELEGATION_TOKEN_NOT_FOUND"
    DELEGATION_TOKEN_OWNER_MISMATCH = "DELEGATION_TOKEN_OWNER_MISMATCH"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
    DELEGATION_TOKEN_EXPIRED = "DELEGATION_TOKEN_EXPIRED"
    INVALID_PRINCIPAL_TYPE = "INVALID_PRINCIPAL_TYPE"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    FETCH_SESSION_ID_NOT_FOUND = "FETCH_SESSION_ID_NOT_FOUND"
    INVALID_FETCH_SESSION_EPOCH = "INVALID_FETCH_SESSION_EPOCH"
    LISTENER_NOT_FOUND = "LISTENER_NOT_FOUND"
    TOPIC_DELETION_DISABLED = "TOPIC_DELETION_DISABLED"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    UNSUPPORTED_COMPRESSION_TYPE = "UNSUPPORTED_COMPRESSION_TYPE"
    STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
    OFFSET_NOT_AVAILABLE = "OFFSET_NOT_AVAILABLE"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    PREFERRED_LEADER_NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    ELECTION_NOT_NEEDED = "ELECTION_NOT_NEEDED"
    NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"
    INVALID_RECORD = "INVALID_RECORD"
    UNSTABLE_OFFSET_COMMIT = "UNSTABLE_OFFSET_COMMIT"
    THROTTLING_QUOTA_EXCEEDED = "THROTTLING_QUOTA_EXCEEDED"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    DUPLICATE_RESOURCE = "DUPLICATE_RESOURCE"
    UNACCEPTABLE_CREDENTIAL = "UNACCEPTABLE_CREDENTIAL"
    INCONSISTENT_VOTER_SET = "INCONSISTENT_VOTER_SET"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    FEATURE_UPDATE_FAILED = "FEATURE_UPDATE_FAILED"
    PRINCIPAL_DESERIALIZATION_FAILURE = "PRINCIPAL_DESERIALIZATION_FAILURE"
    SNAPSHOT_NOT_FOUND = "SNAPSHOT_NOT_FOUND"
    POSITION_OUT_OF_RANGE = "POSITION_OUT_OF_RANGE"
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"
    DUPLICATE_BROKER_REGISTRATION = "DUPLICATE_BROKER_REGISTRATION"
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    INCONSISTENT_TOPIC_ID = "INCONSISTENT_TOPIC_ID"
    INCONSISTENT_CLUSTER_ID = "INCONSISTENT_CLUSTER_ID"
    TRANSACTIONAL_ID_NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
    FETCH_SESSION_TOPIC_ID_ERROR = "FETCH_SESSION_TOPIC_ID_ERROR"
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    NEW_LEADER_ELECTED = "NEW_LEADER_ELECTED"
    OFFSET_MOVED_TO_TIERED_STORAGE = "OFFSET_MOVED_TO_TIERED_STORAGE"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    MISMATCHED_ENDPOINT_TYPE = "MISMATCHED_ENDPOINT_TYPE"
    UNSUPPORTED_ENDPOINT_TYPE = "UNSUPPORTED_ENDPOINT_TYPE"
    UNKNOWN_CONTROLLER_ID = "UNKNOWN_CONTROLLER_ID"
    UNKNOWN_SUBSCRIPTION_ID = "UNKNOWN_SUBSCRIPTION_ID"
    TELEMETRY_TOO_LARGE = "TELEMETRY_TOO_LARGE"
    INVALID_REGISTRATION = "INVALID_REGISTRATION"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    INVALID_RECORD_STATE = "INVALID_RECORD_STATE"
    SHARE_SESSION_NOT_FOUND = "SHARE_SESSION_NOT_FOUND"
    INVALID_SHARE_SESSION_EPOCH = "INVALID_SHARE_SESSION_EPOCH"
    FENCED_STATE_EPOCH = "FENCED_STATE_EPOCH"
    INVALID_VOTER_KEY = "INVALID_VOTER_KEY"
    DUPLICATE_VOTER = "DUPLICATE_VOTER"
    VOTER_NOT_FOUND = "VOTER_NOT_FOUND"
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    REBOOTSTRAP_REQUIRED = "REBOOTSTRAP_REQUIRED"
    STREAMS_INVALID_TOPOLOGY = "STREAMS_INVALID_TOPOLOGY"
    STREAMS_INVALID_TOPOLOGY_EPOCH = "STREAMS_INVALID_TOPOLOGY_EPOCH"
    STREAMS_TOPOLOGY_FENCED = "STREAMS_TOPOLOGY_FENCED"
    SHARE_SESSION_LIMIT_REACHED = "SHARE_SESSION_LIMIT_REACHED"
    GROUP_DELETION_FAILED = "GROUP_DELETION_FAILED"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"
    CONTROLLER_ID_NOT_REGISTERED = "CONTROLLER_ID_NOT_REGISTERED"
    # Our own: no protocol here has a word for a disk that is full and not broken.
    DISK_FULL = "DISK_FULL"


class PolylogError(Exception):
    """The root of everything this package raises on purpose."""


class CodecError(PolylogError):
    """Bytes that are not what their format says.

    Attributes:
        reason: what was expected and what came.
        position: where in the input that was, in bytes; None when no one place is at fault.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        """Keep both; the message is the reason with the position behind it."""
        super().__init__(reason if position is None else f"{reason} at byte {position}")
        self.reason = reason
        self.position = position


class Truncated(CodecError):
    """The bytes end before what their own lengths and counts promise."""


class Corrupt(CodecError):
    """A length, count, checksum or value that the format does not allow."""


class Unsupported(CodecError):
    """A format, version, message or compression that is unknown here or not installed."""


class LimitExceeded(CodecError):
    """The bytes are more, or unfold to more, than the caller allowed."""


class PeerError(PolylogError):
    """The other side broke its protocol; its connection is closed."""


class RequestError(PolylogError):
    """A request that is answered with an error code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        """Keep the code that the response carries; the message may travel with it."""
        super().__init__(message or code.name)
        self.code = code
        self.message = message


def disk_refusal(error: "StorageError") -> RequestError:
    """What a request is answered with that the disk did not let happen."""
    is_full = isinstance(error, DiskFull)
    return RequestError(
        ErrorCode.DISK_FULL if is_full else ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    )


class ConfigError(PolylogError):
    """A setting that does not exist, or a value out of its range."""


class DataDirError(PolylogError):
    """A data directory that is locked by another broker or cannot be used."""


class StorageError(PolylogError):
    """The disk failed: a write, a sync or a read came back with an error."""


class DiskFull(StorageError):
    """There was no room on the disk: nothing is broken, and the same may be done later."""


class TooManyProducers(PolylogError):
    """A limit of a log is reached: nothing was written, and the log is as good as before."""


class SegmentGone(PolylogError):
    """Part of a log that was there is not any more: retention, or a deleted topic."""


class Unreachable(PolylogError):
    """The broker that a command is for is not there, or has gone."""


class ImportFailed(PolylogError):
    """Not all of another server's data could be brought here; what to do stands in the message."""


class SchemaMismatch(PolylogError):
    """Columns or rows that a sink cannot write; nothing of the chunk they are in was written."""


class MarkerMismatch(PolylogError):
    """What was written of a batch does not fit what is to be written: nothing more was."""


class SnapshotFailed(PolylogError):
    """A snapshot could not be taken: the files are not what the broker says; nothing is left."""
