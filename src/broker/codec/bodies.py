"""The bodies of requests and responses of the served APIs, for a type checker.

Written by tools/bodies.py from messages.txt. Import it under TYPE_CHECKING only: a program that
runs does not need it, and defining the classes takes more than ten milliseconds.

A decoded body has every field, in every version. In a body to be encoded, a field may be left out
if it is NotRequired: it has a default of its own, or some versions lack it. The comment says which
versions have a field; in others it is ignored. A class is named by its message and by the field
that has the struct.
"""

from typing import NotRequired, TypedDict


class ProduceRequestPartitionData(TypedDict):
    """One of `partition_data` in ProduceRequest."""

    index: int
    records: bytes | None


class ProduceRequestTopicData(TypedDict):
    """One of `topic_data` in ProduceRequest."""

    name: NotRequired[str]  # 0-12
    topic_id: NotRequired[bytes]  # 13
    partition_data: list[ProduceRequestPartitionData]


class ProduceRequest(TypedDict):
    """A request of API 0, versions 0-13."""

    transactional_id: NotRequired[str | None]  # 3-13
    acks: int
    timeout_ms: int
    topic_data: list[ProduceRequestTopicData]


class ProduceResponseRecordError(TypedDict):
    """One of `record_errors` in ProduceResponse."""

    batch_index: int
    batch_index_error_message: NotRequired[str | None]


class ProduceResponseCurrentLeader(TypedDict):
    """The value of `current_leader` in ProduceResponse."""

    leader_id: NotRequired[int]
    leader_epoch: NotRequired[int]


class ProduceResponsePartitionResponse(TypedDict):
    """One of `partition_responses` in ProduceResponse."""

    index: int
    error_code: int
    base_offset: int
    log_append_time_ms: NotRequired[int]  # 2-13
    log_start_offset: NotRequired[int]  # 5-13
    record_errors: NotRequired[list[ProduceResponseRecordError]]  # 8-13
    error_message: NotRequired[str | None]  # 8-13
    current_leader: NotRequired[ProduceResponseCurrentLeader]  # 10-13


class ProduceResponseResponse(TypedDict):
    """One of `responses` in ProduceResponse."""

    name: NotRequired[str]  # 0-12
    topic_id: NotRequired[bytes]  # 13
    partition_responses: list[ProduceResponsePartitionResponse]


class ProduceResponseNodeEndpoint(TypedDict):
    """One of `node_endpoints` in ProduceResponse."""

    node_id: int
    host: str
    port: int
    rack: NotRequired[str | None]


class ProduceResponse(TypedDict):
    """A response of API 0, versions 0-13."""

    responses: list[ProduceResponseResponse]
    throttle_time_ms: NotRequired[int]  # 1-13
    node_endpoints: NotRequired[list[ProduceResponseNodeEndpoint]]  # 10-13


class FetchRequestReplicaState(TypedDict):
    """The value of `replica_state` in FetchRequest."""

    replica_id: NotRequired[int]
    replica_epoch: NotRequired[int]


class FetchRequestPartition(TypedDict):
    """One of `partitions` in FetchRequest."""

    partition: int
    current_leader_epoch: NotRequired[int]  # 9-18
    fetch_offset: int
    last_fetched_epoch: NotRequired[int]  # 12-18
    log_start_offset: NotRequired[int]  # 5-18
    partition_max_bytes: int
    replica_directory_id: NotRequired[bytes]  # 17-18
    high_watermark: NotRequired[int]  # 18


class FetchRequestTopic(TypedDict):
    """One of `topics` in FetchRequest."""

    topic: NotRequired[str]  # 0-12
    topic_id: NotRequired[bytes]  # 13-18
    partitions: list[FetchRequestPartition]


class FetchRequestForgottenTopicsData(TypedDict):
    """One of `forgotten_topics_data` in FetchRequest."""

    topic: NotRequired[str]  # 7-12
    topic_id: NotRequired[bytes]  # 13-18
    partitions: list[int]


class FetchRequest(TypedDict):
    """A request of API 1, versions 0-18."""

    cluster_id: NotRequired[str | None]  # 12-18
    replica_id: NotRequired[int]  # 0-14
    replica_state: NotRequired[FetchRequestReplicaState]  # 15-18
    max_wait_ms: int
    min_bytes: int
    max_bytes: NotRequired[int]  # 3-18
    isolation_level: NotRequired[int]  # 4-18
    session_id: NotRequired[int]  # 7-18
    session_epoch: NotRequired[int]  # 7-18
    topics: list[FetchRequestTopic]
    forgotten_topics_data: NotRequired[list[FetchRequestForgottenTopicsData]]  # 7-18
    rack_id: NotRequired[str]  # 11-18


class FetchResponseDivergingEpoch(TypedDict):
    """The value of `diverging_epoch` in FetchResponse."""

    epoch: NotRequired[int]
    end_offset: NotRequired[int]


class FetchResponseCurrentLeader(TypedDict):
    """The value of `current_leader` in FetchResponse."""

    leader_id: NotRequired[int]
    leader_epoch: NotRequired[int]


class FetchResponseSnapshotId(TypedDict):
    """The value of `snapshot_id` in FetchResponse."""

    end_offset: NotRequired[int]
    epoch: NotRequired[int]


class FetchResponseAbortedTransaction(TypedDict):
    """One of `aborted_transactions` in FetchResponse."""

    producer_id: int
    first_offset: int


class FetchResponsePartition(TypedDict):
    """One of `partitions` in FetchResponse."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: NotRequired[int]  # 4-18
    log_start_offset: NotRequired[int]  # 5-18
    diverging_epoch: NotRequired[FetchResponseDivergingEpoch]  # 12-18
    current_leader: NotRequired[FetchResponseCurrentLeader]  # 12-18
    snapshot_id: NotRequired[FetchResponseSnapshotId]  # 12-18
    aborted_transactions: NotRequired[list[FetchResponseAbortedTransaction] | None]  # 4-18
    preferred_read_replica: NotRequired[int]  # 11-18
    records: bytes | None


class FetchResponseResponse(TypedDict):
    """One of `responses` in FetchResponse."""

    topic: NotRequired[str]  # 0-12
    topic_id: NotRequired[bytes]  # 13-18
    partitions: list[FetchResponsePartition]


class FetchResponseNodeEndpoint(TypedDict):
    """One of `node_endpoints` in FetchResponse."""

    node_id: int
    host: str
    port: int
    rack: NotRequired[str | None]


class FetchResponse(TypedDict):
    """A response of API 1, versions 0-18."""

    throttle_time_ms: NotRequired[int]  # 1-18
    error_code: NotRequired[int]  # 7-18
    session_id: NotRequired[int]  # 7-18
    responses: list[FetchResponseResponse]
    node_endpoints: NotRequired[list[FetchResponseNodeEndpoint]]  # 16-18


class ListOffsetsRequestPartition(TypedDict):
    """One of `partitions` in ListOffsetsRequest."""

    partition_index: int
    current_leader_epoch: NotRequired[int]  # 4-11
    timestamp: int
    max_num_offsets: NotRequired[int]  # 0


class ListOffsetsRequestTopic(TypedDict):
    """One of `topics` in ListOffsetsRequest."""

    name: str
    partitions: list[ListOffsetsRequestPartition]


class ListOffsetsRequest(TypedDict):
    """A request of API 2, versions 0-11."""

    replica_id: int
    isolation_level: NotRequired[int]  # 2-11
    topics: list[ListOffsetsRequestTopic]
    timeout_ms: NotRequired[int]  # 10-11


class ListOffsetsResponsePartition(TypedDict):
    """One of `partitions` in ListOffsetsResponse."""

    partition_index: int
    error_code: int
    old_style_offsets: NotRequired[list[int]]  # 0
    timestamp: NotRequired[int]  # 1-11
    offset: NotRequired[int]  # 1-11
    leader_epoch: NotRequired[int]  # 4-11


class ListOffsetsResponseTopic(TypedDict):
    """One of `topics` in ListOffsetsResponse."""

    name: str
    partitions: list[ListOffsetsResponsePartition]


class ListOffsetsResponse(TypedDict):
    """A response of API 2, versions 0-11."""

    throttle_time_ms: NotRequired[int]  # 2-11
    topics: list[ListOffsetsResponseTopic]


class MetadataRequestTopic(TypedDict):
    """One of `topics` in MetadataRequest."""

    topic_id: NotRequired[bytes]  # 10-13
    name: str | None


class MetadataRequest(TypedDict):
    """A request of API 3, versions 0-13."""

    topics: list[MetadataRequestTopic] | None
    allow_auto_topic_creation: NotRequired[bool]  # 4-13
    include_cluster_authorized_operations: NotRequired[bool]  # 8-10
    include_topic_authorized_operations: NotRequired[bool]  # 8-13


class MetadataResponseBroker(TypedDict):
    """One of `brokers` in MetadataResponse."""

    node_id: int
    host: str
    port: int
    rack: NotRequired[str | None]  # 1-13


class MetadataResponsePartition(TypedDict):
    """One of `partitions` in MetadataResponse."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: NotRequired[int]  # 7-13
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: NotRequired[list[int]]  # 5-13


