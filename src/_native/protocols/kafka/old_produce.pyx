"""Message sets of Produce requests of versions 0-2, converted to batches.

Uncompressed sets are converted into memory of this module, which is valid until the next request
begins: a log copies what it appends. Compressed, unusual and large sets are left to the Python
handler, which converts them in a thread (protocols/kafka/old_messages.py), where the event loop
does not wait for it.
"""

from libc.stdlib cimport malloc

from broker._native.records.record_batch cimport BATCH_OK
from broker._native.records.up_conversion cimport (
    ANY_MAGIC, CONVERTED_MORE, messages_convert,
)

from broker.model import limits

cdef size_t SETS_BYTES_MAX = limits.OLD_MESSAGES_BYTES_MAX
cdef size_t capacity = SETS_BYTES_MAX + CONVERTED_MORE * limits.NATIVE_PRODUCE_PARTITIONS_MAX
cdef uint8_t* converted_sets = NULL    # allocated for the first such request
cdef size_t used = 0                   # bytes of it, by the current request
cdef size_t read = 0                   # bytes of the sets of the current request


cdef void old_sets_begin() noexcept:
    """Forget the sets of the previous request."""
    global used, read
    used = read = 0


cdef bint old_set_take(const uint8_t** records, int32_t* size, BatchInfo* info) noexcept:
    """Replace a partition's message set by a batch, and read the header of that.

    Return False if the request is left to Python.
    """
    global converted_sets, used, read
    cdef size_t set_size = <size_t>max(size[0], 0)
    if set_size > SETS_BYTES_MAX - read or used + set_size + CONVERTED_MORE > capacity:
        return False
    if converted_sets == NULL:
        converted_sets = <uint8_t*>malloc(capacity)
        if converted_sets == NULL:
            return False
    if messages_convert(
            records[0], set_size, ANY_MAGIC, NULL, converted_sets + used, info) != BATCH_OK:
        return False
    records[0] = converted_sets + used
    size[0] = <int32_t>info.size
    used += info.size
    read += set_size
    return True
