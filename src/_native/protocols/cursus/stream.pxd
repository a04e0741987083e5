from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport Watch, WatchOwner
from broker._native.protocols.cursus.frames cimport CursusFrame, FrameStatus
from broker._native.wire.connection cimport Wait


cdef class CursusStream(Wait):
    cdef readonly PartitionLog log
    cdef CursusFrame frame
    cdef bint is_committed
    cdef readonly int64_t next_offset     # after what was sent
    cdef readonly int64_t skip_offset     # after what cannot be sent, once Python was notified
    cdef int64_t keepalive_ms             # 0: none are sent
    cdef int64_t sent_ms                  # monotonic: when the last frame was sent
    cdef bint is_paused                   # Python handles a notification
    cdef Watch watch
    cdef WatchOwner owner
    cdef object notify

    cdef void start(self)
    cdef int64_t end_offset(self) noexcept
    cdef object find_change(self)
    cdef FrameStatus fill(self)
    cdef bint queue_frame(self) noexcept
    cdef void pause_and_notify(self, object event)