class MetadataResponseTopic(TypedDict):
    """One of `topics` in MetadataResponse."""

    error_code: int
    name: str | None
    topic_id: NotRequired[bytes]  # 10-13
    is_internal: NotRequired[bool]  # 1-13
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: NotRequired[int]  # 8-13


class MetadataResponse(TypedDict):
    """A response of API 3, versions 0-13."""

    throttle_time_ms: NotRequired[int]  # 3-13
    brokers: list[MetadataResponseBroker]
    cluster_id: NotRequired[str | None]  # 2-13
    controller_id: NotRequired[int]  # 1-13
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: NotRequired[int]  # 8-10
    error_code: NotRequired[int]  # 13


class OffsetCommitRequestPartition(TypedDict):
    """One of `partitions` in OffsetCommitRequest."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]  # 6-10
    commit_timestamp: NotRequired[int]  # 1
    committed_metadata: str | None


class OffsetCommitRequestTopic(TypedDict):
    """One of `topics` in OffsetCommitRequest."""

    name: NotRequired[str]  # 0-9
    topic_id: NotRequired[bytes]  # 10
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(TypedDict):
    """A request of API 8, versions 0-10."""

    group_id: str
    generation_id_or_member_epoch: NotRequired[int]  # 1-10
    member_id: NotRequired[str]  # 1-10
    group_instance_id: NotRequired[str | None]  # 7-10
    retention_time_ms: NotRequired[int]  # 2-4
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(TypedDict):
    """One of `partitions` in OffsetCommitResponse."""

    partition_index: int
    error_code: int


class OffsetCommitResponseTopic(TypedDict):
    """One of `topics` in OffsetCommitResponse."""

    name: NotRequired[str]  # 0-9
    topic_id: NotRequired[bytes]  # 10
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(TypedDict):
    """A response of API 8, versions 0-10."""

    throttle_time_ms: NotRequired[int]  # 3-10
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(TypedDict):
    """One of `topics` in OffsetFetchRequest."""

    name: str
    partition_indexes: list[int]


class OffsetFetchRequestGroupTopic(TypedDict):
    """One of `topics` in OffsetFetchRequestGroup."""

    name: NotRequired[str]  # 8-9
    topic_id: NotRequired[bytes]  # 10
    partition_indexes: list[int]


class OffsetFetchRequestGroup(TypedDict):
    """One of `groups` in OffsetFetchRequest."""

    group_id: str
    member_id: NotRequired[str | None]  # 9-10
    member_epoch: NotRequired[int]  # 9-10
    topics: list[OffsetFetchRequestGroupTopic] | None


class OffsetFetchRequest(TypedDict):
    """A request of API 9, versions 0-10."""

    group_id: NotRequired[str]  # 0-7
    topics: NotRequired[list[OffsetFetchRequestTopic] | None]  # 0-7
    groups: NotRequired[list[OffsetFetchRequestGroup]]  # 8-10
    require_stable: NotRequired[bool]  # 7-10


class OffsetFetchResponseTopicPartition(TypedDict):
    """One of `partitions` in OffsetFetchResponseTopic."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]  # 5-7
    metadata: str | None
    error_code: int


class OffsetFetchResponseTopic(TypedDict):
    """One of `topics` in OffsetFetchResponse."""

    name: str
    partitions: list[OffsetFetchResponseTopicPartition]


class OffsetFetchResponseGroupTopicPartition(TypedDict):
    """One of `partitions` in OffsetFetchResponseGroupTopic."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]
    metadata: str | None
    error_code: int


class OffsetFetchResponseGroupTopic(TypedDict):
    """One of `topics` in OffsetFetchResponseGroup."""

    name: NotRequired[str]  # 8-9
    topic_id: NotRequired[bytes]  # 10
    partitions: list[OffsetFetchResponseGroupTopicPartition]


class OffsetFetchResponseGroup(TypedDict):
    """One of `groups` in OffsetFetchResponse."""

    group_id: str
    topics: list[OffsetFetchResponseGroupTopic]
    error_code: int


class OffsetFetchResponse(TypedDict):
    """A response of API 9, versions 0-10."""

    throttle_time_ms: NotRequired[int]  # 3-10
    topics: NotRequired[list[OffsetFetchResponseTopic]]  # 0-7
    error_code: NotRequired[int]  # 2-7
    groups: NotRequired[list[OffsetFetchResponseGroup]]  # 8-10


class FindCoordinatorRequest(TypedDict):
    """A request of API 10, versions 0-6."""

    key: NotRequired[str]  # 0-3
    key_type: NotRequired[int]  # 1-6
    coordinator_keys: NotRequired[list[str]]  # 4-6


class FindCoordinatorResponseCoordinator(TypedDict):
    """One of `coordinators` in FindCoordinatorResponse."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None


class FindCoordinatorResponse(TypedDict):
    """A response of API 10, versions 0-6."""

    throttle_time_ms: NotRequired[int]  # 1-6
    error_code: NotRequired[int]  # 0-3
    error_message: NotRequired[str | None]  # 1-3
    node_id: NotRequired[int]  # 0-3
    host: NotRequired[str]  # 0-3
    port: NotRequired[int]  # 0-3
    coordinators: NotRequired[list[FindCoordinatorResponseCoordinator]]  # 4-6


class JoinGroupRequestProtocol(TypedDict):
    """One of `protocols` in JoinGroupRequest."""

    name: str
    metadata: bytes


class JoinGroupRequest(TypedDict):
    """A request of API 11, versions 0-9."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: NotRequired[int]  # 1-9
    member_id: str
    group_instance_id: NotRequired[str | None]  # 5-9
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: NotRequired[str | None]  # 8-9


class JoinGroupResponseMember(TypedDict):
    """One of `members` in JoinGroupResponse."""

    member_id: str
    group_instance_id: NotRequired[str | None]  # 5-9
    metadata: bytes


class JoinGroupResponse(TypedDict):
    """A response of API 11, versions 0-9."""

    throttle_time_ms: NotRequired[int]  # 2-9
    error_code: int
    generation_id: NotRequired[int]
    protocol_type: NotRequired[str | None]  # 7-9
    protocol_name: str | None
    leader: str
    skip_assignment: NotRequired[bool]  # 9
    member_id: str
    members: list[JoinGroupResponseMember]


class HeartbeatRequest(TypedDict):
    """A request of API 12, versions 0-4."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: NotRequired[str | None]  # 3-4


class HeartbeatResponse(TypedDict):
    """A response of API 12, versions 0-4."""

    throttle_time_ms: NotRequired[int]  # 1-4
    error_code: int


