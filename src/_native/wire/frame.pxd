"""Length-prefixed frames, for the protocols that have them.

    frame     uint32 length, big-endian | payload

Header only. The limits of the length are those of each protocol.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport READ_DONE, Cursor, cursor_take, cursor_uint32

cdef enum:
    FRAME_HEAD_SIZE = 4
    FRAME_BAD = -1            # its length is outside the limits of the protocol


cdef inline int64_t frame_cut(
        const uint8_t* data, size_t size, uint32_t length_min, uint32_t length_max,
        Cursor* frame) noexcept nogil:
    """Find the first frame's payload; return the bytes of both, 0 if incomplete, or FRAME_BAD."""
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
    """Return the size of the frame that begins here; 0 if it is unknown or not allowed."""
    cdef Cursor rest
    cdef uint32_t length = 0
    rest.next = data
    rest.left = size
    if cursor_uint32(&rest, &length) != READ_DONE or length > length_max:
        return 0
    return FRAME_HEAD_SIZE + <int64_t>length
