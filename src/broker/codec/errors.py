"""Kafka's error codes: numbers, whether clients retry, and texts for users.

The numbers are those of Kafka 4.4's `Errors`. The names are `broker.model.errors.ErrorCode`; this
table has a row for each of them.

    >>> error_of(3).name, error_of(3).is_retriable, error_named("NOT_COORDINATOR").code
    ('UNKNOWN_TOPIC_OR_PARTITION', True, 16)
"""

from typing import Final, NamedTuple

from broker.model.errors import ErrorCode


class KafkaError(NamedTuple):
    """The meaning of an error code in a response."""

    code: int
    name: str
    is_retriable: bool  # whether a client may send the same request again
    message: str  # for users, when the response has no text; empty for NONE


def error_of(code: int) -> KafkaError:
    """Return the error of a code.

    A code that is unknown here comes from a newer broker: as in Kafka's clients it is returned as
    UNKNOWN_SERVER_ERROR, which is not retriable.
    """
    error = _BY_CODE.get(code)
    if error is None:
        name = ErrorCode.UNKNOWN_SERVER_ERROR.name
        return KafkaError(code, name, False, f"unknown error code {code}")
    return error


def error_named(name: str) -> KafkaError:
    """Return the error with a name, such as "NOT_COORDINATOR".

    Raises:
        ValueError: there is no such error.
    """
    error = _BY_NAME.get(name)
    if error is None:
        raise ValueError(f"Kafka has no error named {name!r}")
    return error


_E = ErrorCode

