from libc.stdint cimport int16_t, int64_t

from broker._native.log.producer_state cimport ProducerBatch


cdef int earlier_batches(
    list segments, int64_t before, int64_t producer_id, int16_t epoch, int wanted,
    ProducerBatch* found) noexcept
