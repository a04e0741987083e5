"""Reads the headers of a segment file's batches one after another, several per read.

    position of a batch -> header_at -> batch_size -> position of the next one

Header only, like cursor.pxd.
"""

from libc.errno cimport EBADMSG
from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport load_int32, load_int64
from broker._native.kernel.file_ops cimport file_pread
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_END,
    BATCH_SIZE_MAX,
)

cdef enum:
    WINDOW_SIZE = 4096
    NO_BATCH = -EBADMSG          # a status: the bytes at a position are not a batch
    # Positions in a header, and how many bytes of it the functions below need.
    MAGIC_POSITION = 16
    CODEC_POSITION = 22          # the low byte of the attributes
    LAST_OFFSET_DELTA_POSITION = 23
    OFFSET_FIELDS_SIZE = 27      # base offset, length, magic, codec and last offset delta
    BASE_TIMESTAMP_POSITION = 27
    MAX_TIMESTAMP_POSITION = 35
    MAX_TIMESTAMP_END = 43

# The part of a file that was read last.
cdef struct HeaderWindow:
    int fd
    size_t read_size             # at most WINDOW_SIZE
    int64_t start
    int64_t size
    int status                   # of the last header_at that returned NULL: NO_BATCH or -errno
    uint8_t[WINDOW_SIZE] bytes


cdef inline void window_open(HeaderWindow* window, int fd, size_t read_size) noexcept nogil:
    window.fd = fd
    window.read_size = read_size
    window.start = window.size = 0


cdef inline const uint8_t* header_at(
        HeaderWindow* window, int64_t position, int64_t size) noexcept nogil:
    """Return the first `size` bytes of a header, valid until the next call; NULL at the file's end
    or on an error (`status`).
    """
    cdef ssize_t count
    if position < window.start or position + size > window.start + window.size:
        count = file_pread(window.fd, window.bytes, window.read_size, position)
        window.start = position
        window.size = max(count, 0)
        if count < size:
            window.status = <int>count if count < 0 else NO_BATCH
            return NULL
    return window.bytes + (position - window.start)


cdef inline int64_t batch_size(const uint8_t* header) noexcept nogil:
    """Return the size of a batch by the length in its header; 0: no batch has this length."""
    cdef int32_t length = load_int32(header + 8)
    if length < BATCH_HEADER_SIZE - BATCH_LENGTH_END or length > BATCH_SIZE_MAX:
        return 0
    return BATCH_LENGTH_END + <int64_t>length


cdef inline int64_t last_offset_of(const uint8_t* header) noexcept nogil:
    return load_int64(header) + load_int32(header + LAST_OFFSET_DELTA_POSITION)


cdef inline bint uses_codec(int fd, int64_t position, int64_t end, int codec) noexcept nogil:
    """Return whether one of the batches in [position, end) is compressed with a codec."""
    cdef HeaderWindow window
    cdef const uint8_t* header
    window_open(&window, fd, WINDOW_SIZE)
    while position < end:
        header = header_at(&window, position, OFFSET_FIELDS_SIZE)
        if header == NULL or batch_size(header) == 0:
            return False   # the caller's read reports the error
        if header[CODEC_POSITION] & ATTRIBUTE_CODEC == codec:
            return True
        position += batch_size(header)
    return False
