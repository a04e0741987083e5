from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from broker._native.log.partition_map cimport NamedPartition, PartitionMap
from broker._native.log.segmented_log cimport LogSlice
from broker._native.log.topic_table cimport TopicEntry, TopicTable
from broker._native.protocols.kafka.envelope cimport RequestHead
from broker._native.protocols.kafka.fetch_request cimport FetchRequest, Wanted
from broker._native.protocols.kafka.parked_fetch cimport FetchStatus, ParkedFetch
from broker._native.wire.connection cimport Connection
from broker._native.wire.output_queue cimport OutputQueue

# One partition that a replica copies, whether this broker leads it or not.
cdef struct ReplicaNode:
    NamedPartition named       # first: a Watch* of the log is a ReplicaNode*
    ReplicaNode* next          # in the order in which they were named
    ReplicaNode* previous
    PyObject* log              # PartitionLog, owned; NULL: this broker does not lead it
    int32_t leader_epoch       # under which the replica follows; -1: not given
    int32_t last_epoch         # of the last record that it has; -1: none
    int64_t offset             # below it, the replica has everything on its disk
    int64_t log_start          # of the replica's log
    int32_t term               # of the log (ReplicatedLog.terms) in which that was noted
    int32_t bytes_max
    int16_t refusal            # why it was refused when it was last examined; 0: it was not
    int16_t sent_error
    bint is_sent               # records from `offset` on, since it was named last
    bint is_diverging          # the replica has records that this log has not
    bint is_divergence_sent
    int32_t common_epoch       # of a diverging replica: the last that it may have in common
    int64_t common_end
    int64_t sent_high_watermark
    int64_t sent_log_start


cdef class ReplicaSession(ParkedFetch):
    cdef ReplicaSessions sessions
    cdef TopicTable topics
    cdef Connection origin     # on which it began
    cdef ReplicaNode* first
    cdef ReplicaNode* last
    cdef PartitionMap map
    cdef int32_t replica_id
    cdef int64_t replica_epoch
    cdef int32_t session_id    # 0: no session, this lives for one fetch
    cdef int32_t epoch         # that the next request must have
    cdef bint has_news         # beside records: a high watermark or a log start has moved
    cdef bint is_full          # the request that is being served wants all partitions

    cdef ReplicaNode* add(self, Wanted* wanted) noexcept
    cdef void drop(self, ReplicaNode* node) noexcept
    cdef void clear(self) noexcept
    cdef void apply(self, FetchRequest* request)
    cdef void forget(self, FetchRequest* request)
    cdef void resolve(self, ReplicaNode* node, TopicEntry entry)
    cdef void examine(self, ReplicaNode* node, TopicEntry entry)
    cdef bint is_forgotten(self, ReplicaNode* node) noexcept
    cdef int16_t error_of(self, ReplicaNode* node) noexcept
    cdef bint has_records(self, ReplicaNode* node) noexcept
    cdef bint has_unsent(self, ReplicaNode* node) noexcept
    cdef bint has_deleted(self, ReplicaNode* node) noexcept
    cdef bint has_changes(self, ReplicaNode* node) noexcept
    cdef int32_t put_topics(self, OutputQueue* queue) noexcept
    cdef void put_partition(self, OutputQueue* queue, ReplicaNode* node, int64_t* left,
                            bint* is_first) noexcept
    cdef int16_t find(self, ReplicaNode* node, int64_t size_max, bint at_least_one,
                      LogSlice* found, PyObject** file) noexcept
    cdef uint8_t* put_head_of(self, ReplicaNode* node, uint8_t* at, int16_t error,
                              int64_t records) noexcept


cdef class ReplicaSessions:
    cdef dict by_id
    cdef readonly int64_t partitions      # held by all sessions
    cdef int64_t partitions_max
    cdef int32_t sessions_max
    cdef int32_t bytes_max
    cdef int32_t wait_ms_max
    cdef int32_t next_id
    cdef uint64_t hash_key

    cdef ParkedFetch begin(self, Connection connection, RequestHead* head, FetchRequest* request,
                           FetchStatus* status)
    cdef ReplicaSession session_for(self, Connection connection, FetchRequest* request)
    cdef int16_t refusal_of(
        self, Connection connection, FetchRequest* request, ReplicaSession session)
    cdef bint can_register(self, Connection connection, FetchRequest* request)
    cdef void register(self, ReplicaSession session)
    cdef void end(self, ReplicaSession session)
