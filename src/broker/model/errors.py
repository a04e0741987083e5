"""Errors, independent of a protocol.

There are two kinds of failures. An expected one is an `ErrorCode`: a value in a response, which
each protocol maps to its own number. An exception of this tree ends the operation, and its message
says what was expected, what was found, and where:

PolylogError
    CodecError            bytes that violate their format; the caller closes the connection,
                          truncates the log or reports an error
        Truncated         they end before the end that their lengths state
        Corrupt           an impossible length, count, checksum or value
        Unsupported       a format, version or compression that this build does not support
        LimitExceeded     more than the reader allows
    PeerError             the peer violates its protocol: its connection is closed
    RequestError          a request that is answered with an ErrorCode
    ConfigError           a setting that does not exist or is out of range   (exit 2)
    DataDirError          a data directory that cannot be used               (exit 73)
    StorageError          the disk has failed                                (exit 74)
        DiskFull          it has no space: nothing is damaged, the operation can be retried
    TooManyProducers      a limit of a log: nothing was written, the log stays in service
    SegmentGone           retention or a delete has removed a file that is being read
    SchemaMismatch        rows that a sink cannot write, with what it expects
    MarkerMismatch        an earlier attempt wrote something else of the same batch

The codes have Kafka's names (protocol guide, error codes), except DISK_FULL; the other protocols
map from them.
"""

from enum import Enum


class ErrorCode(Enum):
    """The result of a request; NONE is success."""

    # Members are singletons. Enum's own hash is a Python call, made for every response that maps a
    # code to a number.
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
    # Not Kafka's: no protocol here has a code for a disk that is full but works.
    DISK_FULL = "DISK_FULL"


class PolylogError(Exception):
    """The base of all exceptions that this package raises on purpose."""


class CodecError(PolylogError):
    """Bytes that violate their format.

    Attributes:
        reason: what was expected and what was found.
        position: the place in the input, in bytes; None when there is no single one.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        """Keep both; the message is the reason followed by the position."""
        super().__init__(reason if position is None else f"{reason} at byte {position}")
        self.reason = reason
        self.position = position


class Truncated(CodecError):
    """The bytes end before the end that their lengths and counts state."""


class Corrupt(CodecError):
    """An impossible length, count, checksum or value."""


class Unsupported(CodecError):
    """A format, version, message or compression that is unknown or not installed."""


class LimitExceeded(CodecError):
    """The bytes, or what they decompress to, exceed the caller's limit."""


class PeerError(PolylogError):
    """The peer violates its protocol; its connection is closed."""


class RequestError(PolylogError):
    """A request that is answered with an error code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        """Keep the code of the response, and a message, which some responses carry."""
        super().__init__(message or code.name)
        self.code = code
        self.message = message


def disk_refusal(error: "StorageError") -> RequestError:
    """Return the RequestError for a failure of the disk."""
    is_full = isinstance(error, DiskFull)
    return RequestError(
        ErrorCode.DISK_FULL if is_full else ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    )


class ConfigError(PolylogError):
    """A setting that does not exist, or a value out of its range."""


class DataDirError(PolylogError):
    """A data directory that is locked by another broker or cannot be used."""


class StorageError(PolylogError):
    """A write, sync or read of the disk has failed."""


class DiskFull(StorageError):
    """The disk has no space: nothing is damaged, the operation can be retried."""


class TooManyProducers(PolylogError):
    """A log remembers as many producers as it may: nothing was written, it stays in service."""


class SegmentGone(PolylogError):
    """A part of a log has been removed while it was read: by retention, or with its topic."""


class Unreachable(PolylogError):
    """The broker of a command cannot be reached, or has stopped."""


class ImportFailed(PolylogError):
    """Some data of another server could not be imported; the message says what to do."""


class SchemaMismatch(PolylogError):
    """Columns or rows that a sink cannot write; nothing of their chunk was written."""


class MarkerMismatch(PolylogError):
    """What an earlier attempt wrote of a batch differs; nothing more was written."""


class SnapshotFailed(PolylogError):
    """A snapshot could not be taken: the files differ from what the broker reported."""
