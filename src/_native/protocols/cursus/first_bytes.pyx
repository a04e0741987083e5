"""The first bytes of a connection that speaks Cursus.

    a length, then BA7C; the magic of gzip, xerial snappy, lz4 or zstd        a batch
    a length, then 00, a topic's length and its first character; or 00 00
      and the first byte of a batch or a command                              an envelope
    a length, then a word of letters and _, followed by white space or by
      the end of the frame                                                    a command
    a length, then a raw snappy block whose first bytes are BA7C              a batch

Kafka's third byte after the length is the upper half of a version, 00; an envelope has the first
character of a topic or of a command there.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memchr, memcmp

from broker._native.kernel.cursor cimport (
    READ_DONE,
    READ_SHORT,
    Cursor,
    ReadStatus,
    cursor_take,
    cursor_unsigned_varint,
    load_int32,
)
from broker._native.wire.connection cimport VERDICT_MORE, VERDICT_NO, VERDICT_YES
from broker._native.wire.frame cimport FRAME_HEAD_SIZE

from broker.model import limits

cdef enum:
    WORD_MAX = 19
    BATCH_MIN = 31                # a header with a topic and no acks
    SNAPPY_BATCH_MIN = 20         # such a batch does not compress to fewer bytes
    SNAPPY_LONG_LITERAL = 60      # from here on the tag is the number of length bytes

cdef int64_t FRAME_BYTES_MAX = limits.CURSUS_FRAME_BYTES_MAX


cdef inline bint is_letter(uint8_t byte) noexcept nogil:
    return 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte == 0x20 or 0x09 <= byte <= 0x0D


cdef Verdict begins_with(
        Cursor frame, size_t whole, const char* magic, size_t magic_size) noexcept nogil:
    # `frame` is what has been received of a frame of `whole` bytes.
    cdef size_t size = min(frame.left, magic_size)
    if whole < magic_size or memcmp(frame.next, magic, size):
        return VERDICT_NO
    return VERDICT_YES if size == magic_size else VERDICT_MORE


cdef Verdict is_envelope(Cursor frame, size_t whole) noexcept nogil:
    cdef uint8_t first
    if whole < 3 or frame.next[0] != 0:
        return VERDICT_NO
    if frame.left < 3:
        return VERDICT_MORE
    first = frame.next[2]
    if frame.next[1] > 0:
        return (VERDICT_YES if is_letter(first) or 0x30 <= first <= 0x39
                or memchr(b"._=-*?", first, 6) != NULL else VERDICT_NO)
    return (VERDICT_YES if is_letter(first) or is_blank(first)
            or memchr(b"\xba\x1f\x82\x04\x28", first, 5) != NULL else VERDICT_NO)


cdef Verdict is_word(Cursor frame, size_t whole) noexcept nogil:
    cdef size_t i
    if not is_letter(frame.next[0]):
        return VERDICT_NO
    for i in range(min(frame.left, <size_t>WORD_MAX + 1)):
        if is_blank(frame.next[i]):
            return VERDICT_YES
        if not is_letter(frame.next[i]) and frame.next[i] != c"_":
            return VERDICT_NO
    if frame.left > WORD_MAX:
        return VERDICT_NO
    return VERDICT_YES if frame.left >= whole else VERDICT_MORE


cdef Verdict is_snappy_batch(Cursor frame, size_t whole) noexcept nogil:
    # Uncompressed length, tag of a literal, length of a long literal: then the first bytes of the
    # batch.
    cdef uint32_t plain = 0
    cdef const uint8_t* tag
    cdef ReadStatus status
    if whole < SNAPPY_BATCH_MIN:
        return VERDICT_NO
    status = cursor_unsigned_varint(&frame, &plain)
    if status != READ_DONE:
        return VERDICT_MORE if status == READ_SHORT else VERDICT_NO
    if not BATCH_MIN <= plain <= FRAME_BYTES_MAX:
        return VERDICT_NO
    tag = cursor_take(&frame, 1)
    if tag == NULL:
        return VERDICT_MORE
    if tag[0] & 3:
        return VERDICT_NO
    if tag[0] >> 2 >= SNAPPY_LONG_LITERAL and (
            cursor_take(&frame, (tag[0] >> 2) - SNAPPY_LONG_LITERAL + 1) == NULL):
        return VERDICT_MORE
    if frame.left == 0:
        return VERDICT_MORE
    return begins_with(frame, frame.left + 3, b"\xba\x7c\0", 3)


cdef Verdict cursus_recognizes(const uint8_t* data, size_t size) noexcept nogil:
    """Return whether a connection that begins with these bytes is of Cursus."""
    cdef Cursor frame
    cdef int32_t length
    if size < FRAME_HEAD_SIZE:
        return VERDICT_MORE
    length = load_int32(data)
    if not 0 < length <= FRAME_BYTES_MAX:
        return VERDICT_NO
    if size == FRAME_HEAD_SIZE:
        return VERDICT_MORE
    frame.next = data + FRAME_HEAD_SIZE
    frame.left = min(size - FRAME_HEAD_SIZE, <size_t>length)    # another frame may follow
    # The first verdict that is not VERDICT_NO, which is 0.
    return (
        begins_with(frame, length, b"\xba\x7c", 2)
        or begins_with(frame, length, b"\x1f\x8b", 2)
        or begins_with(frame, length, b"\x82SNAPPY\0", 8)
        or begins_with(frame, length, b"\x04\x22\x4d\x18", 4)
        or begins_with(frame, length, b"\x28\xb5\x2f\xfd", 4)
        or is_envelope(frame, length)
        or is_word(frame, length)
        or is_snappy_batch(frame, length))
