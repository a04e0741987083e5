from libc.stdint cimport int64_t, uint8_t

from broker._native.records.record_batch cimport BATCH_HEADER_SIZE, BatchInfo, BatchStatus

cdef enum:
    # No record is longer than its message: a batch needs the bytes of its messages and a header.
    CONVERTED_MORE = BATCH_HEADER_SIZE

cdef enum:
    ANY_MAGIC = -1


cdef BatchStatus messages_convert(const uint8_t* messages, size_t size, int magic,
                                  const int64_t* append_time, uint8_t* into,
                                  BatchInfo* info) noexcept nogil
