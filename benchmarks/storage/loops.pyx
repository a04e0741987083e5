# cython: boundscheck=False, wraparound=False
"""The loops of the storage benchmarks and the floors, without the cost of Python."""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from broker._native.log.offset_index cimport (
    OffsetIndex,
    index_append,
    index_entries,
    index_floor_offset,
    index_free,
    index_init,
    index_is_full,
    index_free_tail,
    index_load,
    index_store,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport LOG_OK, LogStatus, Turn
from broker._native.records.record_batch cimport (
    BATCH_OK,
    BatchInfo,
    BatchStatus,
    batch_validate,
)

import array
import os


cdef extern from "<time.h>" nogil:
    ctypedef int clockid_t
    struct timespec:
        int64_t tv_sec
        int64_t tv_nsec
    clockid_t CLOCK_MONOTONIC
    clockid_t CLOCK_THREAD_CPUTIME_ID
    clockid_t CLOCK_PROCESS_CPUTIME_ID
    int clock_gettime(clockid_t clock, timespec* now)

cdef extern from "floors.h" nogil:
    ctypedef struct FloorLoad:
        const uint8_t* batches
        size_t size
        size_t distinct
        size_t count
        size_t per_turn

    ctypedef struct FloorCost:
        int64_t thread_ns
        int64_t process_ns

    int floor_memory(const FloorLoad* load, FloorCost* cost)
    int floor_pwrite(const FloorLoad* load, int fd, FloorCost* cost)
    int floor_staged(const FloorLoad* load, int fd, FloorCost* cost)
    int floor_mapped(const FloorLoad* load, int fd, FloorCost* cost)

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int fd, void* into, size_t size, int64_t position)

cdef extern from "<stdio.h>" nogil:
    int sscanf(const char* text, const char* format, ...)

cdef extern from "kernel/crc32c_hardware.h" nogil:
    void crc32c_init()

crc32c_init()


cdef int64_t clock_ns(clockid_t clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


def moment(int schedstat):
    """Return (monotonic, this thread's processor time, its time without a core), in ns.

    `schedstat` is /proc/thread-self/schedstat. The GIL is held, because acquiring it again may take
    long.
    """
    cdef char text[128]
    cdef long long busy = 0, waited = 0
    cdef ssize_t size = pread(schedstat, text, sizeof(text) - 1, 0)
    text[size if size > 0 else 0] = 0
    sscanf(text, b"%lld %lld", &busy, &waited)
    return clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID), waited


def append(PartitionLog log, bytearray batches, Py_ssize_t size, Py_ssize_t count,
           Py_ssize_t per_turn):
    """Validate and append `count` batches, ending a turn after each `per_turn` of them.

    Returns (CPU ns of this thread, of the process). With group-commit the sync thread runs all the
    time; its results are collected at the end of each turn.
    """
    cdef Turn turn = log.turn
    cdef Py_ssize_t i, place = 0
    cdef uint8_t* batch
    cdef BatchInfo info
    cdef BatchStatus checked
    cdef LogStatus status
    cdef int64_t base_offset = 0
    cdef int64_t process_ns = -clock_ns(CLOCK_PROCESS_CPUTIME_ID)
    cdef int64_t thread_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID)
    for i in range(count):
        batch = <uint8_t*>PyByteArray_AS_STRING(batches) + place
        place += size
        if place >= PyByteArray_GET_SIZE(batches):
            place = 0
        checked = batch_validate(batch, size, &info)
        if checked != BATCH_OK:
            raise ValueError(f"batch refused: {checked}")
        status = log.append_batch(batch, &info, &base_offset)
        if status != LOG_OK:
            raise OSError(f"append refused: {status}")
        if (i + 1) % per_turn == 0:
            turn.flush()
            if log.is_group_commit:
                turn.take_synced()
    turn.flush()
    thread_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID)
    process_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID)
    return thread_ns, process_ns


