from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t

# Either bytes in memory or a range of a segment file.
cdef struct OutputChunk:
    OutputChunk* next
    uint8_t* data             # NULL for a file range
    uint32_t size
    uint32_t capacity
    PyObject* file            # owned: keeps `fd` open
    int fd
    int64_t position
    int64_t left              # bytes not sent yet, of either kind

cdef struct OutputQueue:
    OutputChunk* head
    OutputChunk* tail
    int64_t bytes             # unsent
    int64_t memory_bytes      # part of `bytes`: in memory
    int64_t* all_memory_bytes  # sum over the queues that share a limit; NULL: none

cdef enum:
    CHUNK_MIN = 4096          # capacity of a chunk of replies, unless its first reply is larger

cdef enum SendStatus:
    SEND_DONE                 # the queue is empty
    SEND_BLOCKED              # the socket takes no more now
    SEND_BUDGET               # the budget is used up
    SEND_LATE                 # `until_ns` has passed
    SEND_FAILED               # the connection is gone, or the file cannot be read


cdef uint8_t* queue_reserve(OutputQueue* queue, size_t size) noexcept
cdef void queue_commit(OutputQueue* queue, size_t size) noexcept
cdef int queue_file(
    OutputQueue* queue, PyObject* file, int fd, int64_t position, int64_t size) noexcept
cdef SendStatus queue_send(
    OutputQueue* queue, int socket, int64_t budget, int64_t until_ns) noexcept
cdef ssize_t queue_gather(OutputQueue* queue, uint8_t* into, size_t size) noexcept
cdef void queue_count_memory(OutputQueue* queue, int64_t change) noexcept
cdef void queue_free(OutputQueue* queue) noexcept
