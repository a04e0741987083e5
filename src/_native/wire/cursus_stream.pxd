from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport Watch, WatchOwner
from broker._native.wire.connection cimport Flow
from broker._native.wire.cursus_frames cimport CursusFrame, FrameStatus


cdef class CursusStream(Flow):
    cdef readonly PartitionLog log
    cdef CursusFrame frame
    cdef bint is_committed
    cdef readonly int64_t next_offset     # behind what was sent
    cdef readonly int64_t skip_offset     # behind what cannot be, once that was told
    cdef int64_t keepalive_ms             # 0: none are sent
    cdef int64_t sent_ms                  # monotonic: when the last frame was
    cdef bint is_away                     # Python sees to what was told
    cdef Watch watch
    cdef WatchOwner owner
    cdef object tell

    cdef void start(self)
    cdef int64_t end_offset(self) noexcept
    cdef str find_change(self)
    cdef FrameStatus fill(self)
    cdef bint queue_frame(self) noexcept
    cdef void leave_to_python(self, str what)
