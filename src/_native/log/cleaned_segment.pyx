"""The segment that a compaction writes: a log file and its two indexes, under names of its own.

    <base offset>.log.cleaned   .index.cleaned   .timeindex.cleaned

The formats are those of `offset_index`, an entry per interval and, last of all, the largest
timestamp. A file is written even if it has no entry: it replaces an older one.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport ENOENT
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from posix.fcntl cimport O_CREAT, O_EXCL, O_RDWR

import os

from cython cimport final

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.file_ops cimport (
    file_close, file_open, file_pwrite, file_remove, file_sync,
)
from broker._native.log.offset_index cimport (
    OffsetIndex, index_append, index_free, index_init, index_is_full, index_store,
)
from broker._native.records.record_batch cimport (
    BATCH_OK, BatchInfo, batch_header, batch_last_offset,
)

from broker.model.errors import LimitExceeded, StorageError


cdef int64_t must(int64_t result, str operation, bytes path) except -1:
    if result < 0:
        raise StorageError(f"{operation} {os.fsdecode(path)}: {os.strerror(-result)}") from OSError(
            -result, os.strerror(-result))
    return result


@final
cdef class CleanedSegment:
    """Takes whole batches in order; leftovers of the same name are removed first."""

    cdef readonly int64_t base_offset
    cdef readonly int64_t size
    cdef readonly int64_t max_timestamp
    cdef int32_t interval
    cdef int64_t bytes_since_entry
    cdef int64_t max_timestamp_offset, last_offset, last_position
    cdef OffsetIndex index
    cdef int fd
    cdef bytes log_path, index_path, time_path

    def __cinit__(self, folder, int64_t base_offset, int32_t index_interval_bytes):
        index_init(&self.index)
        self.fd = -1
        stem = os.path.join(os.fsencode(folder), b"%020d" % base_offset)
        self.log_path = stem + b".log.cleaned"
        self.index_path = stem + b".index.cleaned"
        self.time_path = stem + b".timeindex.cleaned"
        self.base_offset = self.max_timestamp_offset = self.last_offset = base_offset
        self.interval = index_interval_bytes
        self.max_timestamp = -1
        for path in (self.index_path, self.time_path):
            must(file_close(self.create(path)), "close", path)
        self.fd = self.create(self.log_path)

    def __dealloc__(self):
        if self.fd >= 0:
            file_close(self.fd)
        index_free(&self.index)

    cdef int create(self, bytes path) except -1:
        """Create a new file that nothing else has open and return its descriptor."""
        cdef int removed = file_remove(path)
        if removed != -ENOENT:
            must(removed, "remove", path)
        return <int>must(file_open(path, O_RDWR | O_CREAT | O_EXCL, 0o600), "open", path)

    def append(self, batches):
        """Write whole batches after those already written.

        Raises:
            LimitExceeded: a position or an offset is beyond what an index can hold.
            StorageError: the disk failed.
        """
        cdef Py_buffer view
        cdef ssize_t written
        PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE)
        try:
            if self.size + view.len > INT32_MAX:
                raise LimitExceeded(f"a segment of {self.size + view.len} bytes")
            with nogil:
                written = file_pwrite(self.fd, view.buf, <size_t>view.len, self.size)
            must(written, "write", self.log_path)
            self.note(<const uint8_t*>view.buf, <size_t>view.len)
        finally:
            PyBuffer_Release(&view)

    cdef int note(self, const uint8_t* data, size_t size) except -1:
        """Update the counters for these batches, and add an index entry per interval."""
        cdef Cursor cursor
        cdef BatchInfo info
        cursor.next = data
        cursor.left = size
        while batch_header(&cursor, &info) == BATCH_OK:
            if batch_last_offset(&info) - self.base_offset > INT32_MAX:
                raise LimitExceeded(f"offset {batch_last_offset(&info)} in a segment from "
                                    f"{self.base_offset} on")
            self.last_offset = batch_last_offset(&info)
            self.last_position = self.size
            if info.max_timestamp > self.max_timestamp:
                self.max_timestamp = info.max_timestamp
                self.max_timestamp_offset = self.last_offset
            if self.bytes_since_entry > self.interval:
                self.add_entry()
            self.bytes_since_entry += <int64_t>info.size
            self.size += <int64_t>info.size
        return 0

    cdef int add_entry(self) except -1:
        if index_is_full(&self.index):
            must(index_store(&self.index, self.index_path, self.time_path), "write",
                 self.index_path)
        index_append(&self.index, <int32_t>(self.last_offset - self.base_offset),
                     <unsigned int>self.last_position, self.max_timestamp,
                     <int32_t>(self.max_timestamp_offset - self.base_offset))
        self.bytes_since_entry = 0
        return 0

    def finish(self):
        """Complete the indexes and sync the files; the caller renames them."""
        cdef int fd
        if self.max_timestamp > self.index.last_timestamp:
            self.add_entry()
        must(index_store(&self.index, self.index_path, self.time_path), "write", self.index_path)
        for path in (self.index_path, self.time_path):
            self.sync_and_close(<int>must(file_open(path, O_RDWR, 0), "open", path), path)
        fd, self.fd = self.fd, -1
        self.sync_and_close(fd, self.log_path)

    cdef int sync_and_close(self, int fd, bytes path) except -1:
        cdef int synced, closed
        with nogil:
            synced = file_sync(fd)
            closed = file_close(fd)
        must(synced, "sync", path)
        return <int>must(closed, "close", path)

    def discard(self):
        """Remove the files: compaction left no record of the segment, or changed nothing."""
        if self.fd >= 0:
            file_close(self.fd)
            self.fd = -1
        for path in (self.log_path, self.index_path, self.time_path):
            must(file_remove(path), "remove", path)
