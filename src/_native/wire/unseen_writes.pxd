from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.wire.reply_slot cimport ReplySlot

cdef struct UnseenWrite:
    PyObject* log             # PartitionLog, owned
    int64_t end_offset        # visible once the high watermark reaches it

# Partitions, each once, and the ends of the writes to them.
cdef struct UnseenList:
    UnseenWrite* entries
    uint32_t count
    uint32_t capacity
    uint32_t hint             # the entry to compare first

# What a connection has written without waiting until it is visible. Zeroed memory is an empty set.
cdef struct UnseenWrites:
    UnseenList here           # visible once this broker has synced it
    UnseenList elsewhere      # visible once other brokers have it, too


cdef bint unseen_add(UnseenWrites* writes, PartitionLog log, int64_t end_offset) noexcept
cdef void unseen_prune(UnseenList* writes) noexcept
cdef ReplySlot* unseen_slot(UnseenList* writes) noexcept
cdef void unseen_wait(UnseenList* writes, ReplySlot* slot, int64_t wait_ms) noexcept
cdef void unseen_free(UnseenWrites* writes) noexcept
