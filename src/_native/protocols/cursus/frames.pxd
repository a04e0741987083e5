from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.growing cimport Text
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.transaction_index cimport AbortedList
from broker._native.records.record_batch cimport BatchInfo
from broker._native.records.record_walk cimport RecordFields

cdef enum:
    LENGTH_SIZE = 4           # of a frame, in front of it

# The result of reading.
cdef enum FrameStatus:
    FRAME_OPEN                # all that was read is in the frame; there may be more
    FRAME_END                 # there are no more records up to the end
    FRAME_FULL                # of bytes or records
    FRAME_COMPRESSED              # the batch at the next offset is compressed
    FRAME_TOO_LARGE           # the record at the next offset does not fit into a frame
    FRAME_UNREADABLE          # what is at the next offset is damaged
    FRAME_OUT_OF_RANGE        # the next offset is below the log's start, or above its end
    FRAME_OFFLINE             # the log cannot be read now
    FRAME_NO_MEMORY


cdef class CursusFrame:
    cdef Text out                     # the frame, its length in front
    cdef size_t head_size             # of the header that all its frames begin with
    cdef size_t counts_at
    cdef size_t bytes_max
    cdef int32_t records_max
    cdef readonly int32_t count
    cdef uint64_t seq_start
    cdef uint64_t seq_end
    cdef readonly int64_t last_offset
    cdef readonly int64_t next_offset
    cdef readonly int64_t skip_offset
    cdef readonly size_t large_size
    # The current read: the rest of one slice, and the current batch.
    cdef Cursor batches
    cdef int64_t slice_end            # the offset after the slice
    cdef int64_t page_start           # the first offset that was asked for, of events
    cdef size_t read_size             # bytes of the slice
    cdef BatchInfo info
    cdef Cursor records
    cdef int32_t left
    cdef bint is_committed
    cdef bint has_streams             # records of snapshots are left out
    cdef uint64_t version             # of the last event
    cdef int64_t event_size           # of the batch that it was in
    cdef bint has_aborted             # `aborted` has been read for the slice
    cdef AbortedList aborted
    cdef bytes decompressed           # that the records are in; None: they are in the page

    cdef void begin(self) noexcept
    cdef FrameStatus read_slice(
        self, PartitionLog log, int64_t offset, int64_t end, bint is_committed) noexcept
    cdef FrameStatus walk(self, PartitionLog log) noexcept
    cdef FrameStatus walk_records(self) noexcept
    cdef FrameStatus put(self, const RecordFields* fields, int64_t offset) noexcept
    cdef FrameStatus put_event(
        self, PartitionLog log, int64_t offset, uint64_t version, int64_t end,
        bint is_near) noexcept
    cdef FrameStatus take_event(self, int64_t offset, uint64_t version) noexcept
    cdef bint hold(self, bytes batch, bytes decompressed, int64_t offset) noexcept
    cdef FrameStatus step_over(self, int64_t next_offset) noexcept
    cdef int is_aborted(self, PartitionLog log) noexcept
    cdef void finish(self) noexcept
    cdef void trim(self) noexcept