def check(bytearray batches, Py_ssize_t size, Py_ssize_t count):
    """Only validate the batches, as `append` does. Returns (CPU ns of this thread, the same)."""
    cdef Py_ssize_t _i, place = 0
    cdef BatchInfo info
    cdef int64_t thread_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID)
    for _i in range(count):
        if batch_validate(<uint8_t*>PyByteArray_AS_STRING(batches) + place, size,
                          &info) != BATCH_OK:
            raise ValueError("batch refused")
        place += size
        if place >= PyByteArray_GET_SIZE(batches):
            place = 0
    thread_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID)
    return thread_ns, thread_ns


def floor(str name, int fd, bytearray batches, Py_ssize_t size, Py_ssize_t count,
          Py_ssize_t per_turn):
    """Run one of the floors, "memory", "pwrite", "staged" or "mapped", on an empty file.

    Returns (CPU ns of this thread, of the process).
    """
    cdef FloorLoad load
    cdef FloorCost cost
    cdef int result
    load.batches = <const uint8_t*>PyByteArray_AS_STRING(batches)
    load.size = <size_t>size
    load.distinct = <size_t>(PyByteArray_GET_SIZE(batches) // size)
    load.count = <size_t>count
    load.per_turn = <size_t>per_turn
    if name == "memory":
        result = floor_memory(&load, &cost)
    elif name == "pwrite":
        result = floor_pwrite(&load, fd, &cost)
    elif name == "staged":
        result = floor_staged(&load, fd, &cost)
    elif name == "mapped":
        result = floor_mapped(&load, fd, &cost)
    else:
        raise ValueError(name)
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return cost.thread_ns, cost.process_ns


def read_at_random(Py_ssize_t places, Py_ssize_t count):
    """Follow a random cycle of 8-byte indexes; returns CPU ns of this thread."""
    cdef array.array order = array.array("q", bytes(8 * places))
    cdef long long* next_place = order.data.as_longlongs
    cdef int64_t place = 0, i, _i, other, seed = 1
    cdef int64_t thread_ns
    for i in range(places):
        next_place[i] = i
    for i in range(places - 1, 0, -1):   # Sattolo: one cycle through all of them
        seed = (seed * 1103515245 + 12345) & 0x7fffffff
        other = seed % i
        next_place[i], next_place[other] = next_place[other], next_place[i]
    thread_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID)
    for _i in range(count):
        place = next_place[place]
    thread_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID)
    return thread_ns if place >= 0 else 0


cdef class Index:
    """The index of one segment, its files in a folder."""

    cdef OffsetIndex index
    cdef bytes offset_path
    cdef bytes time_path

    def __cinit__(self, str folder):
        index_init(&self.index)
        self.offset_path = os.fsencode(os.path.join(folder, "00000000000000000000.index"))
        self.time_path = os.fsencode(os.path.join(folder, "00000000000000000000.timeindex"))

    def __dealloc__(self):
        index_free(&self.index)

    def fill(self, const int32_t[::1] offsets, uint32_t step):
        """Add an entry per offset, `step` bytes apart, and store all of them."""
        cdef Py_ssize_t i
        for i in range(offsets.shape[0]):
            if index_is_full(&self.index):
                self.store()
            index_append(&self.index, offsets[i], <uint32_t>i * step, i, offsets[i])
        self.store()
        index_free_tail(&self.index)
        return index_entries(&self.index)

    cdef store(self):
        cdef int status = index_store(&self.index, self.offset_path, self.time_path)
        if status < 0:
            raise OSError(-status, os.strerror(-status))

    def load(self):
        """Read the entries into memory, as is done for an index that is searched often."""
        return index_load(&self.index, self.offset_path)

    def look_up(self, const int32_t[::1] offsets):
        """Look all of these up; returns (CPU ns of this thread, sum of the positions)."""
        cdef Py_ssize_t i
        cdef int64_t total = 0
        cdef int32_t indexed = -1
        cdef const char* path = self.offset_path
        cdef int64_t thread_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID)
        for i in range(offsets.shape[0]):
            total += index_floor_offset(&self.index, path, offsets[i], &indexed)
        return thread_ns + clock_ns(CLOCK_THREAD_CPUTIME_ID), total
