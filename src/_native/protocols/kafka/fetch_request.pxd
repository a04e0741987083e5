from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from broker._native.log.topic_table cimport TopicTable
from broker._native.protocols.kafka.envelope cimport RequestHead

cdef enum:
    VERSION_SESSION = 7
    VERSION_FOLLOWERS = 11     # from here on consumers read from followers, too (KIP-392)
    VERSION_TOPIC_ID = 13

# One partition as a request names it.
cdef struct Wanted:
    PyObject* topic            # TopicEntry, borrowed from the topic table; NULL: unknown
    PyObject* log              # PartitionLog, borrowed; NULL: not held here, or unknown
    const uint8_t* topic_id    # in the frame of the request; NULL before VERSION_TOPIC_ID
    int32_t partition
    int32_t leader_epoch       # the client's current leader epoch; -1: not given
    int64_t offset
    int64_t log_start          # of a replica's log
    int32_t bytes_max
    int32_t last_epoch         # of the last record that a replica has; -1: none

cdef struct FetchRequest:
    int32_t replica_id         # -1: a consumer
    int64_t replica_epoch      # of the replica's registration
    int32_t session_id
    int32_t epoch
    int32_t wait_ms
    int32_t bytes_min
    int32_t bytes_max
    int8_t isolation
    const uint8_t* rack        # of a consumer, in the frame of the request; NULL: not given
    int32_t rack_size
    int32_t wanted             # partitions to fetch
    int32_t forgotten          # partitions to forget, after those
    Wanted* named              # both; valid until the next request is read


cdef bint read_request(RequestHead* head, TopicTable topics, FetchRequest* request)