class LeaveGroupRequestMember(TypedDict):
    """One of `members` in LeaveGroupRequest."""

    member_id: str
    group_instance_id: NotRequired[str | None]
    reason: NotRequired[str | None]  # 5


class LeaveGroupRequest(TypedDict):
    """A request of API 13, versions 0-5."""

    group_id: str
    member_id: NotRequired[str]  # 0-2
    members: NotRequired[list[LeaveGroupRequestMember]]  # 3-5


class LeaveGroupResponseMember(TypedDict):
    """One of `members` in LeaveGroupResponse."""

    member_id: str
    group_instance_id: str | None
    error_code: int


class LeaveGroupResponse(TypedDict):
    """A response of API 13, versions 0-5."""

    throttle_time_ms: NotRequired[int]  # 1-5
    error_code: int
    members: NotRequired[list[LeaveGroupResponseMember]]  # 3-5


class SyncGroupRequestAssignment(TypedDict):
    """One of `assignments` in SyncGroupRequest."""

    member_id: str
    assignment: bytes


class SyncGroupRequest(TypedDict):
    """A request of API 14, versions 0-5."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: NotRequired[str | None]  # 3-5
    protocol_type: NotRequired[str | None]  # 5
    protocol_name: NotRequired[str | None]  # 5
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(TypedDict):
    """A response of API 14, versions 0-5."""

    throttle_time_ms: NotRequired[int]  # 1-5
    error_code: int
    protocol_type: NotRequired[str | None]  # 5
    protocol_name: NotRequired[str | None]  # 5
    assignment: bytes


class DescribeGroupsRequest(TypedDict):
    """A request of API 15, versions 0-6."""

    groups: list[str]
    include_authorized_operations: NotRequired[bool]  # 3-6


class DescribeGroupsResponseMember(TypedDict):
    """One of `members` in DescribeGroupsResponse."""

    member_id: str
    group_instance_id: NotRequired[str | None]  # 4-6
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribeGroupsResponseGroup(TypedDict):
    """One of `groups` in DescribeGroupsResponse."""

    error_code: int
    error_message: NotRequired[str | None]  # 6
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribeGroupsResponseMember]
    authorized_operations: NotRequired[int]  # 3-6


class DescribeGroupsResponse(TypedDict):
    """A response of API 15, versions 0-6."""

    throttle_time_ms: NotRequired[int]  # 1-6
    groups: list[DescribeGroupsResponseGroup]


class ListGroupsRequest(TypedDict):
    """A request of API 16, versions 0-5."""

    states_filter: NotRequired[list[str]]  # 4-5
    types_filter: NotRequired[list[str]]  # 5


class ListGroupsResponseGroup(TypedDict):
    """One of `groups` in ListGroupsResponse."""

    group_id: str
    protocol_type: str
    group_state: NotRequired[str]  # 4-5
    group_type: NotRequired[str]  # 5


class ListGroupsResponse(TypedDict):
    """A response of API 16, versions 0-5."""

    throttle_time_ms: NotRequired[int]  # 1-5
    error_code: int
    groups: list[ListGroupsResponseGroup]


class SaslHandshakeRequest(TypedDict):
    """A request of API 17, versions 0-1."""

    mechanism: str


class SaslHandshakeResponse(TypedDict):
    """A response of API 17, versions 0-1."""

    error_code: int
    mechanisms: list[str]


class ApiVersionsRequest(TypedDict):
    """A request of API 18, versions 0-5."""

    client_software_name: NotRequired[str]  # 3-5
    client_software_version: NotRequired[str]  # 3-5
    cluster_id: NotRequired[str | None]  # 5
    node_id: NotRequired[int]  # 5


class ApiVersionsResponseApiKey(TypedDict):
    """One of `api_keys` in ApiVersionsResponse."""

    api_key: int
    min_version: int
    max_version: int


class ApiVersionsResponseSupportedFeature(TypedDict):
    """One of `supported_features` in ApiVersionsResponse."""

    name: str
    min_version: int
    max_version: int


class ApiVersionsResponseFinalizedFeature(TypedDict):
    """One of `finalized_features` in ApiVersionsResponse."""

    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsResponse(TypedDict):
    """A response of API 18, versions 0-5."""

    error_code: int
    api_keys: list[ApiVersionsResponseApiKey]
    throttle_time_ms: NotRequired[int]  # 1-5
    supported_features: NotRequired[list[ApiVersionsResponseSupportedFeature]]  # 3-5
    finalized_features_epoch: NotRequired[int]  # 3-5
    finalized_features: NotRequired[list[ApiVersionsResponseFinalizedFeature]]  # 3-5
    zk_migration_ready: NotRequired[bool]  # 3-5


class CreateTopicsRequestAssignment(TypedDict):
    """One of `assignments` in CreateTopicsRequest."""

    partition_index: int
    broker_ids: list[int]


class CreateTopicsRequestConfig(TypedDict):
    """One of `configs` in CreateTopicsRequest."""

    name: str
    value: str | None


class CreateTopicsRequestTopic(TypedDict):
    """One of `topics` in CreateTopicsRequest."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: list[CreateTopicsRequestAssignment]
    configs: list[CreateTopicsRequestConfig]


class CreateTopicsRequest(TypedDict):
    """A request of API 19, versions 0-7."""

    topics: list[CreateTopicsRequestTopic]
    timeout_ms: NotRequired[int]
    validate_only: NotRequired[bool]  # 1-7


class CreateTopicsResponseConfig(TypedDict):
    """One of `configs` in CreateTopicsResponse."""

    name: str
    value: str | None
    read_only: bool
    config_source: NotRequired[int]
    is_sensitive: bool


class CreateTopicsResponseTopic(TypedDict):
    """One of `topics` in CreateTopicsResponse."""

    name: str
    topic_id: NotRequired[bytes]  # 7
    error_code: int
    error_message: NotRequired[str | None]  # 1-7
    topic_config_error_code: NotRequired[int]  # 5-7
    num_partitions: NotRequired[int]  # 5-7
    replication_factor: NotRequired[int]  # 5-7
    configs: NotRequired[list[CreateTopicsResponseConfig] | None]  # 5-7


class CreateTopicsResponse(TypedDict):
    """A response of API 19, versions 0-7."""

    throttle_time_ms: NotRequired[int]  # 2-7
    topics: list[CreateTopicsResponseTopic]


class DeleteTopicsRequestTopic(TypedDict):
    """One of `topics` in DeleteTopicsRequest."""

    name: NotRequired[str | None]
    topic_id: bytes


class DeleteTopicsRequest(TypedDict):
    """A request of API 20, versions 0-6."""

    topics: NotRequired[list[DeleteTopicsRequestTopic]]  # 6
    topic_names: NotRequired[list[str]]  # 0-5
    timeout_ms: int


class DeleteTopicsResponseResponse(TypedDict):
    """One of `responses` in DeleteTopicsResponse."""

    name: str | None
    topic_id: NotRequired[bytes]  # 6
    error_code: int
    error_message: NotRequired[str | None]  # 5-6


class DeleteTopicsResponse(TypedDict):
    """A response of API 20, versions 0-6."""

    throttle_time_ms: NotRequired[int]  # 1-6
    responses: list[DeleteTopicsResponseResponse]


class DeleteRecordsRequestPartition(TypedDict):
    """One of `partitions` in DeleteRecordsRequest."""

    partition_index: int
    offset: int


class DeleteRecordsRequestTopic(TypedDict):
    """One of `topics` in DeleteRecordsRequest."""

    name: str
    partitions: list[DeleteRecordsRequestPartition]


class DeleteRecordsRequest(TypedDict):
    """A request of API 21, versions 0-2."""

    topics: list[DeleteRecordsRequestTopic]
    timeout_ms: int


class DeleteRecordsResponsePartition(TypedDict):
    """One of `partitions` in DeleteRecordsResponse."""

    partition_index: int
    low_watermark: int
    error_code: int


