"""A connection's unsent output: bytes in memory and ranges of segment files, in order.

Successive replies share a chunk, so that all replies of a turn leave in one send. Ranges of files
are sent by sendfile: the kernel passes the page cache to the socket, without a copy in user space.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.errno cimport EAGAIN, EBADMSG, EINTR, EIO, ENODATA, ESTALE, EUCLEAN, errno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from broker._native.kernel.clock cimport monotonic_ns
from broker._native.kernel.file_ops cimport file_pread, file_table
from broker._native.log.open_files cimport OpenFile

from broker.model import limits

cdef extern from "sys/socket.h" nogil:
    ssize_t c_send "send"(int socket, const void* data, size_t size, int flags)
    int MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL

cdef int64_t SENDFILE_BYTES_MAX = limits.SENDFILE_BYTES_MAX


cdef OutputChunk* add_chunk(OutputQueue* queue, size_t capacity) noexcept:
    cdef OutputChunk* chunk = <OutputChunk*>calloc(1, sizeof(OutputChunk))
    if chunk == NULL:
        return NULL
    if capacity > 0:
        chunk.data = <uint8_t*>malloc(capacity)
        if chunk.data == NULL:
            free(chunk)
            return NULL
        chunk.capacity = <uint32_t>capacity
    if queue.tail == NULL:
        queue.head = chunk
    else:
        queue.tail.next = chunk
    queue.tail = chunk
    return chunk


cdef void queue_count_memory(OutputQueue* queue, int64_t change) noexcept:
    """Count memory of its connection's replies that is not in the queue any more."""
    queue.memory_bytes += change
    if queue.all_memory_bytes != NULL:
        queue.all_memory_bytes[0] += change


cdef uint8_t* queue_reserve(OutputQueue* queue, size_t size) noexcept:
    """Return space for `size` bytes at the end, to be filled and committed; NULL without memory."""
    cdef OutputChunk* chunk = queue.tail
    if chunk == NULL or chunk.data == NULL or chunk.capacity - chunk.size < size:
        chunk = add_chunk(queue, size if size > CHUNK_MIN else CHUNK_MIN)
        if chunk == NULL:
            return NULL
    return chunk.data + chunk.size


cdef void queue_commit(OutputQueue* queue, size_t size) noexcept:
    """Append the first `size` bytes of the last reservation to the queue."""
    queue.tail.size += <uint32_t>size
    queue.tail.left += <int64_t>size
    queue.bytes += <int64_t>size
    queue_count_memory(queue, <int64_t>size)


cdef int queue_file(OutputQueue* queue, PyObject* file, int fd, int64_t position,
                    int64_t size) noexcept:
    """Queue a range of a file, taking over the reference to its owner. Return -1 without memory."""
    cdef OutputChunk* chunk = add_chunk(queue, 0)
    if chunk == NULL:
        Py_XDECREF(file)
        return -1
    chunk.file = file
    chunk.fd = fd
    chunk.position = position
    chunk.left = size
    queue.bytes += size
    return 0


cdef void drop_head(OutputQueue* queue) noexcept:
    cdef OutputChunk* chunk = queue.head
    queue.head = chunk.next
    if queue.head == NULL:
        queue.tail = NULL
    Py_XDECREF(chunk.file)
    free(chunk.data)
    free(chunk)


cdef ssize_t send_chunk(OutputChunk* chunk, int socket) noexcept:
    # Bytes sent, or -errno.
    cdef ssize_t sent
    cdef int flags = MSG_DONTWAIT | MSG_NOSIGNAL
    if chunk.data == NULL:
        return file_table().send(
            socket, chunk.fd, chunk.position,
            <size_t>(chunk.left if chunk.left < SENDFILE_BYTES_MAX else SENDFILE_BYTES_MAX))
    if chunk.next != NULL:
        flags |= MSG_MORE
    sent = c_send(socket, chunk.data + chunk.size - chunk.left, <size_t>chunk.left, flags)
    return sent if sent >= 0 else -errno


cdef bint is_disk_error(ssize_t sent) noexcept nogil:
    # Whether sending a file failed because of the file and not of the socket: it ends before its
    # batches do, or its file system reports an error.
    return sent == 0 or sent in (-EIO, -EBADMSG, -ENODATA, -ESTALE, -EUCLEAN)


cdef SendStatus queue_send(
        OutputQueue* queue, int socket, int64_t budget, int64_t until_ns) noexcept:
    """Send until the queue is empty, the socket is full or the budget (bytes) is used up.

    Nothing is sent at `until_ns` (CLOCK_MONOTONIC) or later, which is compared before each system
    call: the process may be stopped between two of them. INT64_MAX: no limit.
    """
    cdef OutputChunk* chunk
    cdef ssize_t sent
    while queue.head != NULL:
        chunk = queue.head
        if chunk.left == 0:
            drop_head(queue)
            continue
        if budget <= 0:
            return SEND_BUDGET
        if until_ns != INT64_MAX and monotonic_ns() >= until_ns:
            return SEND_LATE
        sent = send_chunk(chunk, socket)
        if sent == -EINTR:
            continue
        if sent == -EAGAIN:
            return SEND_BLOCKED
        if sent <= 0:
            if chunk.file != NULL and is_disk_error(sent):
                (<OpenFile>chunk.file).error = <int>sent if sent < 0 else -EIO
            return SEND_FAILED
        budget -= sent
        take_from_head(queue, sent)
    return SEND_DONE


cdef void take_from_head(OutputQueue* queue, ssize_t size) noexcept:
    cdef OutputChunk* chunk = queue.head
    chunk.left -= size
    chunk.position += size
    queue.bytes -= size
    if chunk.data != NULL:
        queue_count_memory(queue, -size)
    if chunk.left == 0:
        drop_head(queue)


cdef ssize_t queue_gather(OutputQueue* queue, uint8_t* into, size_t size) noexcept:
    """Move the first bytes of the queue, of files too, to memory; return how many, -1 on failure.
    """
    cdef OutputChunk* chunk
    cdef ssize_t have = 0, count
    while queue.head != NULL and <size_t>have < size:
        chunk = queue.head
        count = <ssize_t>min(chunk.left, <int64_t>size - have)
        if count == 0:
            drop_head(queue)
            continue
        if chunk.data != NULL:
            memcpy(into + have, chunk.data + chunk.size - chunk.left, <size_t>count)
        else:
            count = file_pread(chunk.fd, into + have, <size_t>count, chunk.position)
            if count == -EINTR:
                continue
            if count <= 0:
                (<OpenFile>chunk.file).error = <int>count if count < 0 else -EIO
                return -1
        have += count
        take_from_head(queue, count)
    return have


cdef void queue_free(OutputQueue* queue) noexcept:
    """Drop everything that is queued."""
    while queue.head != NULL:
        drop_head(queue)
    queue.bytes = 0
    queue_count_memory(queue, -queue.memory_bytes)
