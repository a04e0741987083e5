from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t

from broker._native.log.segment cimport Segment
from broker._native.log.transaction_index cimport AbortedList
from broker._native.log.turn cimport AwaitedLog, LogStatus

# A run of whole batches in one segment file.
cdef struct LogSlice:
    int64_t position
    int64_t size
    int64_t next_offset        # of the first batch after it, or higher: no record is in between

# An end of a log, where it is, and the largest timestamp of its segment before it.
cdef struct LogEnd:
    int64_t offset
    int64_t base_offset        # of the segment
    int64_t position
    int64_t max_timestamp      # -1: none, TIME_UNKNOWN: not looked up

cdef enum:
    TIME_UNKNOWN = -2


cdef class SegmentedLog(AwaitedLog):
    cdef readonly str folder
    cdef bytes folder_path
    cdef list segments                    # of Segment, oldest first; the last is active
    cdef Segment active
    cdef readonly int64_t log_start_offset
    cdef readonly int64_t log_end_offset
    cdef Segment visible_segment          # the segment that has the high watermark
    cdef int64_t visible_position
    cdef int64_t visible_max_timestamp    # of that segment's batches below the high watermark
    cdef readonly int32_t leader_epoch
    cdef list epochs                      # of (epoch, start offset), oldest first
    cdef int64_t segment_bytes_max
    cdef uint64_t cut_count               # how often it was cut or begun anew (truncation.pyx)
    cdef int64_t cut_base                 # what the last cut has left: all segments before this
    cdef int64_t cut_size                 # one, and so many bytes of this one
    cdef readonly uint64_t bytes_out      # that readers were given, since the start

    cdef Segment new_segment(self, int64_t base_offset)
    cdef LogStatus slice(self, int64_t offset, int64_t end_offset, int64_t size_max,
                         bint at_least_one, LogSlice* found, PyObject** owner) noexcept
    cdef int64_t end_of(self, Segment segment, int64_t end_offset) noexcept
    cdef LogStatus slice_below(self, const LogEnd* limit, int64_t offset, int64_t end_offset,
                               int64_t size_max, bint at_least_one, LogSlice* found,
                               PyObject** owner) noexcept
    cdef object take_slice(self, int64_t offset, LogStatus status, LogSlice* found, PyObject* owner)
    cdef LogEnd visible_end(self) noexcept
    cdef int64_t end_position(
        self, Segment segment, int64_t end_offset, const LogEnd* limit) noexcept
    cdef bint find_place(self, int64_t offset, LogEnd* place) noexcept
    cdef int64_t visible_bytes(self, int64_t offset, int64_t end_offset) noexcept
    cdef int64_t bytes_below(
        self, const LogEnd* limit, int64_t offset, int64_t end_offset) noexcept
    cdef int find_aborted(self, int64_t start, int64_t end, AbortedList* into) noexcept
    cdef Py_ssize_t index_of(self, int64_t offset) noexcept
    cdef Segment segment_of(self, int64_t offset)
    cdef Segment segment_after(self, Segment segment)
    cdef Segment segment_before(self, Segment segment)
    cdef void step_visible(self) noexcept
    cdef bint may_drop(self, Segment segment) noexcept
    cdef bint may_replace(self, Segment segment) noexcept
    cdef void advance(self, int64_t high_watermark, Segment segment, int64_t position,
                      int64_t max_timestamp) noexcept
    cdef bint marks_rest_damaged(self, Segment segment, int64_t offset, int error) noexcept
    cdef void begin_epoch(self, int32_t epoch, int64_t offset) noexcept
    cdef void fail(self, int error) noexcept
    cpdef void take_offline(self, str reason) noexcept
    cpdef bint end_service(self) noexcept
    cdef void report_offline(self, str reason) noexcept
    cdef void fail_unless_transient(self, int error) noexcept


cdef str reason_of(int error)
cdef int must(int status, SegmentedLog log, str what) except -1
