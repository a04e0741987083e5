"""Every byte of a segment looked at once: the digest of the file, and where batches are damaged.

The file is read in pieces that stay in the processor's cache; each piece goes to the hash, and the
batches in it through these states:

    head      the 61 bytes of a header, which two pieces may share
    records   the rest of the batch, for its CRC; at its end the batch is judged
    skipping  to the next sound batch, once something was wrong

What is wrong is a Damage: the bytes and the offsets that nobody can vouch for. The CRC does not
cover base offset, length, leader epoch and magic. Of those

    length, magic         show at once: nothing that fits stands behind
    base offset, epoch    show when they do not ascend, as the first of two neighbours or the
                          second; the other one decides which
    others of them        show only against a digest that was taken before

The next sound batch is where the damaged one says that it ends, or the first from which headers
lead exactly to a batch that the offset index names, or to the end. So what looks like a batch
inside of a record is not taken for one.

The indexes are compared with the batches on the way (index_check). All work is done without the GIL
and without a mapping: a file that is cut meanwhile ends in Truncated, not in SIGBUS.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.fcntl cimport O_RDONLY

import os

from cython cimport final

from broker._native.kernel.crc32c cimport crc32c_extend
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
    BATCH_SIZE_MAX,
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
    SOUND
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
    """Bytes of a segment that nobody can vouch for, and the offsets they may have held.

    Positions and offsets are those of the first and behind the last; `end_offset` is -1 when
    nothing sound follows in the segment.
    """

    position: int
    end_position: int
    offset: int
    end_offset: int
    reason: str


# The neighbour before, by which the order of two batches is judged.
cdef struct Before:
    int64_t position             # -1: there is none
    int64_t next_offset          # as it was expected before that one
    int32_t epoch                # -1: of none before that one
    int64_t records


def digest_of(data not None):
    """The XXH3 (64 bits) of bytes."""
    cdef const uint8_t[::1] view = data
    return xxh3_64(&view[0] if view.shape[0] else NULL, <size_t>view.shape[0])


@final
cdef class SegmentCheck:
    """Looks at one segment file, some bytes at a time; then its attributes say what was found.

    `index`, `time_index` and `aborted` are what its three index files have, b"" for nothing. An
    active segment may end in what is not written yet: `tail_bytes` then counts it instead of a
    damage. Raises StorageError when the file cannot be opened.
    """

    cdef readonly int64_t base_offset
    cdef readonly int64_t size           # of the file when it was opened
    cdef readonly int64_t position       # up to here all was looked at
    cdef readonly int64_t batches        # sound ones
    cdef readonly int64_t records        # of those, by their headers
    cdef readonly int64_t gaps           # places where offsets are missing: compaction, mostly
    cdef readonly int64_t first_offset   # -1 without a sound batch
    cdef readonly int64_t next_offset    # behind the last sound batch
    cdef readonly int64_t max_timestamp  # ms, -1 without one
    cdef readonly int64_t zero_bytes     # at the end: reserved, never written
    cdef readonly int64_t tail_bytes     # of an active one: that no sound batch follows
    cdef readonly list damages           # of Damage, ascending
    cdef readonly bint is_cut_off        # there were more damages than are kept
    cdef bint is_active
    cdef int fd
    cdef bytes path
    cdef uint8_t* piece
    cdef xxh3_stream stream
    cdef uint8_t head[BATCH_HEADER_SIZE]
    cdef size_t head_size                # bytes of it that are there
    cdef int64_t batch_position
    cdef size_t left                     # bytes of the batch that are to come
    cdef uint32_t crc
    cdef BatchInfo info
    cdef int64_t skip_to
    cdef int64_t hashed                  # up to here the digest knows the bytes
    cdef int64_t sound_offset            # of the first batch behind the last damage, -1: none yet
    cdef bint is_behind_damage
    cdef int32_t epoch
    cdef Before before
    cdef tuple index_files               # what `indexes` looks into
    cdef IndexCheck indexes

    def __cinit__(self, path, int64_t base_offset, *, bytes index=b"", bytes time_index=b"",
                  bytes aborted=b"", bint is_active=False):
        self.fd = -1
        self.path = os.fsencode(path)
        self.base_offset = self.next_offset = base_offset
        self.first_offset = self.max_timestamp = self.epoch = self.sound_offset = -1
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
        """Let go of the file."""
        if self.fd >= 0:
            file_close(self.fd)
        self.fd = -1

    cdef int failed(self, int status, str operation) except -1:
        text = os.strerror(-status)
        raise StorageError(f"{operation} {os.fsdecode(self.path)}: {text}") from OSError(
            -status, text)

    @property
    def digest(self):
        """XXH3 (64 bits) of the bytes up to `position`: of the file, when that is its size."""
        return xxh3_end(&self.stream)

    @property
    def index_errors(self):
        """(offset, time, aborted transactions): how many entries of each no batch agrees with."""
        return (
            self.indexes.offsets.wrong, self.indexes.times.wrong, self.indexes.transactions.wrong)

    def step(self, int64_t bytes_max):
        """Look at so many more bytes, or a few more; whether there are others.

        Raises:
            StorageError: the disk cannot read the file.
            Truncated: it is shorter than it was.
        """
        cdef int64_t stop = min(self.size, self.position + max(bytes_max, 1))
        cdef ssize_t size
        cdef Fault fault = SOUND
        cdef size_t at
        while self.position < stop:
            with nogil:
                size = file_pread(self.fd, self.piece,
                                  <size_t>min(<int64_t>PIECE_SIZE, self.size - self.position),
                                  self.position)
                if self.position + size > self.hashed:
                    # What was walked through twice is hashed once.
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
                if fault != SOUND:
                    self.judge(fault)
                    if self.skip_to < self.position + <int64_t>at:
                        # A length too long by a flip has led past batches that are sound.
                        self.position, size = self.skip_to, 0
                        break
            self.position += size
        if self.position < self.size:
            return True
        self.end()
        return False

    # ---- batches ------------------------------------------------------------------------------

    cdef Fault walk(self, size_t* at, size_t size) noexcept nogil:
        """Go through a piece from `at` on, up to its end or to what is wrong."""
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
                        return SOUND
                    header = self.head
                self.head_size = 0
                fault = self.begin(header)
                if fault != SOUND:
                    at[0] += taken
                    return fault
                if self.info.size <= size - at[0] and header != self.head:
                    taken = self.info.size
                    self.left = 0
                    self.crc = crc32c_extend(0, header + BATCH_CRC_START, taken - BATCH_CRC_START)
            at[0] += taken
            if self.left == 0:
                fault = self.finish()
                if fault != SOUND:
                    return fault
        return SOUND

    cdef Fault begin(self, const uint8_t* header) noexcept nogil:
        """Read a header: whether a batch can begin with it."""
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
        return SOUND

    cdef Fault finish(self) noexcept nogil:
        """Judge a batch whose last byte has been read, and count it in."""
        cdef int64_t last = batch_last_offset(&self.info)
        if self.crc != self.info.crc:
            return BAD_CRC
        if (self.info.last_offset_delta < 0 or self.info.base_offset < self.next_offset
                or last < self.info.base_offset or last - self.base_offset > INT32_MAX):
            return BAD_OFFSETS
        if self.info.leader_epoch < self.epoch:
            return BAD_EPOCH
        self.accept(last)
        return SOUND

    cdef void accept(self, int64_t last) noexcept nogil:
        if self.first_offset < 0:
            self.first_offset = self.info.base_offset
        if self.is_behind_damage:
            self.sound_offset = self.info.base_offset
        self.gaps += self.info.base_offset > self.next_offset and not self.is_behind_damage
        index_check_batch(&self.indexes, &self.info, self.batch_position, self.is_behind_damage)
        self.is_behind_damage = False
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
        """Note what is wrong, and where to go on."""
        cdef int64_t position = self.batch_position, end, offset = self.next_offset
        cdef bint is_before = False
        self.left = 0
        if fault == BAD_OFFSETS or fault == BAD_EPOCH:
            end = position + <int64_t>self.info.size
            is_before = (
                self.before.position >= 0 and not self.is_behind_damage
                and self.info.last_offset_delta >= 0
                and self.info.base_offset >= self.before.next_offset
                and batch_last_offset(&self.info) - self.base_offset <= INT32_MAX
                and self.info.leader_epoch >= self.before.epoch)
            if is_before:
                # This batch follows on the one before the last: the last one is wrong.
                end, position, offset = position, self.before.position, self.before.next_offset
                self.next_offset, self.epoch = offset, self.before.epoch
                self.batches, self.records = self.batches - 1, self.before.records
        else:
            with nogil:
                end = self.next_sound(position)
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
        self.is_behind_damage = True
        reason = FAULT_TEXTS[fault]
        if self.damages and self.damages[-1].end_position == position:
            last = self.damages.pop()
            position, offset, reason = last.position, last.offset, last.reason
        if len(self.damages) >= DAMAGES_MAX:
            last = self.damages.pop()
            position, offset, reason = last.position, last.offset, last.reason
            self.is_cut_off = True
        self.damages.append(Damage(position, end, offset, -1, reason))
        return 0

    cdef int settle(self) except -1:
        """Write down where the last damage ends in offsets, if that is known by now."""
        if self.sound_offset >= 0:
            self.damages[-1] = self.damages[-1]._replace(end_offset=self.sound_offset)
        self.sound_offset = -1
        return 0

    cdef bint is_unwritten(self, int64_t position) noexcept:
        """Whether the end of the file from a position on is no damage: reserved, or being written.
        """
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
        """Judge what the file ends with: not even a header."""
        if self.skip_to < self.size and self.head_size > 0:
            self.head_size = 0
            self.judge(CUT_SHORT)
        self.settle()
        if not (self.is_behind_damage or self.is_active):
            index_check_end(&self.indexes)
        return 0

    # ---- behind a damage ----------------------------------------------------------------------

    cdef int64_t next_sound(self, int64_t position) noexcept nogil:
        """Where the first sound batch behind a position stands; the size when none does."""
        cdef uint8_t window[4096]
        cdef int64_t at = position + 1, end, limit = self.indexed_behind(position)
        cdef ssize_t size, place
        end = self.plausible_end(position)
        if end > 0 and self.is_sound(end):
            return end
        while at + BATCH_HEADER_SIZE <= self.size:
            if at > limit:
                limit = self.indexed_behind(at - 1)
            size = file_pread(self.fd, window, sizeof(window), at)
            if size < BATCH_HEADER_SIZE:
                break
            for place in range(size - BATCH_HEADER_SIZE + 1):
                if at + place > limit:
                    limit = self.indexed_behind(at + place - 1)
                if (window[place + 16] == 2 and self.may_begin(window + place, at + place)
                        and self.is_sound(at + place) and self.leads_to(at + place, limit)):
                    return at + place
            at += size - BATCH_HEADER_SIZE + 1
        return self.size

    cdef bint may_begin(self, const uint8_t* header, int64_t position) noexcept nogil:
        cdef int32_t length = load_int32(header + 8)
        cdef int64_t offset = load_int64(header)
        return (header[16] == 2 and length >= BATCH_HEADER_SIZE - BATCH_LENGTH_END
                and position + BATCH_LENGTH_END + length <= self.size
                and self.next_offset <= offset <= self.base_offset + INT32_MAX
                and load_int32(header + 23) >= 0)

    cdef int64_t plausible_end(self, int64_t position) noexcept nogil:
        """Where the batch at a position ends by its own word; -1 when that cannot be."""
        cdef uint8_t header[BATCH_HEADER_SIZE]
        cdef int32_t length
        if file_pread(self.fd, header, BATCH_HEADER_SIZE, position) < BATCH_HEADER_SIZE:
            return -1
        length = load_int32(header + 8)
        if length < BATCH_HEADER_SIZE - BATCH_LENGTH_END or length > BATCH_SIZE_MAX:
            return -1
        return position + BATCH_LENGTH_END + length

    cdef bint is_sound(self, int64_t position) noexcept nogil:
        """Whether the batch at a position has the right CRC; the end of the file is sound, too."""
        cdef uint8_t data[8192]
        cdef int64_t at, end
        cdef ssize_t size
        cdef uint32_t crc = 0, expected
        if position == self.size:
            return True
        if (position > self.size or file_pread(self.fd, data, BATCH_HEADER_SIZE, position)
                < BATCH_HEADER_SIZE or not self.may_begin(data, position)):
            return False
        end = position + BATCH_LENGTH_END + load_int32(data + 8)
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
        """Whether headers lead from a batch to exactly a position, or to reserved zeros."""
        cdef uint8_t header[BATCH_HEADER_SIZE]
        while position < limit:
            if file_pread(self.fd, header, BATCH_HEADER_SIZE, position) < BATCH_HEADER_SIZE:
                return False
            if not self.may_begin(header, position):
                return limit == self.size and load_int64(header) == 0 and (
                    load_int32(header + 8) == 0)
            position += BATCH_LENGTH_END + load_int32(header + 8)
        return position == limit

    cdef int64_t indexed_behind(self, int64_t position) noexcept nogil:
        """Where the next batch stands that the offset index names; the size without one."""
        cdef IndexedBatch named
        cdef uint8_t header[BATCH_HEADER_SIZE]
        cdef int64_t place = 0
        while index_check_ahead(&self.indexes, place, &named):
            if position < named.position < self.size and (
                    file_pread(self.fd, header, BATCH_HEADER_SIZE, named.position)
                    == BATCH_HEADER_SIZE
                    and self.may_begin(header, named.position)
                    and load_int64(header) + load_int32(header + 23) == named.last_offset):
                return named.position
            place += 1
        return self.size
