"""A frame: its length, big-endian, and as many bytes. Kafka, Cursus and RustLog cut theirs here.

    frame     uint32 length | payload

Header only: the limits of a length are each dialect's own.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport READ_DONE, Cursor, cursor_take, cursor_uint32

cdef enum:
    FRAME_HEAD_SIZE = 4
    FRAME_BAD = -1            # its length is not one that the dialect takes


cdef inline int64_t frame_cut(
        const uint8_t* data, size_t size, uint32_t length_min, uint32_t length_max,
        Cursor* frame) noexcept nogil:
    """Find the payload of the first frame: the bytes both take, 0 when more are to come, or bad."""
    cdef Cursor rest
    cdef uint32_t length = 0
    rest.next = data
    rest.left = size
    if cursor_uint32(&rest, &length) != READ_DONE:
        return 0
    if not length_min <= length <= length_max:
        return FRAME_BAD
    frame.next = cursor_take(&rest, length)
    if frame.next == NULL:
        return 0
    frame.left = length
    return FRAME_HEAD_SIZE + <int64_t>length


cdef inline int64_t frame_announced(
        const uint8_t* data, size_t size, uint32_t length_max) noexcept nogil:
    """How long the frame is that begins here; 0 when that is not known, or not allowed."""
    cdef Cursor rest
    cdef uint32_t length = 0
    rest.next = data
    rest.left = size
    if cursor_uint32(&rest, &length) != READ_DONE or length > length_max:
        return 0
    return FRAME_HEAD_SIZE + <int64_t>length