class DeleteRecordsResponseTopic(TypedDict):
    """One of `topics` in DeleteRecordsResponse."""

    name: str
    partitions: list[DeleteRecordsResponsePartition]


class DeleteRecordsResponse(TypedDict):
    """A response of API 21, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    topics: list[DeleteRecordsResponseTopic]


class InitProducerIdRequest(TypedDict):
    """A request of API 22, versions 0-6."""

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: NotRequired[int]  # 3-6
    producer_epoch: NotRequired[int]  # 3-6
    enable2_pc: NotRequired[bool]  # 6
    keep_prepared_txn: NotRequired[bool]  # 6


class InitProducerIdResponse(TypedDict):
    """A response of API 22, versions 0-6."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    producer_id: NotRequired[int]
    producer_epoch: int
    ongoing_txn_producer_id: NotRequired[int]  # 6
    ongoing_txn_producer_epoch: NotRequired[int]  # 6


class OffsetForLeaderEpochRequestPartition(TypedDict):
    """One of `partitions` in OffsetForLeaderEpochRequest."""

    partition: int
    current_leader_epoch: NotRequired[int]  # 2-4
    leader_epoch: int


class OffsetForLeaderEpochRequestTopic(TypedDict):
    """One of `topics` in OffsetForLeaderEpochRequest."""

    topic: str
    partitions: list[OffsetForLeaderEpochRequestPartition]


class OffsetForLeaderEpochRequest(TypedDict):
    """A request of API 23, versions 0-4."""

    replica_id: NotRequired[int]  # 3-4
    topics: list[OffsetForLeaderEpochRequestTopic]


class OffsetForLeaderEpochResponsePartition(TypedDict):
    """One of `partitions` in OffsetForLeaderEpochResponse."""

    error_code: int
    partition: int
    leader_epoch: NotRequired[int]  # 1-4
    end_offset: NotRequired[int]


class OffsetForLeaderEpochResponseTopic(TypedDict):
    """One of `topics` in OffsetForLeaderEpochResponse."""

    topic: str
    partitions: list[OffsetForLeaderEpochResponsePartition]


class OffsetForLeaderEpochResponse(TypedDict):
    """A response of API 23, versions 0-4."""

    throttle_time_ms: NotRequired[int]  # 2-4
    topics: list[OffsetForLeaderEpochResponseTopic]


class AddPartitionsToTxnRequestTopic(TypedDict):
    """One of `topics` in AddPartitionsToTxnRequest."""

    name: str
    partitions: list[int]


class AddPartitionsToTxnRequestTransaction(TypedDict):
    """One of `transactions` in AddPartitionsToTxnRequest."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: list[AddPartitionsToTxnRequestTopic]


class AddPartitionsToTxnRequestV3AndBelowTopic(TypedDict):
    """One of `v3_and_below_topics` in AddPartitionsToTxnRequest."""

    name: str
    partitions: list[int]


class AddPartitionsToTxnRequest(TypedDict):
    """A request of API 24, versions 0-5."""

    transactions: NotRequired[list[AddPartitionsToTxnRequestTransaction]]  # 4-5
    v3_and_below_transactional_id: NotRequired[str]  # 0-3
    v3_and_below_producer_id: NotRequired[int]  # 0-3
    v3_and_below_producer_epoch: NotRequired[int]  # 0-3
    v3_and_below_topics: NotRequired[list[AddPartitionsToTxnRequestV3AndBelowTopic]]  # 0-3


class AddPartitionsToTxnResponseResultsByPartition(TypedDict):
    """One of `results_by_partition` in AddPartitionsToTxnResponse."""

    partition_index: int
    partition_error_code: int


class AddPartitionsToTxnResponseTopicResult(TypedDict):
    """One of `topic_results` in AddPartitionsToTxnResponse."""

    name: str
    results_by_partition: list[AddPartitionsToTxnResponseResultsByPartition]


class AddPartitionsToTxnResponseResultsByTransaction(TypedDict):
    """One of `results_by_transaction` in AddPartitionsToTxnResponse."""

    transactional_id: str
    topic_results: list[AddPartitionsToTxnResponseTopicResult]


class AddPartitionsToTxnResponseResultsByTopicV3AndBelow(TypedDict):
    """One of `results_by_topic_v3_and_below` in AddPartitionsToTxnResponse."""

    name: str
    results_by_partition: list[AddPartitionsToTxnResponseResultsByPartition]


class AddPartitionsToTxnResponse(TypedDict):
    """A response of API 24, versions 0-5."""

    throttle_time_ms: NotRequired[int]
    error_code: NotRequired[int]  # 4-5
    results_by_transaction: NotRequired[list[AddPartitionsToTxnResponseResultsByTransaction]]  # 4-5
    results_by_topic_v3_and_below: NotRequired[  # 0-3
        list[AddPartitionsToTxnResponseResultsByTopicV3AndBelow]
    ]


class AddOffsetsToTxnRequest(TypedDict):
    """A request of API 25, versions 0-4."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class AddOffsetsToTxnResponse(TypedDict):
    """A response of API 25, versions 0-4."""

    throttle_time_ms: NotRequired[int]
    error_code: int


class EndTxnRequest(TypedDict):
    """A request of API 26, versions 0-5."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class EndTxnResponse(TypedDict):
    """A response of API 26, versions 0-5."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    producer_id: NotRequired[int]  # 5
    producer_epoch: NotRequired[int]  # 5


class WriteTxnMarkersRequestTopic(TypedDict):
    """One of `topics` in WriteTxnMarkersRequest."""

    name: str
    partition_indexes: list[int]


class WriteTxnMarkersRequestMarker(TypedDict):
    """One of `markers` in WriteTxnMarkersRequest."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: list[WriteTxnMarkersRequestTopic]
    coordinator_epoch: int
    transaction_version: NotRequired[int]  # 2


class WriteTxnMarkersRequest(TypedDict):
    """A request of API 27, versions 0-2."""

    markers: list[WriteTxnMarkersRequestMarker]


class WriteTxnMarkersResponsePartition(TypedDict):
    """One of `partitions` in WriteTxnMarkersResponse."""

    partition_index: int
    error_code: int


class WriteTxnMarkersResponseTopic(TypedDict):
    """One of `topics` in WriteTxnMarkersResponse."""

    name: str
    partitions: list[WriteTxnMarkersResponsePartition]


class WriteTxnMarkersResponseMarker(TypedDict):
    """One of `markers` in WriteTxnMarkersResponse."""

    producer_id: int
    topics: list[WriteTxnMarkersResponseTopic]


class WriteTxnMarkersResponse(TypedDict):
    """A response of API 27, versions 0-2."""

    markers: list[WriteTxnMarkersResponseMarker]


class TxnOffsetCommitRequestPartition(TypedDict):
    """One of `partitions` in TxnOffsetCommitRequest."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: NotRequired[int]  # 2-6
    committed_metadata: str | None


class TxnOffsetCommitRequestTopic(TypedDict):
    """One of `topics` in TxnOffsetCommitRequest."""

    name: NotRequired[str]  # 0-5
    topic_id: NotRequired[bytes]  # 6
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(TypedDict):
    """A request of API 28, versions 0-6."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id_or_member_epoch: NotRequired[int]  # 3-6
    member_id: NotRequired[str]  # 3-6
    group_instance_id: NotRequired[str | None]  # 3-6
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(TypedDict):
    """One of `partitions` in TxnOffsetCommitResponse."""

    partition_index: int
    error_code: int


class TxnOffsetCommitResponseTopic(TypedDict):
    """One of `topics` in TxnOffsetCommitResponse."""

    name: NotRequired[str]  # 0-5
    topic_id: NotRequired[bytes]  # 6
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(TypedDict):
    """A response of API 28, versions 0-6."""

    throttle_time_ms: NotRequired[int]
    topics: list[TxnOffsetCommitResponseTopic]


class DescribeAclsRequest(TypedDict):
    """A request of API 29, versions 0-3."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: NotRequired[int]  # 1-3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class DescribeAclsResponseAcl(TypedDict):
    """One of `acls` in DescribeAclsResponse."""

    principal: str
    host: str
    operation: int
    permission_type: int


