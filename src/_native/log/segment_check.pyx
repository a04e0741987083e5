"""Reads every byte of a segment once: computes the file's digest and finds damaged batches.

The file is read in pieces that stay in the processor's cache; each piece is hashed, and its batches
pass through these states:

    head      the 61 bytes of a header, which may span two pieces
    records   the rest of the batch, for its CRC; at its end the batch is judged
    skipping  to the next valid batch, after an error

An error becomes a Damage: a range of bytes and offsets whose content is not known to be correct.
The CRC does not cover base offset, length, leader epoch and magic. A wrong

    length or magic         is found at once: no valid batch follows where it should
    base offset or epoch    is found when it is out of order with a neighbour; the next neighbour
                            decides which of the two is wrong
    value still in order    is found only by comparison with an older digest

The next valid batch is where the damaged one's length says that it ends, or the first batch from
which headers lead exactly to a batch that the offset index has, or to the end. So bytes inside a
record that look like a batch are not mistaken for one.

The indexes are compared with the batches at the same time (index_check). All work is done without
the GIL and without a mapping: a file truncated meanwhile raises Truncated instead of SIGBUS.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.fcntl cimport O_RDONLY

import os

from cython cimport final

from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.kernel.cursor cimport Cursor, load_int32, load_int64
from broker._native.kernel.file_ops cimport file_close, file_open, file_pread, file_size
from broker._native.log.index_check cimport (
    IndexCheck,
    IndexedBatch,
    index_check_ahead,
    index_check_batch,
    index_check_begin,
    index_check_end,
)
from broker._native.records.record_batch cimport (
    BATCH_CRC_START,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH,
    BATCH_LENGTH_END,
    BatchInfo,
    BatchStatus,
    batch_header,
    batch_last_offset,
)

from typing import NamedTuple

from broker.model import limits
from broker.model.errors import StorageError, Truncated

cdef extern from "kernel/xxh3.h" nogil:
    struct xxh3_stream:
        pass

    void xxh3_init()
    uint64_t xxh3_64(const uint8_t* data, size_t size)
    void xxh3_begin(xxh3_stream* stream)
    void xxh3_add(xxh3_stream* stream, const uint8_t* data, size_t size)
    uint64_t xxh3_end(const xxh3_stream* stream)

xxh3_init()

cdef enum:
    PIECE_SIZE = 256 << 10

assert PIECE_SIZE == limits.SEGMENT_CHECK_PIECE_BYTES
cdef Py_ssize_t DAMAGES_MAX = limits.SEGMENT_CHECK_DAMAGES_MAX

# What is wrong with a batch.
cdef enum Fault:
    NO_FAULT
    BAD_LENGTH
    BAD_MAGIC
    BAD_CRC
    BAD_OFFSETS
    BAD_EPOCH
    CUT_SHORT

FAULT_TEXTS = {
    BAD_LENGTH: "a length that no batch here has",
    BAD_MAGIC: "a magic other than 2",
    BAD_CRC: "a CRC that does not fit",
    BAD_OFFSETS: "offsets out of order",
    BAD_EPOCH: "a leader epoch that falls",
    CUT_SHORT: "a batch cut short",
}


class Damage(NamedTuple):
    """A damaged range of bytes of a segment, and the offsets that it may have held.

    Ends are exclusive; `end_offset` is -1 when no valid batch follows in the segment.
    """

    position: int
    end_position: int
    offset: int
    end_offset: int
    reason: str


# The previous batch, to decide which of two batches out of order is wrong.
cdef struct Before:
    int64_t position             # -1: there is none
    int64_t next_offset          # the offset expected before that batch
    int32_t epoch                # the epoch before that batch, -1: none
    int64_t records


def digest_of(data not None):
    """Return the XXH3 (64 bits) of bytes."""
    cdef Py_buffer view
    cdef uint64_t digest
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    digest = xxh3_64(<const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return digest


@final
cdef class SegmentCheck:
    """Checks one segment file, some bytes per step; its attributes then have the result.

    `index`, `time_index` and `aborted` are the contents of its three index files, b"" for no file.
    An active segment may end in a batch that is still being written: `tail_bytes` then counts it
    instead of a damage. Raises StorageError when the file cannot be opened.
    """

    cdef readonly int64_t base_offset
    cdef readonly int64_t size           # of the file when it was opened
    cdef readonly int64_t position       # checked up to here
    cdef readonly int64_t batches        # count of valid batches
    cdef readonly int64_t records        # count of their records, by their headers
    cdef readonly int64_t gaps           # count of gaps between offsets: compaction, mostly
    cdef readonly int64_t first_offset   # -1 without a valid batch
    cdef readonly int64_t next_offset    # after the last valid batch
    cdef readonly int64_t max_timestamp  # ms, -1 without one
    cdef readonly int64_t zero_bytes     # at the end: preallocated, never written
    cdef readonly int64_t tail_bytes     # of an active segment: after its last valid batch
    cdef readonly list damages           # of Damage, ascending
    cdef bint is_active
    cdef int fd
    cdef bytes path
    cdef uint8_t* piece
    cdef xxh3_stream stream
    cdef uint8_t head[BATCH_HEADER_SIZE]
    cdef size_t head_size                # bytes of it read so far
    cdef int64_t batch_position
    cdef size_t left                     # bytes of the batch not read yet
    cdef uint32_t crc
    cdef BatchInfo info
    cdef int64_t skip_to
    cdef int64_t hashed                  # the digest covers the bytes up to here
    cdef int64_t valid_offset            # of the first batch after the last damage, -1: none yet
    cdef bint is_after_damage
    cdef int32_t epoch
    cdef Before before
    cdef tuple index_files               # keeps the memory of `indexes` alive
    cdef IndexCheck indexes

    def __cinit__(self, path, int64_t base_offset, *, bytes index=b"", bytes time_index=b"",
                  bytes aborted=b"", bint is_active=False):
        self.fd = -1
        self.path = os.fsencode(path)
        self.base_offset = self.next_offset = base_offset
        self.first_offset = self.max_timestamp = self.epoch = self.valid_offset = -1
        self.before.position = -1
        self.is_active = is_active
        self.damages = []
        self.index_files = index, time_index, aborted
        index_check_begin(&self.indexes, base_offset, index, time_index, aborted)
        xxh3_begin(&self.stream)
        self.piece = <uint8_t*>malloc(PIECE_SIZE)
        if self.piece == NULL:
            raise MemoryError
        self.fd = file_open(self.path, O_RDONLY, 0)
        if self.fd < 0:
            self.failed(self.fd, "open")
        self.size = file_size(self.fd)
        if self.size < 0:
            self.failed(<int>self.size, "size of")

    def __dealloc__(self):
        self.close()
        free(self.piece)

    def close(self):
        """Close the file."""
        if self.fd >= 0:
            file_close(self.fd)
        self.fd = -1

    cdef int failed(self, int status, str operation) except -1:
        text = os.strerror(-status)
        raise StorageError(f"{operation} {os.fsdecode(self.path)}: {text}") from OSError(
            -status, text)

    @property
    def digest(self):
        """The XXH3 (64 bits) of the bytes up to `position`."""
        return xxh3_end(&self.stream)

    @property
    def index_errors(self):
        """How many (offset, time, aborted transaction) entries match no batch."""
        return (
            self.indexes.offsets.wrong, self.indexes.times.wrong, self.indexes.transactions.wrong)

    def step(self, int64_t bytes_max):
        """Check `bytes_max` more bytes, or slightly more; return whether there are others.

        Raises:
            StorageError: the file cannot be read.
            Truncated: the file was truncated meanwhile.
        """
        cdef int64_t stop = min(self.size, self.position + max(bytes_max, 1))
        cdef ssize_t size
        cdef Fault fault = NO_FAULT
        cdef size_t at
        while self.position < stop:
            with nogil:
                size = file_pread(self.fd, self.piece,
                                  <size_t>min(<int64_t>PIECE_SIZE, self.size - self.position),
                                  self.position)
                if self.position + size > self.hashed:
                    # Bytes that are read twice are hashed once.
                    xxh3_add(&self.stream, self.piece + (self.hashed - self.position),
                             <size_t>(self.position + size - self.hashed))
                    self.hashed = self.position + size
            if size < 0:
                self.failed(<int>size, "read")
            if size == 0:
                raise Truncated(f"{os.fsdecode(self.path)}: cut while it was read", self.position)
            at = 0
            while at < <size_t>size:
                with nogil:
                    fault = self.walk(&at, <size_t>size)
                if fault != NO_FAULT:
                    self.judge(fault)
                    if self.skip_to < self.position + <int64_t>at:
                        # A corrupted length pointed past valid batches.
                        self.position, size = self.skip_to, 0
                        break
            self.position += size
        if self.position < self.size:
            return True
        self.end()
        return False

    # ---- batches ------------------------------------------------------------------------------

    cdef Fault walk(self, size_t* at, size_t size) noexcept nogil:
        """Read a piece from `at` on, up to its end or to the first fault."""
        cdef const uint8_t* header
        cdef size_t taken
        cdef Fault fault
        while at[0] < size:
            if self.skip_to > self.position + <int64_t>at[0]:
                at[0] = <size_t>min(<int64_t>size, self.skip_to - self.position)
                continue
            if self.left > 0:
                taken = min(self.left, size - at[0])
                self.crc = crc32c_extend(self.crc, self.piece + at[0], taken)
                self.left -= taken
            else:
                taken = min(<size_t>BATCH_HEADER_SIZE - self.head_size, size - at[0])
                if self.head_size == 0:
                    self.batch_position = self.position + <int64_t>at[0]
                header = self.piece + at[0]
                if taken < BATCH_HEADER_SIZE:
                    memcpy(self.head + self.head_size, header, taken)
                    self.head_size += taken
                    if self.head_size < BATCH_HEADER_SIZE:
                        at[0] += taken
                        return NO_FAULT
                    header = self.head
                self.head_size = 0
                fault = self.begin(header)
                if fault != NO_FAULT:
                    at[0] += taken
                    return fault
                if self.info.size <= size - at[0] and header != self.head:
                    taken = self.info.size
                    self.left = 0
                    self.crc = crc32c_extend(0, header + BATCH_CRC_START, taken - BATCH_CRC_START)
            at[0] += taken
            if self.left == 0:
                fault = self.finish()
                if fault != NO_FAULT:
                    return fault
        return NO_FAULT

    cdef Fault begin(self, const uint8_t* header) noexcept nogil:
        """Read a batch's header and return its fault, if any."""
        cdef Cursor cursor
        cdef BatchStatus status
        cursor.next = header
        cursor.left = BATCH_HEADER_SIZE
        status = batch_header(&cursor, &self.info)
        if status == BATCH_LENGTH:
            return BAD_LENGTH
        if self.info.magic != 2:
            return BAD_MAGIC
        if self.batch_position + <int64_t>self.info.size > self.size:
            return CUT_SHORT
        self.crc = crc32c_extend(0, header + BATCH_CRC_START, BATCH_HEADER_SIZE - BATCH_CRC_START)
        self.left = self.info.size - BATCH_HEADER_SIZE
        return NO_FAULT

    cdef Fault finish(self) noexcept nogil:
        """Check a batch whose last byte has been read, and count it if it is valid."""
        cdef int64_t last = batch_last_offset(&self.info)
        if self.crc != self.info.crc:
            return BAD_CRC
        if (self.info.last_offset_delta < 0 or self.info.base_offset < self.next_offset
                or last < self.info.base_offset or last - self.base_offset > INT32_MAX):
            return BAD_OFFSETS
        if self.info.leader_epoch < self.epoch:
            return BAD_EPOCH
        self.accept(last)
        return NO_FAULT

    cdef void accept(self, int64_t last) noexcept nogil:
        if self.first_offset < 0:
            self.first_offset = self.info.base_offset
        if self.is_after_damage:
            self.valid_offset = self.info.base_offset
        self.gaps += self.info.base_offset > self.next_offset and not self.is_after_damage
        index_check_batch(&self.indexes, &self.info, self.batch_position, self.is_after_damage)
        self.is_after_damage = False
        self.before.position = self.batch_position
        self.before.next_offset = self.next_offset
        self.before.epoch = self.epoch
        self.before.records = self.records
        self.next_offset = last + 1
        self.epoch = self.info.leader_epoch
        self.max_timestamp = max(self.max_timestamp, self.info.max_timestamp)
        self.batches += 1
        self.records += max(self.info.record_count, 0)

    cdef int judge(self, Fault fault) except -1:
        """Record a damage, and set where to continue."""
        cdef int64_t position = self.batch_position, end, offset = self.next_offset
        cdef bint is_before = False
        self.left = 0
        if fault == BAD_OFFSETS or fault == BAD_EPOCH:
            end = position + <int64_t>self.info.size
            is_before = (
                self.before.position >= 0 and not self.is_after_damage
                and self.info.last_offset_delta >= 0
                and self.info.base_offset >= self.before.next_offset
                and batch_last_offset(&self.info) - self.base_offset <= INT32_MAX
                and self.info.leader_epoch >= self.before.epoch)
            if is_before:
                # This batch continues the one before the last: the last one is wrong.
                end, position, offset = position, self.before.position, self.before.next_offset
                self.next_offset, self.epoch = offset, self.before.epoch
                self.batches, self.records = self.batches - 1, self.before.records
        else:
            with nogil:
                end = self.next_valid(position)
            if end == self.size and self.is_unwritten(position):
                self.skip_to = self.size
                return 0
        self.skip_to = end
        self.note(position, end, offset, fault)
        if is_before:
            with nogil:
                self.accept(batch_last_offset(&self.info))
            self.skip_to = self.batch_position + <int64_t>self.info.size
        return 0

    cdef int note(self, int64_t position, int64_t end, int64_t offset, Fault fault) except -1:
        self.settle()
        self.is_after_damage = True
        reason = FAULT_TEXTS[fault]
        if self.damages and self.damages[-1].end_position == position:
            last = self.damages.pop()
            position, offset, reason = last.position, last.offset, last.reason
        if len(self.damages) >= DAMAGES_MAX:
            last = self.damages.pop()
            position, offset, reason = last.position, last.offset, last.reason
        self.damages.append(Damage(position, end, offset, -1, reason))
        return 0

    cdef int settle(self) except -1:
        """Set the end offset of the last damage, if it is known by now."""
        if self.valid_offset >= 0:
            self.damages[-1] = self.damages[-1]._replace(end_offset=self.valid_offset)
        self.valid_offset = -1
        return 0

    cdef bint is_unwritten(self, int64_t position) noexcept:
        """Return whether the rest of the file is preallocated or being written, not damaged."""
        if self.zeros_end(position) == self.size:
            self.zero_bytes = self.size - position
            return True
        if self.is_active:
            self.tail_bytes = self.size - position
        return self.is_active

    cdef int64_t zeros_end(self, int64_t position) noexcept nogil:
        cdef uint8_t window[4096]
        cdef ssize_t size, place
        while position < self.size:
            size = file_pread(self.fd, window, sizeof(window), position)
            if size <= 0:
                break
            for place in range(size):
                if window[place] != 0:
                    return position + place
            position += size
        return position

    cdef int end(self) except -1:
        """Check the end of the file, which may be an incomplete header."""
        if self.skip_to < self.size and self.head_size > 0:
            self.head_size = 0
            self.judge(CUT_SHORT)
        self.settle()
        if not (self.is_after_damage or self.is_active):
            index_check_end(&self.indexes)
        return 0

    # ---- after a damage -----------------------------------------------------------------------

    cdef int64_t next_valid(self, int64_t position) noexcept nogil:
        """Return the position of the first valid batch after a position; the size without one."""
        cdef uint8_t window[4096]
        cdef int64_t at = position + 1, end, limit = self.indexed_after(position)
        cdef ssize_t size, place
        end = self.end_by_length(position)
        if end > position and self.is_valid(end):
            return end
        while at + BATCH_HEADER_SIZE <= self.size:
            if at > limit:
                limit = self.indexed_after(at - 1)
            size = file_pread(self.fd, window, sizeof(window), at)
            if size < BATCH_HEADER_SIZE:
                break
            for place in range(size - BATCH_HEADER_SIZE + 1):
                if at + place > limit:
                    limit = self.indexed_after(at + place - 1)
                if (window[place + 16] == 2 and self.may_begin(window + place)
                        and self.is_valid(at + place) and self.leads_to(at + place, limit)):
                    return at + place
            at += size - BATCH_HEADER_SIZE + 1
        return self.size

    cdef bint may_begin(self, const uint8_t* header) noexcept nogil:
        cdef int32_t length = load_int32(header + 8)
        cdef int64_t offset = load_int64(header)
        return (header[16] == 2 and length >= BATCH_HEADER_SIZE - BATCH_LENGTH_END
                and self.next_offset <= offset <= self.base_offset + INT32_MAX
                and load_int32(header + 23) >= 0)

    cdef int64_t end_by_length(self, int64_t position) noexcept nogil:
        """Return where the batch at a position ends by its length, which may be wrong, or -1."""
        cdef uint8_t header[BATCH_HEADER_SIZE]
        if file_pread(self.fd, header, BATCH_HEADER_SIZE, position) < BATCH_HEADER_SIZE:
            return -1
        return position + BATCH_LENGTH_END + load_int32(header + 8)

    cdef bint is_valid(self, int64_t position) noexcept nogil:
        """Return whether the batch at a position has the right CRC; True at the end of the file."""
        cdef uint8_t data[8192]
        cdef int64_t at, end
        cdef ssize_t size
        cdef uint32_t crc = 0, expected
        if position == self.size:
            return True
        if (position > self.size or file_pread(self.fd, data, BATCH_HEADER_SIZE, position)
                < BATCH_HEADER_SIZE or not self.may_begin(data)):
            return False
        end = position + BATCH_LENGTH_END + load_int32(data + 8)
        if end > self.size:
            return False
        expected = <uint32_t>load_int32(data + 17)
        at = position + BATCH_CRC_START
        while at < end:
            size = file_pread(self.fd, data, <size_t>min(<int64_t>sizeof(data), end - at), at)
            if size <= 0:
                return False
            crc = crc32c_extend(crc, data, <size_t>size)
            at += size
        return crc == expected

    cdef bint leads_to(self, int64_t position, int64_t limit) noexcept nogil:
        """Return whether headers lead from a batch exactly to a position, or to trailing zeros."""
        cdef uint8_t header[BATCH_HEADER_SIZE]
        while position < limit:
            if file_pread(self.fd, header, BATCH_HEADER_SIZE, position) < BATCH_HEADER_SIZE:
                return False
            if not self.may_begin(header):
                return limit == self.size and load_int64(header) == 0 and (
                    load_int32(header + 8) == 0)
            position += BATCH_LENGTH_END + load_int32(header + 8)
        return position == limit

    cdef int64_t indexed_after(self, int64_t position) noexcept nogil:
        """Return the position of the next batch that the offset index has; the size without one."""
        cdef IndexedBatch named
        cdef uint8_t header[BATCH_HEADER_SIZE]
        cdef int64_t entry = 0
        while index_check_ahead(&self.indexes, entry, &named):
            if position < named.position < self.size and (
                    file_pread(self.fd, header, BATCH_HEADER_SIZE, named.position)
                    == BATCH_HEADER_SIZE
                    and self.may_begin(header)
                    and load_int64(header) + load_int32(header + 23) == named.last_offset):
                return named.position
            entry += 1
        return self.size
