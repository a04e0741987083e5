from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog


cdef class StreamTables:
    cdef dict by_log                      # PartitionLog -> StreamHeads
    cdef readonly int64_t recent_bytes    # of the events that are in no file yet
    cdef readonly int64_t recent_bytes_max  # above it appends wait until some are written
    cdef readonly int64_t known_bytes     # of the versions that are kept

    cdef StreamHeads find(self, PartitionLog log)


cdef class StreamHeads:
    cdef StreamTables tables
    cdef readonly int64_t epoch           # of the log, in which this is so
    cdef readonly dict versions           # key -> the version of its stream
    cdef readonly dict recent             # key -> [the version before them, offset, offset...]
    cdef readonly int64_t recent_bytes
    cdef readonly int64_t recent_count    # of events

    cdef int keep(self, bytes key, object version, object offset) except -1
    cdef void note(self, bytes key, object version, object offset) noexcept
