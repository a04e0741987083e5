from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport Permissions
from broker._native.log.segmented_log cimport LogSlice
from broker._native.log.topic_table cimport TopicEntry, TopicTable
from broker._native.log.transaction_index cimport AbortedList
from broker._native.log.turn cimport Turn, Watch
from broker._native.protocols.kafka.envelope cimport RequestHead
from broker._native.protocols.kafka.fetch_request cimport FetchRequest
from broker._native.protocols.kafka.parked_fetch cimport FetchStatus, ParkedFetch
from broker._native.protocols.kafka.replica_fetch cimport ReplicaSessions
from broker._native.wire.connection cimport Connection
from broker._native.wire.output_queue cimport OutputQueue
from broker._native.wire.quota cimport ClientQuota

# One partition that a fetch, or a fetch session, asks for.
cdef struct FetchNode:
    Watch watch               # first: a Watch* of the log is a FetchNode*
    FetchNode* next           # in the order of the request
    FetchNode* previous
    FetchNode* next_in_slot   # in the session's map by log
    PyObject* topic           # TopicEntry, owned
    PyObject* log             # PartitionLog, owned
    int32_t partition
    int32_t leader_epoch      # the client's current leader epoch; -1: not given
    int64_t offset
    int32_t bytes_max
    int64_t sent_high_watermark
    int64_t sent_log_start
    bint is_led               # this broker led it when it was named last


cdef class FetchSession(ParkedFetch):
    cdef FetchSessions sessions
    cdef FetchNode* first
    cdef FetchNode* last
    cdef FetchNode** slots     # by log pointer; NULL for a fetch without a session
    cdef uint32_t slot_count
    cdef int32_t count
    cdef int32_t session_id    # 0: no session, this lives for one fetch
    cdef int32_t epoch         # that the next request must have
    cdef int64_t used_ms
    cdef HostSessions peers    # those of its client's address, with this one; None: no session
    cdef PyObject* older       # of its address, in the order of use
    cdef PyObject* newer
    cdef bint by_id
    cdef bint is_outdated      # has a partition that has been deleted
    cdef Permissions permissions         # of the client that uses it; None: may read everything
    cdef uint64_t permitted_epoch        # in which it may read all partitions
    # The request that is being served:
    cdef bint is_full
    cdef bint is_committed
    cdef ClientQuota quota     # of its consumer; None: there are no quotas
    cdef bytes rack            # of its consumer, if other replicas may be nearer, or None
    cdef dict racks            # of the brokers that have those

    cdef FetchNode* node_of(self, void* log) noexcept
    cdef FetchNode* add(self, PyObject* topic, PyObject* log) noexcept
    cdef void drop(self, FetchNode* node) noexcept
    cdef void clear(self) noexcept
    cdef uint32_t slot_of(self, void* log) noexcept
    cdef void apply(self, FetchRequest* request) noexcept
    cdef int32_t put_topics(self, OutputQueue* queue) noexcept
    cdef void set_rack(self, TopicTable topics, FetchRequest* request)
    cdef int32_t preferred_replica(self, FetchNode* node) noexcept
    cdef int64_t end_for(self, PartitionLog log) noexcept
    cdef int64_t readable_bytes(self) noexcept
    cdef int64_t throttle(self) noexcept
    cdef bint has_changes(self, FetchNode* node) noexcept
    cdef uint8_t* put_topic(self, OutputQueue* queue, TopicEntry topic) noexcept
    cdef void end_topic(self, OutputQueue* queue, uint8_t* count_at, uint32_t parts) noexcept
    cdef void put_partition(self, OutputQueue* queue, FetchNode* node, int64_t* left,
                            bint* is_first) noexcept
    cdef int16_t find(self, FetchNode* node, int64_t size_max, bint at_least_one, LogSlice* found,
                      PyObject** file, AbortedList* aborted) noexcept
    cdef uint8_t* put_head_of(self, FetchNode* node, uint8_t* at, int16_t error,
                              AbortedList* aborted, int64_t records,
                              int32_t preferred) noexcept


cdef class HostSessions:
    cdef str host
    cdef PyObject* oldest      # by use; FetchSessions keeps them alive
    cdef PyObject* newest
    cdef int32_t count
    cdef int64_t partitions

    cdef void append(self, FetchSession session) noexcept
    cdef void remove(self, FetchSession session) noexcept


cdef class FetchSessions:
    cdef readonly ReplicaSessions replicas
    cdef dict by_id
    cdef dict by_host
    cdef readonly int64_t partitions      # held by all fetches, in a session or parked
    cdef int64_t partitions_max
    cdef int32_t sessions_max
    cdef int64_t idle_ms_max
    cdef int32_t bytes_max
    cdef int32_t wait_ms_max
    cdef int32_t next_id

    cdef ParkedFetch begin(self, Connection connection, Permissions permissions,
                           ClientQuota quota, RequestHead* head, FetchStatus* status)
    cdef bint are_permitted(self, Permissions permissions, FetchRequest* request)
    cdef FetchSession session_for(self, Connection connection, Permissions permissions,
                                  RequestHead* head, FetchRequest* request)
    cdef FetchSession continue_session(self, Turn turn, RequestHead* head, FetchRequest* request,
                                       FetchSession session)
    cdef bint can_register(self, str host, int32_t wanted, int64_t now_ms)
    cdef FetchSession evictable(self, str host, int32_t wanted, int64_t now_ms)
    cdef bint is_over_limit(self) noexcept
    cdef void register(self, FetchSession session, str host, RequestHead* head,
                       FetchRequest* request, int64_t now_ms)
    cdef void end(self, FetchSession session)
    cdef void evict(self, FetchSession session)