class DescribeAclsResponseResource(TypedDict):
    """One of `resources` in DescribeAclsResponse."""

    resource_type: int
    resource_name: str
    pattern_type: NotRequired[int]  # 1-3
    acls: list[DescribeAclsResponseAcl]


class DescribeAclsResponse(TypedDict):
    """A response of API 29, versions 0-3."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResponseResource]


class CreateAclsRequestCreation(TypedDict):
    """One of `creations` in CreateAclsRequest."""

    resource_type: int
    resource_name: str
    resource_pattern_type: NotRequired[int]  # 1-3
    principal: str
    host: str
    operation: int
    permission_type: int


class CreateAclsRequest(TypedDict):
    """A request of API 30, versions 0-3."""

    creations: list[CreateAclsRequestCreation]


class CreateAclsResponseResult(TypedDict):
    """One of `results` in CreateAclsResponse."""

    error_code: int
    error_message: str | None


class CreateAclsResponse(TypedDict):
    """A response of API 30, versions 0-3."""

    throttle_time_ms: NotRequired[int]
    results: list[CreateAclsResponseResult]


class DeleteAclsRequestFilter(TypedDict):
    """One of `filters` in DeleteAclsRequest."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: NotRequired[int]  # 1-3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class DeleteAclsRequest(TypedDict):
    """A request of API 31, versions 0-3."""

    filters: list[DeleteAclsRequestFilter]


class DeleteAclsResponseMatchingAcl(TypedDict):
    """One of `matching_acls` in DeleteAclsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: NotRequired[int]  # 1-3
    principal: str
    host: str
    operation: int
    permission_type: int


class DeleteAclsResponseFilterResult(TypedDict):
    """One of `filter_results` in DeleteAclsResponse."""

    error_code: int
    error_message: str | None
    matching_acls: list[DeleteAclsResponseMatchingAcl]


class DeleteAclsResponse(TypedDict):
    """A response of API 31, versions 0-3."""

    throttle_time_ms: NotRequired[int]
    filter_results: list[DeleteAclsResponseFilterResult]


class DescribeConfigsRequestResource(TypedDict):
    """One of `resources` in DescribeConfigsRequest."""

    resource_type: int
    resource_name: str
    configuration_keys: list[str] | None


class DescribeConfigsRequest(TypedDict):
    """A request of API 32, versions 0-4."""

    resources: list[DescribeConfigsRequestResource]
    include_synonyms: NotRequired[bool]  # 1-4
    include_documentation: NotRequired[bool]  # 3-4


class DescribeConfigsResponseSynonym(TypedDict):
    """One of `synonyms` in DescribeConfigsResponse."""

    name: str
    value: str | None
    source: int


class DescribeConfigsResponseConfig(TypedDict):
    """One of `configs` in DescribeConfigsResponse."""

    name: str
    value: str | None
    read_only: bool
    is_default: NotRequired[bool]  # 0
    config_source: NotRequired[int]  # 1-4
    is_sensitive: bool
    synonyms: NotRequired[list[DescribeConfigsResponseSynonym]]  # 1-4
    config_type: NotRequired[int]  # 3-4
    documentation: NotRequired[str | None]  # 3-4


class DescribeConfigsResponseResult(TypedDict):
    """One of `results` in DescribeConfigsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: list[DescribeConfigsResponseConfig]


class DescribeConfigsResponse(TypedDict):
    """A response of API 32, versions 0-4."""

    throttle_time_ms: NotRequired[int]
    results: list[DescribeConfigsResponseResult]


class AlterConfigsRequestConfig(TypedDict):
    """One of `configs` in AlterConfigsRequest."""

    name: str
    value: str | None


class AlterConfigsRequestResource(TypedDict):
    """One of `resources` in AlterConfigsRequest."""

    resource_type: int
    resource_name: str
    configs: list[AlterConfigsRequestConfig]


class AlterConfigsRequest(TypedDict):
    """A request of API 33, versions 0-2."""

    resources: list[AlterConfigsRequestResource]
    validate_only: bool


class AlterConfigsResponseResponse(TypedDict):
    """One of `responses` in AlterConfigsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class AlterConfigsResponse(TypedDict):
    """A response of API 33, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    responses: list[AlterConfigsResponseResponse]


class AlterReplicaLogDirsRequestTopic(TypedDict):
    """One of `topics` in AlterReplicaLogDirsRequest."""

    name: str
    partitions: list[int]


class AlterReplicaLogDirsRequestDir(TypedDict):
    """One of `dirs` in AlterReplicaLogDirsRequest."""

    path: str
    topics: list[AlterReplicaLogDirsRequestTopic]


class AlterReplicaLogDirsRequest(TypedDict):
    """A request of API 34, versions 0-2."""

    dirs: list[AlterReplicaLogDirsRequestDir]


class AlterReplicaLogDirsResponsePartition(TypedDict):
    """One of `partitions` in AlterReplicaLogDirsResponse."""

    partition_index: int
    error_code: int


class AlterReplicaLogDirsResponseResult(TypedDict):
    """One of `results` in AlterReplicaLogDirsResponse."""

    topic_name: str
    partitions: list[AlterReplicaLogDirsResponsePartition]


class AlterReplicaLogDirsResponse(TypedDict):
    """A response of API 34, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    results: list[AlterReplicaLogDirsResponseResult]


class DescribeLogDirsRequestTopic(TypedDict):
    """One of `topics` in DescribeLogDirsRequest."""

    topic: str
    partitions: list[int]


class DescribeLogDirsRequest(TypedDict):
    """A request of API 35, versions 0-5."""

    topics: list[DescribeLogDirsRequestTopic] | None


class DescribeLogDirsResponsePartition(TypedDict):
    """One of `partitions` in DescribeLogDirsResponse."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class DescribeLogDirsResponseTopic(TypedDict):
    """One of `topics` in DescribeLogDirsResponse."""

    name: str
    partitions: list[DescribeLogDirsResponsePartition]


class DescribeLogDirsResponseResult(TypedDict):
    """One of `results` in DescribeLogDirsResponse."""

    error_code: int
    log_dir: str
    topics: list[DescribeLogDirsResponseTopic]
    total_bytes: NotRequired[int]  # 4-5
    usable_bytes: NotRequired[int]  # 4-5
    is_cordoned: NotRequired[bool]  # 5


class DescribeLogDirsResponse(TypedDict):
    """A response of API 35, versions 0-5."""

    throttle_time_ms: NotRequired[int]
    error_code: NotRequired[int]  # 3-5
    results: list[DescribeLogDirsResponseResult]


class SaslAuthenticateRequest(TypedDict):
    """A request of API 36, versions 0-2."""

    auth_bytes: bytes


class SaslAuthenticateResponse(TypedDict):
    """A response of API 36, versions 0-2."""

    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: NotRequired[int]  # 1-2


class CreatePartitionsRequestAssignment(TypedDict):
    """One of `assignments` in CreatePartitionsRequest."""

    broker_ids: list[int]


class CreatePartitionsRequestTopic(TypedDict):
    """One of `topics` in CreatePartitionsRequest."""

    name: str
    count: int
    assignments: list[CreatePartitionsRequestAssignment] | None


class CreatePartitionsRequest(TypedDict):
    """A request of API 37, versions 0-3."""

    topics: list[CreatePartitionsRequestTopic]
    timeout_ms: int
    validate_only: bool


class CreatePartitionsResponseResult(TypedDict):
    """One of `results` in CreatePartitionsResponse."""

    name: str
    error_code: int
    error_message: NotRequired[str | None]


class CreatePartitionsResponse(TypedDict):
    """A response of API 37, versions 0-3."""

    throttle_time_ms: NotRequired[int]
    results: list[CreatePartitionsResponseResult]


