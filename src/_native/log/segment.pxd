from libc.stdint cimport int32_t, int64_t

from broker._native.log.offset_index cimport OffsetIndex
from broker._native.log.segment_file cimport SegmentFile
from broker._native.log.transaction_index cimport AbortedList, AbortedTransaction
from broker._native.records.record_batch cimport BatchInfo

cdef enum:
    READ_HINTS = 8

# The position of the next batch of a reader whose next read is at `offset`.
cdef struct ReadHint:
    int64_t offset
    int64_t position


cdef class Segment(SegmentFile):
    cdef readonly int64_t size          # log bytes, with the staged ones
    cdef readonly int64_t max_timestamp
    cdef int64_t max_timestamp_offset
    cdef int64_t created_ms             # monotonic time of the first append; 0: none yet
    cdef int64_t first_timestamp        # largest of the first batch; -1: none, -2: not looked up
    cdef OffsetIndex index
    cdef int64_t aborted_count          # entries of its .txnindex
    cdef int64_t newest_abort           # offset of the last one's marker; < 0: not looked up
    cdef bint is_index_dirty            # its index files have unsynced writes
    cdef list damaged                   # of (offset, end offset, position, end position), or None
    cdef bint has_unsynced_aborts       # its .txnindex has unsynced writes
    cdef bint has_index                 # set by `attach`: the index files exist and match the log
    cdef bint is_cut_off                # likewise: they have a batch that the log has lost
    cdef bint has_aborted               # likewise for .txnindex, which need not exist
    cdef int32_t bytes_since_entry
    cdef int32_t index_interval         # bytes between entries, as of the last batch
    cdef int64_t last_batch_offset      # last offset of the newest batch, and its position
    cdef int64_t last_batch_position
    cdef ReadHint hints[READ_HINTS]
    cdef int next_hint

    cdef int64_t roll_time(self) noexcept
    cdef void note(self, BatchInfo* info, int64_t base_offset, int32_t interval) noexcept nogil
    cdef int finish_index(self) noexcept nogil
    cdef int note_aborted(self, AbortedTransaction* aborted) noexcept nogil
    cdef int find_aborted(self, int64_t start, int64_t end, AbortedList* into,
                          bint* is_complete) noexcept nogil
    cdef bint has_batch(self, int64_t position, int32_t relative_offset) noexcept nogil
    cdef int rebuild_index(self) noexcept
    cdef void load_index(self, const char* path) noexcept
    cdef void add_entry(self, int64_t last_offset, int64_t position, int64_t max_timestamp,
                        int64_t max_timestamp_offset) noexcept nogil
    cdef int store_index(self) noexcept nogil
    cdef int sync_index(self) noexcept nogil
    cdef int sync_aborted(self) noexcept nogil
    cdef int drop_index(self, int64_t aborted_from) noexcept nogil
    cdef int remove_index(self) noexcept nogil
    cdef int attach(self) noexcept
    cdef bint fits(self, int32_t last_offset, int64_t position) noexcept nogil
    cdef void set_damaged(self, list ranges)
    cdef int64_t broken_at(self, int64_t offset, int64_t* first) noexcept
    cdef int64_t valid_end(self, int64_t offset, int64_t* end_offset) noexcept
    cdef int64_t valid_start(self, int64_t offset, bint* is_damaged) noexcept
    cdef int64_t locate(self, int64_t offset) noexcept
    cdef int64_t boundary(self, int64_t position, int64_t size_max, int64_t end) noexcept
    cdef int64_t offset_at(self, int64_t position) noexcept nogil
    cdef int64_t newest_before(self, int64_t offset, int64_t end) noexcept
    cdef int64_t time_at(self, int64_t offset) noexcept
    cdef int64_t batch_end(self, int64_t position) noexcept nogil
    cdef void remember(self, int64_t offset, int64_t position) noexcept nogil
