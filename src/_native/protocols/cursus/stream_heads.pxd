from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.protocols.cursus.stream_filter cimport FilterMemory, KeyFilter


cdef class StreamTables:
    cdef dict by_log                      # PartitionLog -> StreamHeads
    cdef readonly int64_t recent_bytes    # of the events that are in no file yet
    cdef readonly int64_t recent_bytes_max  # above it appends wait until some are written
    cdef readonly int64_t known_bytes     # of the versions that are kept
    cdef readonly int64_t known_bytes_max
    cdef readonly FilterMemory filter_memory
    cdef public object when_unknown       # called with the log of the first lookup; None: nobody is

    cdef StreamHeads find(self, PartitionLog log)
    cdef int forget_some(self) except -1


cdef class StreamHeads:
    cdef StreamTables tables
    cdef readonly int64_t epoch           # of the log, in which this is so
    cdef readonly dict versions           # key -> the version of its stream
    cdef int64_t known_bytes              # of these versions
    cdef readonly KeyFilter keys          # of all streams, once they have been read
    cdef readonly dict recent             # key -> [the version before them, offset, offset...]
    cdef readonly int64_t recent_bytes
    cdef readonly int64_t recent_count    # of events
    cdef dict lookups                     # StreamLookup -> None, those that wait, in their order
    cdef dict foreseen                    # key -> None, streams that are looked up with theirs

    cdef void count_known(self, int64_t size) noexcept
    cdef int foresee(self, PartitionLog log, bytes key) except -1
    cdef int set_version(self, bytes key, object version) except -1
    cdef int forget(self, Py_ssize_t count) except -1
    cdef int keep(self, bytes key, object version, object offset) except -1
    cdef void note(self, bytes key, object version, object offset) noexcept