class CreateDelegationTokenRequestRenewer(TypedDict):
    """One of `renewers` in CreateDelegationTokenRequest."""

    principal_type: str
    principal_name: str


class CreateDelegationTokenRequest(TypedDict):
    """A request of API 38, versions 0-3."""

    owner_principal_type: NotRequired[str | None]  # 3
    owner_principal_name: NotRequired[str | None]  # 3
    renewers: list[CreateDelegationTokenRequestRenewer]
    max_lifetime_ms: int


class CreateDelegationTokenResponse(TypedDict):
    """A response of API 38, versions 0-3."""

    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: NotRequired[str]  # 3
    token_requester_principal_name: NotRequired[str]  # 3
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes
    throttle_time_ms: NotRequired[int]


class RenewDelegationTokenRequest(TypedDict):
    """A request of API 39, versions 0-2."""

    hmac: bytes
    renew_period_ms: int


class RenewDelegationTokenResponse(TypedDict):
    """A response of API 39, versions 0-2."""

    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: NotRequired[int]


class ExpireDelegationTokenRequest(TypedDict):
    """A request of API 40, versions 0-2."""

    hmac: bytes
    expiry_time_period_ms: int


class ExpireDelegationTokenResponse(TypedDict):
    """A response of API 40, versions 0-2."""

    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: NotRequired[int]


class DescribeDelegationTokenRequestOwner(TypedDict):
    """One of `owners` in DescribeDelegationTokenRequest."""

    principal_type: str
    principal_name: str


class DescribeDelegationTokenRequest(TypedDict):
    """A request of API 41, versions 0-3."""

    owners: list[DescribeDelegationTokenRequestOwner] | None


class DescribeDelegationTokenResponseRenewer(TypedDict):
    """One of `renewers` in DescribeDelegationTokenResponse."""

    principal_type: str
    principal_name: str


class DescribeDelegationTokenResponseToken(TypedDict):
    """One of `tokens` in DescribeDelegationTokenResponse."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: NotRequired[str]  # 3
    token_requester_principal_name: NotRequired[str]  # 3
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: list[DescribeDelegationTokenResponseRenewer]


class DescribeDelegationTokenResponse(TypedDict):
    """A response of API 41, versions 0-3."""

    error_code: int
    tokens: list[DescribeDelegationTokenResponseToken]
    throttle_time_ms: NotRequired[int]


class DeleteGroupsRequest(TypedDict):
    """A request of API 42, versions 0-3."""

    groups_names: list[str]


class DeleteGroupsResponseResult(TypedDict):
    """One of `results` in DeleteGroupsResponse."""

    group_id: str
    error_code: int
    error_message: NotRequired[str | None]  # 3


class DeleteGroupsResponse(TypedDict):
    """A response of API 42, versions 0-3."""

    throttle_time_ms: NotRequired[int]
    results: list[DeleteGroupsResponseResult]


class ElectLeadersRequestTopicPartition(TypedDict):
    """One of `topic_partitions` in ElectLeadersRequest."""

    topic: str
    partitions: list[int]


class ElectLeadersRequest(TypedDict):
    """A request of API 43, versions 0-2."""

    election_type: NotRequired[int]  # 1-2
    topic_partitions: list[ElectLeadersRequestTopicPartition] | None
    timeout_ms: NotRequired[int]


class ElectLeadersResponsePartitionResult(TypedDict):
    """One of `partition_result` in ElectLeadersResponse."""

    partition_id: int
    error_code: int
    error_message: str | None


class ElectLeadersResponseReplicaElectionResult(TypedDict):
    """One of `replica_election_results` in ElectLeadersResponse."""

    topic: str
    partition_result: list[ElectLeadersResponsePartitionResult]


class ElectLeadersResponse(TypedDict):
    """A response of API 43, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    error_code: NotRequired[int]  # 1-2
    replica_election_results: list[ElectLeadersResponseReplicaElectionResult]


class IncrementalAlterConfigsRequestConfig(TypedDict):
    """One of `configs` in IncrementalAlterConfigsRequest."""

    name: str
    config_operation: int
    value: str | None


class IncrementalAlterConfigsRequestResource(TypedDict):
    """One of `resources` in IncrementalAlterConfigsRequest."""

    resource_type: int
    resource_name: str
    configs: list[IncrementalAlterConfigsRequestConfig]


class IncrementalAlterConfigsRequest(TypedDict):
    """A request of API 44, versions 0-1."""

    resources: list[IncrementalAlterConfigsRequestResource]
    validate_only: bool


class IncrementalAlterConfigsResponseResponse(TypedDict):
    """One of `responses` in IncrementalAlterConfigsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class IncrementalAlterConfigsResponse(TypedDict):
    """A response of API 44, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    responses: list[IncrementalAlterConfigsResponseResponse]


class AlterPartitionReassignmentsRequestPartition(TypedDict):
    """One of `partitions` in AlterPartitionReassignmentsRequest."""

    partition_index: int
    replicas: NotRequired[list[int] | None]


class AlterPartitionReassignmentsRequestTopic(TypedDict):
    """One of `topics` in AlterPartitionReassignmentsRequest."""

    name: str
    partitions: list[AlterPartitionReassignmentsRequestPartition]


class AlterPartitionReassignmentsRequest(TypedDict):
    """A request of API 45, versions 0-1."""

    timeout_ms: NotRequired[int]
    allow_replication_factor_change: NotRequired[bool]  # 1
    topics: list[AlterPartitionReassignmentsRequestTopic]


class AlterPartitionReassignmentsResponsePartition(TypedDict):
    """One of `partitions` in AlterPartitionReassignmentsResponse."""

    partition_index: int
    error_code: int
    error_message: str | None


class AlterPartitionReassignmentsResponseResponse(TypedDict):
    """One of `responses` in AlterPartitionReassignmentsResponse."""

    name: str
    partitions: list[AlterPartitionReassignmentsResponsePartition]


class AlterPartitionReassignmentsResponse(TypedDict):
    """A response of API 45, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    allow_replication_factor_change: NotRequired[bool]  # 1
    error_code: int
    error_message: str | None
    responses: list[AlterPartitionReassignmentsResponseResponse]


class ListPartitionReassignmentsRequestTopic(TypedDict):
    """One of `topics` in ListPartitionReassignmentsRequest."""

    name: str
    partition_indexes: list[int]


class ListPartitionReassignmentsRequest(TypedDict):
    """A request of API 46, versions 0."""

    timeout_ms: NotRequired[int]
    topics: NotRequired[list[ListPartitionReassignmentsRequestTopic] | None]


class ListPartitionReassignmentsResponsePartition(TypedDict):
    """One of `partitions` in ListPartitionReassignmentsResponse."""

    partition_index: int
    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class ListPartitionReassignmentsResponseTopic(TypedDict):
    """One of `topics` in ListPartitionReassignmentsResponse."""

    name: str
    partitions: list[ListPartitionReassignmentsResponsePartition]


class ListPartitionReassignmentsResponse(TypedDict):
    """A response of API 46, versions 0."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: str | None
    topics: list[ListPartitionReassignmentsResponseTopic]


class OffsetDeleteRequestPartition(TypedDict):
    """One of `partitions` in OffsetDeleteRequest."""

    partition_index: int


