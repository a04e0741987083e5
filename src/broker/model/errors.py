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
        TooFewReplicas    fewer are in sync than min.insync.replicas; the same holds
    TooManyProducers      a limit of a log: nothing was written, the log stays in service
    SegmentGone           retention or a delete has removed a file that is being read
    SchemaMismatch        rows that a sink cannot write, with what it expects
    MarkerMismatch        an earlier attempt wrote something else of the same batch

The codes are those of Kafka 4.4's `Errors`, except DISK_FULL; the other protocols map from them.
"""

from enum import Enum


class ErrorCode(Enum):
    """The result of a request; NONE is success.

    Attributes:
        number: Kafka's, from -1 to 136 without a gap.
        is_retriable: whether a client may send the same request again.
        message: for users, when the response has no text; empty for NONE.
    """

    # Members are singletons. Enum's own hash is a Python call, made for every response that maps a
    # code to a number.
    __hash__ = object.__hash__

    def __init__(self, number: int, is_retriable: bool, message: str) -> None:  # noqa: FBT001
        """Take the fields of a row below."""
        self.number = number
        self.is_retriable = is_retriable
        self.message = message

    UNKNOWN_SERVER_ERROR = (-1, False, "the broker failed unexpectedly; see its log")
    NONE = (0, False, "")
    OFFSET_OUT_OF_RANGE = (1, False, "the offset is not in the range of the partition")
    CORRUPT_MESSAGE = (2, True, "the batch fails its checksum, its size or its structure")
    UNKNOWN_TOPIC_OR_PARTITION = (3, True, "this broker has no such topic or partition")
    INVALID_FETCH_SIZE = (4, False, "the fetch size is not valid")
    LEADER_NOT_AVAILABLE = (5, True, "the partition has no leader at the moment")
    NOT_LEADER_OR_FOLLOWER = (6, True, "this broker neither leads nor follows the partition")
    REQUEST_TIMED_OUT = (7, True, "the request was not completed in time")
    BROKER_NOT_AVAILABLE = (8, False, "the broker is not available")
    REPLICA_NOT_AVAILABLE = (9, True, "the replica is not available")
    MESSAGE_TOO_LARGE = (10, False, "the batch is larger than max.message.bytes allows")
    STALE_CONTROLLER_EPOCH = (11, False, "the controller has moved")
    OFFSET_METADATA_TOO_LARGE = (12, False, "the text stored with an offset is too long")
    NETWORK_EXCEPTION = (13, True, "the connection ended before the response")
    COORDINATOR_LOAD_IN_PROGRESS = (14, True, "the coordinator is still loading")
    COORDINATOR_NOT_AVAILABLE = (15, True, "the coordinator is not available")
    NOT_COORDINATOR = (16, True, "this broker is not the coordinator")
    INVALID_TOPIC_EXCEPTION = (17, False, "the topic name is not valid for this operation")
    RECORD_LIST_TOO_LARGE = (18, False, "the batch is larger than a segment")
    NOT_ENOUGH_REPLICAS = (19, True, "fewer replicas are in sync than min.insync.replicas")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, True, "written, but to fewer than min.insync.replicas")
    INVALID_REQUIRED_ACKS = (21, False, "acks must be -1, 0 or 1")
    ILLEGAL_GENERATION = (22, False, "the generation is not the group's current one")
    INCONSISTENT_GROUP_PROTOCOL = (23, False, "member and group have no protocol in common")
    INVALID_GROUP_ID = (24, False, "the group id is not valid")
    UNKNOWN_MEMBER_ID = (25, False, "the group has no such member")
    INVALID_SESSION_TIMEOUT = (26, False, "the session timeout is outside the allowed range")
    REBALANCE_IN_PROGRESS = (27, False, "the group is rebalancing; join again")
    INVALID_COMMIT_OFFSET_SIZE = (28, False, "the committed offset is too large to be stored")
    TOPIC_AUTHORIZATION_FAILED = (29, False, "not authorized for the topic")
    GROUP_AUTHORIZATION_FAILED = (30, False, "not authorized for the group")
    CLUSTER_AUTHORIZATION_FAILED = (31, False, "not authorized for the cluster")
    INVALID_TIMESTAMP = (32, False, "a timestamp is outside the range that the topic accepts")
    UNSUPPORTED_SASL_MECHANISM = (33, False, "the SASL mechanism is not enabled")
    ILLEGAL_SASL_STATE = (34, False, "the request does not fit the state of authentication")
    UNSUPPORTED_VERSION = (35, False, "this version of the request is not supported")
    TOPIC_ALREADY_EXISTS = (36, False, "a topic with this name exists")
    INVALID_PARTITIONS = (37, False, "the number of partitions is not valid")
    INVALID_REPLICATION_FACTOR = (38, False, "replication factor below 1 or above the brokers")
    INVALID_REPLICA_ASSIGNMENT = (39, False, "the replica assignment is not valid")
    INVALID_CONFIG = (40, False, "the configuration is not valid")
    NOT_CONTROLLER = (41, True, "this broker is not the controller")
    INVALID_REQUEST = (42, False, "the request contradicts itself or the protocol")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, False, "the message format does not support this")
    POLICY_VIOLATION = (44, False, "the request violates a policy of the topic or broker")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, False, "the sequence number is not the producer's next")
    DUPLICATE_SEQUENCE_NUMBER = (46, False, "the sequence number was already used")
    INVALID_PRODUCER_EPOCH = (47, False, "the producer epoch is older than the one known")
    INVALID_TXN_STATE = (48, False, "the transaction is not in a state that allows this")
    INVALID_PRODUCER_ID_MAPPING = (49, False, "producer id and transactional id do not match")
    INVALID_TRANSACTION_TIMEOUT = (50, False, "the transaction timeout is out of range")
    CONCURRENT_TRANSACTIONS = (51, True, "another operation of this transaction is running")
    TRANSACTION_COORDINATOR_FENCED = (52, False, "the transaction coordinator has moved")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, False, "not authorized")
    SECURITY_DISABLED = (54, False, "security features are disabled")
    OPERATION_NOT_ATTEMPTED = (55, False, "not tried, because another part failed")
    KAFKA_STORAGE_ERROR = (56, True, "the disk failed; the partition is offline")
    LOG_DIR_NOT_FOUND = (57, False, "the log directory does not exist")
    SASL_AUTHENTICATION_FAILED = (58, False, "authentication failed")
    UNKNOWN_PRODUCER_ID = (59, False, "the producer id is not known")
    REASSIGNMENT_IN_PROGRESS = (60, False, "a reassignment of the partition is in progress")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, False, "delegation tokens are not enabled")
    DELEGATION_TOKEN_NOT_FOUND = (62, False, "the delegation token does not exist")
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, False, "the token belongs to another principal")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, False, "not allowed on this connection")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, False, "not authorized for the token")
    DELEGATION_TOKEN_EXPIRED = (66, False, "the delegation token has expired")
    INVALID_PRINCIPAL_TYPE = (67, False, "the type of principal is not supported")
    NON_EMPTY_GROUP = (68, False, "the group has members")
    GROUP_ID_NOT_FOUND = (69, False, "the group does not exist")
    FETCH_SESSION_ID_NOT_FOUND = (70, True, "the fetch session does not exist")
    INVALID_FETCH_SESSION_EPOCH = (71, True, "the fetch session epoch is not the expected one")
    LISTENER_NOT_FOUND = (72, True, "the leader has no listener like this one")
    TOPIC_DELETION_DISABLED = (73, False, "deletion of topics is disabled (delete.topic.enable)")
    FENCED_LEADER_EPOCH = (74, True, "the leader epoch is older than the broker's")
    UNKNOWN_LEADER_EPOCH = (75, True, "the leader epoch is newer than the broker's")
    UNSUPPORTED_COMPRESSION_TYPE = (76, False, "this version does not support the compression")
    STALE_BROKER_EPOCH = (77, False, "the broker epoch has changed")
    OFFSET_NOT_AVAILABLE = (78, True, "the new leader does not know its high watermark yet")
    MEMBER_ID_REQUIRED = (79, False, "join again with the member id of this response")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, True, "the preferred leader is not available")
    GROUP_MAX_SIZE_REACHED = (81, False, "the group is full (group.max.size)")
    FENCED_INSTANCE_ID = (82, False, "another member took over the group instance id")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, True, "no eligible leader is available")
    ELECTION_NOT_NEEDED = (84, True, "the partition already has that leader")
    NO_REASSIGNMENT_IN_PROGRESS = (85, False, "no reassignment is in progress")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, False, "a member of the group is subscribed to the topic")
    INVALID_RECORD = (87, False, "the topic refuses a record of the batch, or the batch as such")
    UNSTABLE_OFFSET_COMMIT = (88, True, "the offset belongs to an open transaction")
    THROTTLING_QUOTA_EXCEEDED = (89, True, "the quota is used up")
    PRODUCER_FENCED = (90, False, "a newer producer uses the same transactional id")
    RESOURCE_NOT_FOUND = (91, False, "the resource does not exist")
    DUPLICATE_RESOURCE = (92, False, "the resource is named twice")
    UNACCEPTABLE_CREDENTIAL = (93, False, "the credential does not meet the requirements")
    INCONSISTENT_VOTER_SET = (94, False, "the voters of both sides differ")
    INVALID_UPDATE_VERSION = (95, False, "the version of the update is not valid")
    FEATURE_UPDATE_FAILED = (96, False, "the features could not be updated")
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, False, "the forwarded principal cannot be read")
    SNAPSHOT_NOT_FOUND = (98, False, "the snapshot does not exist")
    POSITION_OUT_OF_RANGE = (99, False, "the position is not within the snapshot")
    UNKNOWN_TOPIC_ID = (100, True, "this broker has no topic with this id")
    DUPLICATE_BROKER_REGISTRATION = (101, False, "another broker is registered with this id")
    BROKER_ID_NOT_REGISTERED = (102, False, "no broker is registered with this id")
    INCONSISTENT_TOPIC_ID = (103, True, "the topic id is not that of the topic's log")
    INCONSISTENT_CLUSTER_ID = (104, False, "the cluster id is another one")
    TRANSACTIONAL_ID_NOT_FOUND = (105, False, "the transactional id is not known")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, True, "a session cannot mix names and ids")
    INELIGIBLE_REPLICA = (107, False, "the replica may not join the in-sync replicas")
    NEW_LEADER_ELECTED = (108, False, "the change made another replica the leader")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, False, "the offset is in tiered storage")
    FENCED_MEMBER_EPOCH = (110, False, "the member epoch is fenced; give up all partitions")
    UNRELEASED_INSTANCE_ID = (111, False, "the group instance id is in use by another member")
    UNSUPPORTED_ASSIGNOR = (112, False, "none of the assignors is supported")
    STALE_MEMBER_EPOCH = (113, False, "the member epoch is not the current one")
    MISMATCHED_ENDPOINT_TYPE = (114, False, "the request came to an endpoint of another type")
    UNSUPPORTED_ENDPOINT_TYPE = (115, False, "this type of endpoint is not known")
    UNKNOWN_CONTROLLER_ID = (116, False, "no controller has this id")
    UNKNOWN_SUBSCRIPTION_ID = (117, False, "the telemetry subscription is not the current one")
    TELEMETRY_TOO_LARGE = (118, False, "the telemetry is too large")
    INVALID_REGISTRATION = (119, False, "the registration is not valid")
    TRANSACTION_ABORTABLE = (120, False, "the transaction must be aborted")
    INVALID_RECORD_STATE = (121, False, "the record is in another state")
    SHARE_SESSION_NOT_FOUND = (122, True, "the share session does not exist")
    INVALID_SHARE_SESSION_EPOCH = (123, True, "the share session epoch is not the expected one")
    FENCED_STATE_EPOCH = (124, False, "the state epoch is older than the one known")
    INVALID_VOTER_KEY = (125, False, "the voter's key is not the one registered")
    DUPLICATE_VOTER = (126, False, "the voter is already in the set")
    VOTER_NOT_FOUND = (127, False, "the voter is not in the set")
    INVALID_REGULAR_EXPRESSION = (128, False, "the regular expression is not valid")
    REBOOTSTRAP_REQUIRED = (129, False, "the client must bootstrap again")
    STREAMS_INVALID_TOPOLOGY = (130, False, "the streams topology is not valid")
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, False, "the streams topology epoch is not valid")
    STREAMS_TOPOLOGY_FENCED = (132, False, "the streams topology epoch is outdated")
    SHARE_SESSION_LIMIT_REACHED = (133, True, "no more share sessions are allowed")
    GROUP_DELETION_FAILED = (134, False, "the group could not be deleted")
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (135, False, "not stored")
    CONTROLLER_ID_NOT_REGISTERED = (136, False, "no controller is registered with this id")
    # Not Kafka's, which has no code for a disk that is full but works: the number is not sent.
    DISK_FULL = (137, True, "the disk is full")


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


class TooFewReplicas(StorageError):
    """Fewer replicas are in sync than min.insync.replicas: nothing was written; retry later."""


class TooManyProducers(PolylogError):
    """A log remembers as many producers as it may: nothing was written, it stays in service."""


class SegmentGone(PolylogError):
    """A part of a log has been removed while it was read: by retention, or with its topic."""


class Unreachable(PolylogError):
    """The broker of a command, or the metadata store of a cluster, cannot be reached."""


class TimedOut(Unreachable):
    """A broker has not answered in time; what it was asked may still happen."""


class AccessDenied(PolylogError):
    """The broker of a command refuses its login."""


class ImportFailed(PolylogError):
    """Some data of another server could not be imported; the message says what to do."""


class SchemaMismatch(PolylogError):
    """Columns or rows that a sink cannot write; nothing of their chunk was written."""


class MarkerMismatch(PolylogError):
    """What an earlier attempt wrote of a batch differs; nothing more was written."""


class SnapshotFailed(PolylogError):
    """A snapshot could not be taken: the files differ from what the broker reported."""
