from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.wire.reply_slot cimport ReplySlot

cdef struct UnseenWrite:
    PyObject* log             # PartitionLog, owned
    int64_t end_offset        # visible once the high watermark reaches it

# The partitions that a connection has written to without waiting, and the end offsets of those
# writes. Zeroed memory is an empty set.
cdef struct UnseenWrites:
    UnseenWrite* entries
    uint32_t count
    uint32_t capacity
    uint32_t hint             # the entry to compare first


cdef bint unseen_add(UnseenWrites* writes, PartitionLog log, int64_t end_offset) noexcept
cdef void unseen_prune(UnseenWrites* writes) noexcept
cdef ReplySlot* unseen_slot(UnseenWrites* writes) noexcept
cdef void unseen_wait(UnseenWrites* writes, ReplySlot* slot) noexcept
cdef void unseen_free(UnseenWrites* writes) noexcept