class OffsetDeleteRequestTopic(TypedDict):
    """One of `topics` in OffsetDeleteRequest."""

    name: str
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(TypedDict):
    """A request of API 47, versions 0."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(TypedDict):
    """One of `partitions` in OffsetDeleteResponse."""

    partition_index: int
    error_code: int


class OffsetDeleteResponseTopic(TypedDict):
    """One of `topics` in OffsetDeleteResponse."""

    name: str
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(TypedDict):
    """A response of API 47, versions 0."""

    error_code: int
    throttle_time_ms: NotRequired[int]
    topics: list[OffsetDeleteResponseTopic]


class DescribeClientQuotasRequestComponent(TypedDict):
    """One of `components` in DescribeClientQuotasRequest."""

    entity_type: str
    match_type: int
    match: str | None


class DescribeClientQuotasRequest(TypedDict):
    """A request of API 48, versions 0-1."""

    components: list[DescribeClientQuotasRequestComponent]
    strict: bool


class DescribeClientQuotasResponseEntity(TypedDict):
    """One of `entity` in DescribeClientQuotasResponse."""

    entity_type: str
    entity_name: str | None


class DescribeClientQuotasResponseValue(TypedDict):
    """One of `values` in DescribeClientQuotasResponse."""

    key: str
    value: float


class DescribeClientQuotasResponseEntry(TypedDict):
    """One of `entries` in DescribeClientQuotasResponse."""

    entity: list[DescribeClientQuotasResponseEntity]
    values: list[DescribeClientQuotasResponseValue]


class DescribeClientQuotasResponse(TypedDict):
    """A response of API 48, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: str | None
    entries: list[DescribeClientQuotasResponseEntry] | None


class AlterClientQuotasRequestEntity(TypedDict):
    """One of `entity` in AlterClientQuotasRequest."""

    entity_type: str
    entity_name: str | None


class AlterClientQuotasRequestOp(TypedDict):
    """One of `ops` in AlterClientQuotasRequest."""

    key: str
    value: float
    remove: bool


class AlterClientQuotasRequestEntry(TypedDict):
    """One of `entries` in AlterClientQuotasRequest."""

    entity: list[AlterClientQuotasRequestEntity]
    ops: list[AlterClientQuotasRequestOp]


class AlterClientQuotasRequest(TypedDict):
    """A request of API 49, versions 0-1."""

    entries: list[AlterClientQuotasRequestEntry]
    validate_only: bool


class AlterClientQuotasResponseEntity(TypedDict):
    """One of `entity` in AlterClientQuotasResponse."""

    entity_type: str
    entity_name: str | None


class AlterClientQuotasResponseEntry(TypedDict):
    """One of `entries` in AlterClientQuotasResponse."""

    error_code: int
    error_message: str | None
    entity: list[AlterClientQuotasResponseEntity]


class AlterClientQuotasResponse(TypedDict):
    """A response of API 49, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    entries: list[AlterClientQuotasResponseEntry]


class DescribeUserScramCredentialsRequestUser(TypedDict):
    """One of `users` in DescribeUserScramCredentialsRequest."""

    name: str


class DescribeUserScramCredentialsRequest(TypedDict):
    """A request of API 50, versions 0."""

    users: list[DescribeUserScramCredentialsRequestUser] | None


class DescribeUserScramCredentialsResponseCredentialInfo(TypedDict):
    """One of `credential_infos` in DescribeUserScramCredentialsResponse."""

    mechanism: int
    iterations: int


class DescribeUserScramCredentialsResponseResult(TypedDict):
    """One of `results` in DescribeUserScramCredentialsResponse."""

    user: str
    error_code: int
    error_message: str | None
    credential_infos: list[DescribeUserScramCredentialsResponseCredentialInfo]


class DescribeUserScramCredentialsResponse(TypedDict):
    """A response of API 50, versions 0."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResponseResult]


class AlterUserScramCredentialsRequestDeletion(TypedDict):
    """One of `deletions` in AlterUserScramCredentialsRequest."""

    name: str
    mechanism: int


class AlterUserScramCredentialsRequestUpsertion(TypedDict):
    """One of `upsertions` in AlterUserScramCredentialsRequest."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest(TypedDict):
    """A request of API 51, versions 0."""

    deletions: list[AlterUserScramCredentialsRequestDeletion]
    upsertions: list[AlterUserScramCredentialsRequestUpsertion]


class AlterUserScramCredentialsResponseResult(TypedDict):
    """One of `results` in AlterUserScramCredentialsResponse."""

    user: str
    error_code: int
    error_message: str | None


class AlterUserScramCredentialsResponse(TypedDict):
    """A response of API 51, versions 0."""

    throttle_time_ms: NotRequired[int]
    results: list[AlterUserScramCredentialsResponseResult]


class DescribeQuorumRequestPartition(TypedDict):
    """One of `partitions` in DescribeQuorumRequest."""

    partition_index: int


class DescribeQuorumRequestTopic(TypedDict):
    """One of `topics` in DescribeQuorumRequest."""

    topic_name: str
    partitions: list[DescribeQuorumRequestPartition]


class DescribeQuorumRequest(TypedDict):
    """A request of API 55, versions 0-2."""

    topics: list[DescribeQuorumRequestTopic]


class DescribeQuorumResponseCurrentVoter(TypedDict):
    """One of `current_voters` in DescribeQuorumResponse."""

    replica_id: int
    replica_directory_id: NotRequired[bytes]  # 2
    log_end_offset: int
    last_fetch_timestamp: NotRequired[int]  # 1-2
    last_caught_up_timestamp: NotRequired[int]  # 1-2


class DescribeQuorumResponseObserver(TypedDict):
    """One of `observers` in DescribeQuorumResponse."""

    replica_id: int
    replica_directory_id: NotRequired[bytes]  # 2
    log_end_offset: int
    last_fetch_timestamp: NotRequired[int]  # 1-2
    last_caught_up_timestamp: NotRequired[int]  # 1-2


class DescribeQuorumResponsePartition(TypedDict):
    """One of `partitions` in DescribeQuorumResponse."""

    partition_index: int
    error_code: int
    error_message: NotRequired[str | None]  # 2
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: list[DescribeQuorumResponseCurrentVoter]
    observers: list[DescribeQuorumResponseObserver]


class DescribeQuorumResponseTopic(TypedDict):
    """One of `topics` in DescribeQuorumResponse."""

    topic_name: str
    partitions: list[DescribeQuorumResponsePartition]


class DescribeQuorumResponseListener(TypedDict):
    """One of `listeners` in DescribeQuorumResponse."""

    name: str
    host: str
    port: int


class DescribeQuorumResponseNode(TypedDict):
    """One of `nodes` in DescribeQuorumResponse."""

    node_id: int
    listeners: list[DescribeQuorumResponseListener]


class DescribeQuorumResponse(TypedDict):
    """A response of API 55, versions 0-2."""

    error_code: int
    error_message: NotRequired[str | None]  # 2
    topics: list[DescribeQuorumResponseTopic]
    nodes: NotRequired[list[DescribeQuorumResponseNode]]  # 2


class UpdateFeaturesRequestFeatureUpdate(TypedDict):
    """One of `feature_updates` in UpdateFeaturesRequest."""

    feature: str
    max_version_level: int
    allow_downgrade: NotRequired[bool]  # 0
    upgrade_type: NotRequired[int]  # 1-2


class UpdateFeaturesRequest(TypedDict):
    """A request of API 57, versions 0-2."""

    timeout_ms: NotRequired[int]
    feature_updates: list[UpdateFeaturesRequestFeatureUpdate]
    validate_only: NotRequired[bool]  # 1-2


class UpdateFeaturesResponseResult(TypedDict):
    """One of `results` in UpdateFeaturesResponse."""

    feature: str
    error_code: int
    error_message: str | None


class UpdateFeaturesResponse(TypedDict):
    """A response of API 57, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: str | None
    results: NotRequired[list[UpdateFeaturesResponseResult]]  # 0-1


class DescribeClusterRequest(TypedDict):
    """A request of API 60, versions 0-2."""

    include_cluster_authorized_operations: bool
    endpoint_type: NotRequired[int]  # 1-2
    include_fenced_brokers: NotRequired[bool]  # 2


class DescribeClusterResponseBroker(TypedDict):
    """One of `brokers` in DescribeClusterResponse."""

    broker_id: int
    host: str
    port: int
    rack: NotRequired[str | None]
    is_fenced: NotRequired[bool]  # 2


