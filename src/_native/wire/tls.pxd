from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.wire.output_queue cimport OutputQueue, SendStatus

cdef enum TlsStatus:              # negative: what `receive` and `shake_hands` return beside counts
    TLS_AGAIN = -1                # nothing more now
    TLS_FAILED = -2               # the connection is over, for the channel's `reason`

cdef enum:
    FIRST_BYTES = 9               # of a connection: a record's header and that of its message
    RECORD_HEAD_SIZE = 5


cdef class TlsChannel:
    cdef object wrap              # called with two MemoryBIO objects for an SSLObject
    cdef object on_secured        # called with the connection once its handshake is done
    cdef object on_failed         # called with the peer's host and a reason; None: not
    cdef readonly object ssl_object
    cdef object incoming          # ciphertext that OpenSSL has not read
    cdef object outgoing          # ciphertext to be sent
    cdef readonly bint is_established
    cdef readonly str reason      # why it has failed
    cdef bint has_failed
    cdef bint is_ended            # the peer has sent its close_notify
    cdef readonly int64_t started_ms
    cdef uint8_t first[FIRST_BYTES]
    cdef int first_size
    cdef uint8_t head[RECORD_HEAD_SIZE]  # of the record whose first bytes were received last
    cdef uint32_t head_size
    cdef uint32_t body_left       # bytes of its body that are still to come
    cdef uint32_t partial         # bytes of that record in `incoming`; 0: the last one is whole
    cdef uint32_t dataless        # whole records that have given no data yet
    cdef int64_t data_bytes       # of data, since these were forgotten last
    cdef readonly uint32_t opened  # records that the last call of `receive` has opened
    cdef uint8_t* held            # ciphertext that is given to OpenSSL later; NULL: none
    cdef size_t held_at           # where what was not given begins
    cdef size_t held_size
    cdef list unsent              # bytes objects: ciphertext that the socket has not taken
    cdef ssize_t counted          # bytes of it in the memory that the output queue counts
    cdef Py_ssize_t unsent_at     # in the first of them

    cdef int shake_hands(self, int fd, uint8_t* scratch)
    cdef ssize_t receive(
        self, int fd, uint8_t* into, size_t size, uint8_t* scratch, bint is_sparing)
    cdef SendStatus send(
        self, OutputQueue* queue, int fd, int64_t budget, int64_t until_ns, uint8_t* scratch)
    cdef bint has_input(self)
    cdef bint can_open(self)
    cdef bint has_unsent(self) noexcept
    cdef void finish(self, int fd)
    cdef ssize_t take_in(self, int fd, uint8_t* scratch, size_t size)
    cdef size_t give(self, uint8_t* data, size_t size)
    cdef bint hold(self, const uint8_t* data, size_t size)
    cdef void give_held(self)
    cdef void drop_held(self) noexcept
    cdef int seal(self, uint8_t* data, ssize_t size)
    cdef bint check_first(self, const uint8_t* data, size_t size)
    cdef size_t note_records(self, const uint8_t* data, size_t size) noexcept
    cdef ssize_t decrypt(self, uint8_t* into, size_t size)
    cdef ssize_t flush(self, int fd, int flags)
    cdef int fail(self, str reason)
