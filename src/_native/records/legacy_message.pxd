from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_batch cimport BatchInfo, BatchStatus
from broker._native.records.record_walk cimport Span

cdef enum:
    MESSAGE_HEAD_SIZE = 17       # offset, size, crc, magic: enough to read the magic
    MESSAGE_CRC_START = 16       # the CRC covers everything from the magic on
    MESSAGE_SIZE_MIN = 26        # an empty one of magic 0

cdef struct Message:
    int64_t offset
    int8_t magic
    int8_t attributes
    int64_t timestamp            # -1 in magic 0, which has none
    uint32_t crc
    const uint8_t* start
    size_t size
    Span key
    Span value


cdef BatchStatus message_take(Cursor* cursor, Message* message) noexcept nogil
cdef BatchStatus message_check_crc(const Message* message) noexcept nogil
cdef BatchStatus entry_take(Cursor* cursor, BatchInfo* info) noexcept nogil