class DescribeClusterResponse(TypedDict):
    """A response of API 60, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: NotRequired[str | None]
    endpoint_type: NotRequired[int]  # 1-2
    cluster_id: str
    controller_id: NotRequired[int]
    brokers: list[DescribeClusterResponseBroker]
    cluster_authorized_operations: NotRequired[int]


class DescribeProducersRequestTopic(TypedDict):
    """One of `topics` in DescribeProducersRequest."""

    name: str
    partition_indexes: list[int]


class DescribeProducersRequest(TypedDict):
    """A request of API 61, versions 0."""

    topics: list[DescribeProducersRequestTopic]


class DescribeProducersResponseActiveProducer(TypedDict):
    """One of `active_producers` in DescribeProducersResponse."""

    producer_id: int
    producer_epoch: int
    last_sequence: NotRequired[int]
    last_timestamp: NotRequired[int]
    coordinator_epoch: int
    current_txn_start_offset: NotRequired[int]


class DescribeProducersResponsePartition(TypedDict):
    """One of `partitions` in DescribeProducersResponse."""

    partition_index: int
    error_code: int
    error_message: NotRequired[str | None]
    active_producers: list[DescribeProducersResponseActiveProducer]


class DescribeProducersResponseTopic(TypedDict):
    """One of `topics` in DescribeProducersResponse."""

    name: str
    partitions: list[DescribeProducersResponsePartition]


class DescribeProducersResponse(TypedDict):
    """A response of API 61, versions 0."""

    throttle_time_ms: NotRequired[int]
    topics: list[DescribeProducersResponseTopic]


class UnregisterBrokerRequest(TypedDict):
    """A request of API 64, versions 0."""

    broker_id: int


class UnregisterBrokerResponse(TypedDict):
    """A response of API 64, versions 0."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: str | None


class DescribeTransactionsRequest(TypedDict):
    """A request of API 65, versions 0."""

    transactional_ids: list[str]


class DescribeTransactionsResponseTopic(TypedDict):
    """One of `topics` in DescribeTransactionsResponse."""

    topic: str
    partitions: list[int]


class DescribeTransactionsResponseTransactionState(TypedDict):
    """One of `transaction_states` in DescribeTransactionsResponse."""

    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int
    topics: list[DescribeTransactionsResponseTopic]


class DescribeTransactionsResponse(TypedDict):
    """A response of API 65, versions 0."""

    throttle_time_ms: NotRequired[int]
    transaction_states: list[DescribeTransactionsResponseTransactionState]


class ListTransactionsRequest(TypedDict):
    """A request of API 66, versions 0-2."""

    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: NotRequired[int]  # 1-2
    transactional_id_pattern: NotRequired[str | None]  # 2


class ListTransactionsResponseTransactionState(TypedDict):
    """One of `transaction_states` in ListTransactionsResponse."""

    transactional_id: str
    producer_id: int
    transaction_state: str


class ListTransactionsResponse(TypedDict):
    """A response of API 66, versions 0-2."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponseTransactionState]


class ConsumerGroupHeartbeatRequestTopicPartition(TypedDict):
    """One of `topic_partitions` in ConsumerGroupHeartbeatRequest."""

    topic_id: bytes
    partitions: list[int]


class ConsumerGroupHeartbeatRequest(TypedDict):
    """A request of API 68, versions 0-1."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: NotRequired[str | None]
    rack_id: NotRequired[str | None]
    rebalance_timeout_ms: NotRequired[int]
    subscribed_topic_names: NotRequired[list[str] | None]
    subscribed_topic_regex: NotRequired[str | None]  # 1
    server_assignor: NotRequired[str | None]
    topic_partitions: NotRequired[list[ConsumerGroupHeartbeatRequestTopicPartition] | None]


class ConsumerGroupHeartbeatResponseTopicPartition(TypedDict):
    """One of `topic_partitions` in ConsumerGroupHeartbeatResponse."""

    topic_id: bytes
    partitions: list[int]


class ConsumerGroupHeartbeatResponseAssignment(TypedDict):
    """The value of `assignment` in ConsumerGroupHeartbeatResponse."""

    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartition]


class ConsumerGroupHeartbeatResponse(TypedDict):
    """A response of API 68, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    error_message: NotRequired[str | None]
    member_id: NotRequired[str | None]
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: NotRequired[ConsumerGroupHeartbeatResponseAssignment | None]


class ConsumerGroupDescribeRequest(TypedDict):
    """A request of API 69, versions 0-1."""

    group_ids: list[str]
    include_authorized_operations: bool


class ConsumerGroupDescribeResponseTopicPartition(TypedDict):
    """One of `topic_partitions` in ConsumerGroupDescribeResponse."""

    topic_id: bytes
    topic_name: str
    partitions: list[int]


class ConsumerGroupDescribeResponseAssignment(TypedDict):
    """The value of `assignment` in ConsumerGroupDescribeResponse."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartition]


class ConsumerGroupDescribeResponseTargetAssignment(TypedDict):
    """The value of `target_assignment` in ConsumerGroupDescribeResponse."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartition]


class ConsumerGroupDescribeResponseMember(TypedDict):
    """One of `members` in ConsumerGroupDescribeResponse."""

    member_id: str
    instance_id: NotRequired[str | None]
    rack_id: NotRequired[str | None]
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: NotRequired[str | None]
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseTargetAssignment
    member_type: NotRequired[int]  # 1


class ConsumerGroupDescribeResponseGroup(TypedDict):
    """One of `groups` in ConsumerGroupDescribeResponse."""

    error_code: int
    error_message: NotRequired[str | None]
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: list[ConsumerGroupDescribeResponseMember]
    authorized_operations: NotRequired[int]


class ConsumerGroupDescribeResponse(TypedDict):
    """A response of API 69, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    groups: list[ConsumerGroupDescribeResponseGroup]


class ListConfigResourcesRequest(TypedDict):
    """A request of API 74, versions 0-1."""

    resource_types: NotRequired[list[int]]  # 1


class ListConfigResourcesResponseConfigResource(TypedDict):
    """One of `config_resources` in ListConfigResourcesResponse."""

    resource_name: str
    resource_type: NotRequired[int]  # 1


class ListConfigResourcesResponse(TypedDict):
    """A response of API 74, versions 0-1."""

    throttle_time_ms: NotRequired[int]
    error_code: int
    config_resources: list[ListConfigResourcesResponseConfigResource]


class DescribeTopicPartitionsRequestTopic(TypedDict):
    """One of `topics` in DescribeTopicPartitionsRequest."""

    name: str


class DescribeTopicPartitionsRequestCursor(TypedDict):
    """The value of `cursor` in DescribeTopicPartitionsRequest."""

    topic_name: str
    partition_index: int


class DescribeTopicPartitionsRequest(TypedDict):
    """A request of API 75, versions 0."""

    topics: list[DescribeTopicPartitionsRequestTopic]
    response_partition_limit: NotRequired[int]
    cursor: NotRequired[DescribeTopicPartitionsRequestCursor | None]


class DescribeTopicPartitionsResponsePartition(TypedDict):
    """One of `partitions` in DescribeTopicPartitionsResponse."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: NotRequired[int]
    replica_nodes: list[int]
    isr_nodes: list[int]
    eligible_leader_replicas: NotRequired[list[int] | None]
    last_known_elr: NotRequired[list[int] | None]
    offline_replicas: list[int]


class DescribeTopicPartitionsResponseTopic(TypedDict):
    """One of `topics` in DescribeTopicPartitionsResponse."""

    error_code: int
    name: str | None
    topic_id: bytes
    is_internal: bool
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: NotRequired[int]


class DescribeTopicPartitionsResponseNextCursor(TypedDict):
    """The value of `next_cursor` in DescribeTopicPartitionsResponse."""

    topic_name: str
    partition_index: int


class DescribeTopicPartitionsResponse(TypedDict):
    """A response of API 75, versions 0."""

    throttle_time_ms: NotRequired[int]
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: NotRequired[DescribeTopicPartitionsResponseNextCursor | None]
