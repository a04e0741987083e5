from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.growing cimport Text
from broker._native.log.log_page cimport LogPage
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.protocols.v1.line cimport Line
from broker._native.records.record_batch cimport BatchInfo

cdef enum WalkStatus:
    WALK_DONE
    WALK_FULL                 # the line is full
    WALK_NOT_SERVED                    # left to Python


cdef class ConsumeReader:
    cdef LogPage page
    cdef Text reply               # the response line, once `serve` has returned True
    cdef Text escaped             # offsets, separated by blanks
    cdef size_t messages_start    # in the line
    cdef int64_t bytes_read       # for the current request
    cdef int record_count
    cdef size_t last_start        # of the last record, in the line and in `escaped`
    cdef size_t last_escaped_start

    cdef bint serve(self, TopicTable topics, Permissions permissions, Line* line) noexcept
    cdef bint read(self, PartitionLog log, int64_t offset, int64_t end) noexcept
    cdef WalkStatus walk(self, int64_t offset, int64_t end) noexcept
    cdef WalkStatus walk_records(
        self, Cursor records, BatchInfo* info, int64_t offset, int64_t end) noexcept
    cdef bint put(self, int64_t offset, const uint8_t* value, int32_t size) noexcept
    cdef WalkStatus drop_last_record(self) noexcept
    cdef bint note_escaped(self, int64_t offset) noexcept
    cdef bint finish(self, int64_t high_watermark) noexcept