# The number on the wire; whether a client may send the same request again; the text shown to users
# when the response has none.
_FACTS: dict[ErrorCode, tuple[int, bool, str]] = {
    _E.UNKNOWN_SERVER_ERROR: (-1, False, "the broker failed unexpectedly; see its log"),
    _E.NONE: (0, False, ""),
    _E.OFFSET_OUT_OF_RANGE: (1, False, "the offset is not in the range of the partition"),
    _E.CORRUPT_MESSAGE: (2, True, "the batch fails its checksum, its size or its structure"),
    _E.UNKNOWN_TOPIC_OR_PARTITION: (3, True, "this broker has no such topic or partition"),
    _E.INVALID_FETCH_SIZE: (4, False, "the fetch size is not valid"),
    _E.LEADER_NOT_AVAILABLE: (5, True, "the partition has no leader at the moment"),
    _E.NOT_LEADER_OR_FOLLOWER: (6, True, "this broker neither leads nor follows the partition"),
    _E.REQUEST_TIMED_OUT: (7, True, "the request was not completed in time"),
    _E.BROKER_NOT_AVAILABLE: (8, False, "the broker is not available"),
    _E.REPLICA_NOT_AVAILABLE: (9, True, "the replica is not available"),
    _E.MESSAGE_TOO_LARGE: (10, False, "the batch is larger than max.message.bytes allows"),
    _E.STALE_CONTROLLER_EPOCH: (11, False, "the controller has moved"),
    _E.OFFSET_METADATA_TOO_LARGE: (12, False, "the text stored with an offset is too long"),
    _E.NETWORK_EXCEPTION: (13, True, "the connection ended before the response"),
    _E.COORDINATOR_LOAD_IN_PROGRESS: (14, True, "the coordinator is still loading"),
    _E.COORDINATOR_NOT_AVAILABLE: (15, True, "the coordinator is not available"),
    _E.NOT_COORDINATOR: (16, True, "this broker is not the coordinator"),
    _E.INVALID_TOPIC_EXCEPTION: (17, False, "the topic name is not valid for this operation"),
    _E.RECORD_LIST_TOO_LARGE: (18, False, "the batch is larger than a segment"),
    _E.NOT_ENOUGH_REPLICAS: (19, True, "fewer replicas are in sync than min.insync.replicas"),
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        20,
        True,
        "written, but to fewer than min.insync.replicas",
    ),
    _E.INVALID_REQUIRED_ACKS: (21, False, "acks must be -1, 0 or 1"),
    _E.ILLEGAL_GENERATION: (22, False, "the generation is not the group's current one"),
    _E.INCONSISTENT_GROUP_PROTOCOL: (23, False, "member and group have no protocol in common"),
    _E.INVALID_GROUP_ID: (24, False, "the group id is not valid"),
    _E.UNKNOWN_MEMBER_ID: (25, False, "the group has no such member"),
    _E.INVALID_SESSION_TIMEOUT: (26, False, "the session timeout is outside the allowed range"),
    _E.REBALANCE_IN_PROGRESS: (27, False, "the group is rebalancing; join again"),
    _E.INVALID_COMMIT_OFFSET_SIZE: (28, False, "the committed offset is too large to be stored"),
    _E.TOPIC_AUTHORIZATION_FAILED: (29, False, "not authorized for the topic"),
    _E.GROUP_AUTHORIZATION_FAILED: (30, False, "not authorized for the group"),
    _E.CLUSTER_AUTHORIZATION_FAILED: (31, False, "not authorized for the cluster"),
    _E.INVALID_TIMESTAMP: (32, False, "a timestamp is outside the range that the topic accepts"),
    _E.UNSUPPORTED_SASL_MECHANISM: (33, False, "the SASL mechanism is not enabled"),
    _E.ILLEGAL_SASL_STATE: (34, False, "the request does not fit the state of authentication"),
    _E.UNSUPPORTED_VERSION: (35, False, "this version of the request is not supported"),
    _E.TOPIC_ALREADY_EXISTS: (36, False, "a topic with this name exists"),
    _E.INVALID_PARTITIONS: (37, False, "the number of partitions is not valid"),
    _E.INVALID_REPLICATION_FACTOR: (38, False, "replication factor below 1 or above the brokers"),
    _E.INVALID_REPLICA_ASSIGNMENT: (39, False, "the replica assignment is not valid"),
    _E.INVALID_CONFIG: (40, False, "the configuration is not valid"),
    _E.NOT_CONTROLLER: (41, True, "this broker is not the controller"),
    _E.INVALID_REQUEST: (42, False, "the request contradicts itself or the protocol"),
    _E.UNSUPPORTED_FOR_MESSAGE_FORMAT: (43, False, "the message format does not support this"),
    _E.POLICY_VIOLATION: (44, False, "the request violates a policy of the topic or broker"),
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: (45, False, "the sequence number is not the producer's next"),
    _E.DUPLICATE_SEQUENCE_NUMBER: (46, False, "the sequence number was already used"),
    _E.INVALID_PRODUCER_EPOCH: (47, False, "the producer epoch is older than the one known"),
    _E.INVALID_TXN_STATE: (48, False, "the transaction is not in a state that allows this"),
    _E.INVALID_PRODUCER_ID_MAPPING: (49, False, "producer id and transactional id do not match"),
    _E.INVALID_TRANSACTION_TIMEOUT: (50, False, "the transaction timeout is out of range"),
    _E.CONCURRENT_TRANSACTIONS: (51, True, "another operation of this transaction is running"),
    _E.TRANSACTION_COORDINATOR_FENCED: (52, False, "the transaction coordinator has moved"),
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (53, False, "not authorized"),
    _E.SECURITY_DISABLED: (54, False, "security features are disabled"),
    _E.OPERATION_NOT_ATTEMPTED: (55, False, "not tried, because another part failed"),
    _E.KAFKA_STORAGE_ERROR: (56, True, "the disk failed; the partition is offline"),
    _E.LOG_DIR_NOT_FOUND: (57, False, "the log directory does not exist"),
    _E.SASL_AUTHENTICATION_FAILED: (58, False, "authentication failed"),
    _E.UNKNOWN_PRODUCER_ID: (59, False, "the producer id is not known"),
    _E.REASSIGNMENT_IN_PROGRESS: (60, False, "a reassignment of the partition is in progress"),
    _E.DELEGATION_TOKEN_AUTH_DISABLED: (61, False, "delegation tokens are not enabled"),
    _E.DELEGATION_TOKEN_NOT_FOUND: (62, False, "the delegation token does not exist"),
    _E.DELEGATION_TOKEN_OWNER_MISMATCH: (63, False, "the token belongs to another principal"),
    _E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (64, False, "not allowed on this connection"),
    _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (65, False, "not authorized for the token"),
    _E.DELEGATION_TOKEN_EXPIRED: (66, False, "the delegation token has expired"),
    _E.INVALID_PRINCIPAL_TYPE: (67, False, "the type of principal is not supported"),
    _E.NON_EMPTY_GROUP: (68, False, "the group has members"),
    _E.GROUP_ID_NOT_FOUND: (69, False, "the group does not exist"),
    _E.FETCH_SESSION_ID_NOT_FOUND: (70, True, "the fetch session does not exist"),
    _E.INVALID_FETCH_SESSION_EPOCH: (71, True, "the fetch session epoch is not the expected one"),
    _E.LISTENER_NOT_FOUND: (72, True, "the leader has no listener like this one"),
    _E.TOPIC_DELETION_DISABLED: (73, False, "deletion of topics is disabled (delete.topic.enable)"),
    _E.FENCED_LEADER_EPOCH: (74, True, "the leader epoch is older than the broker's"),
    _E.UNKNOWN_LEADER_EPOCH: (75, True, "the leader epoch is newer than the broker's"),
    _E.UNSUPPORTED_COMPRESSION_TYPE: (76, False, "this version does not support the compression"),
    _E.STALE_BROKER_EPOCH: (77, False, "the broker epoch has changed"),
    _E.OFFSET_NOT_AVAILABLE: (78, True, "the new leader does not know its high watermark yet"),
    _E.MEMBER_ID_REQUIRED: (79, False, "join again with the member id of this response"),
    _E.PREFERRED_LEADER_NOT_AVAILABLE: (80, True, "the preferred leader is not available"),
    _E.GROUP_MAX_SIZE_REACHED: (81, False, "the group is full (group.max.size)"),
    _E.FENCED_INSTANCE_ID: (82, False, "another member took over the group instance id"),
    _E.ELIGIBLE_LEADERS_NOT_AVAILABLE: (83, True, "no eligible leader is available"),
    _E.ELECTION_NOT_NEEDED: (84, True, "the partition already has that leader"),
    _E.NO_REASSIGNMENT_IN_PROGRESS: (85, False, "no reassignment is in progress"),
    _E.GROUP_SUBSCRIBED_TO_TOPIC: (86, False, "a member of the group is subscribed to the topic"),
    _E.INVALID_RECORD: (87, False, "the topic refuses a record of the batch, or the batch as such"),
    _E.UNSTABLE_OFFSET_COMMIT: (88, True, "the offset belongs to an open transaction"),
    _E.THROTTLING_QUOTA_EXCEEDED: (89, True, "the quota is used up"),
    _E.PRODUCER_FENCED: (90, False, "a newer producer uses the same transactional id"),
    _E.RESOURCE_NOT_FOUND: (91, False, "the resource does not exist"),
    _E.DUPLICATE_RESOURCE: (92, False, "the resource is named twice"),
    _E.UNACCEPTABLE_CREDENTIAL: (93, False, "the credential does not meet the requirements"),
    _E.INCONSISTENT_VOTER_SET: (94, False, "the voters of both sides differ"),
    _E.INVALID_UPDATE_VERSION: (95, False, "the version of the update is not valid"),
    _E.FEATURE_UPDATE_FAILED: (96, False, "the features could not be updated"),
    _E.PRINCIPAL_DESERIALIZATION_FAILURE: (97, False, "the forwarded principal cannot be read"),
    _E.SNAPSHOT_NOT_FOUND: (98, False, "the snapshot does not exist"),
    _E.POSITION_OUT_OF_RANGE: (99, False, "the position is not within the snapshot"),
    _E.UNKNOWN_TOPIC_ID: (100, True, "this broker has no topic with this id"),
    _E.DUPLICATE_BROKER_REGISTRATION: (101, False, "another broker is registered with this id"),
    _E.BROKER_ID_NOT_REGISTERED: (102, False, "no broker is registered with this id"),
    _E.INCONSISTENT_TOPIC_ID: (103, True, "the topic id is not that of the topic's log"),
    _E.INCONSISTENT_CLUSTER_ID: (104, False, "the cluster id is another one"),
    _E.TRANSACTIONAL_ID_NOT_FOUND: (105, False, "the transactional id is not known"),
    _E.FETCH_SESSION_TOPIC_ID_ERROR: (106, True, "a session cannot mix names and ids"),
    _E.INELIGIBLE_REPLICA: (107, False, "the replica may not join the in-sync replicas"),
    _E.NEW_LEADER_ELECTED: (108, False, "the change made another replica the leader"),
    _E.OFFSET_MOVED_TO_TIERED_STORAGE: (109, False, "the offset is in tiered storage"),
    _E.FENCED_MEMBER_EPOCH: (110, False, "the member epoch is fenced; give up all partitions"),
    _E.UNRELEASED_INSTANCE_ID: (111, False, "the group instance id is in use by another member"),
    _E.UNSUPPORTED_ASSIGNOR: (112, False, "none of the assignors is supported"),
    _E.STALE_MEMBER_EPOCH: (113, False, "the member epoch is not the current one"),
    _E.MISMATCHED_ENDPOINT_TYPE: (114, False, "the request came to an endpoint of another type"),
    _E.UNSUPPORTED_ENDPOINT_TYPE: (115, False, "this type of endpoint is not known"),
    _E.UNKNOWN_CONTROLLER_ID: (116, False, "no controller has this id"),
    _E.UNKNOWN_SUBSCRIPTION_ID: (117, False, "the telemetry subscription is not the current one"),
    _E.TELEMETRY_TOO_LARGE: (118, False, "the telemetry is too large"),
    _E.INVALID_REGISTRATION: (119, False, "the registration is not valid"),
    _E.TRANSACTION_ABORTABLE: (120, False, "the transaction must be aborted"),
    _E.INVALID_RECORD_STATE: (121, False, "the record is in another state"),
    _E.SHARE_SESSION_NOT_FOUND: (122, True, "the share session does not exist"),
    _E.INVALID_SHARE_SESSION_EPOCH: (123, True, "the share session epoch is not the expected one"),
    _E.FENCED_STATE_EPOCH: (124, False, "the state epoch is older than the one known"),
    _E.INVALID_VOTER_KEY: (125, False, "the voter's key is not the one registered"),
    _E.DUPLICATE_VOTER: (126, False, "the voter is already in the set"),
    _E.VOTER_NOT_FOUND: (127, False, "the voter is not in the set"),
    _E.INVALID_REGULAR_EXPRESSION: (128, False, "the regular expression is not valid"),
    _E.REBOOTSTRAP_REQUIRED: (129, False, "the client must bootstrap again"),
    _E.STREAMS_INVALID_TOPOLOGY: (130, False, "the streams topology is not valid"),
    _E.STREAMS_INVALID_TOPOLOGY_EPOCH: (131, False, "the streams topology epoch is not valid"),
    _E.STREAMS_TOPOLOGY_FENCED: (132, False, "the streams topology epoch is outdated"),
    _E.SHARE_SESSION_LIMIT_REACHED: (133, True, "no more share sessions are allowed"),
    _E.GROUP_DELETION_FAILED: (134, False, "the group could not be deleted"),
    _E.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: (135, False, "not stored"),
    _E.CONTROLLER_ID_NOT_REGISTERED: (136, False, "no controller is registered with this id"),
}

# By ascending code, from -1 to 136 without a gap.
ERRORS: Final[tuple[KafkaError, ...]] = tuple(
    KafkaError(number, code.name, is_retriable, message)
    for code, (number, is_retriable, message) in _FACTS.items()
)
_BY_CODE: Final = {error.code: error for error in ERRORS}
_BY_NAME: Final = {error.name: error for error in ERRORS}
