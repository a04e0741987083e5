from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.messages.fields cimport TOPIC_ID_SIZE

# What a reply has besides its partitions.
cdef struct ReplyHead:
    int32_t correlation_id
    int16_t error
    int32_t session_id

cdef struct ReplyPartition:
    const uint8_t* topic_id
    int32_t partition
    int16_t error
    int64_t high_watermark
    int64_t log_start
    bint is_diverging
    int32_t diverging_epoch
    int64_t diverging_end
    const uint8_t* records
    int32_t records_size       # 0: none

# Where the reading of a reply is; it may go on where the same bytes are elsewhere in memory.
cdef struct ReplyReader:
    Cursor rest
    int32_t topics             # left, with the present one
    int32_t partitions         # left in the present topic
    uint8_t[TOPIC_ID_SIZE] topic_id

cdef enum PartitionRead:
    PARTITION_READ
    PARTITION_NONE             # the reply has ended
    PARTITION_BAD              # the reply is malformed


cdef bint reply_begin(ReplyReader* reader, Cursor frame, ReplyHead* head) noexcept nogil
cdef PartitionRead reply_next(ReplyReader* reader, ReplyPartition* partition) noexcept nogil


cdef inline void reply_resume(ReplyReader* reader, Cursor frame) noexcept nogil:
    """Continue in a copy of the frame."""
    reader.rest.next = frame.next + (frame.left - reader.rest.left)
