"""TLS of one connection: OpenSSL between the socket and the bytes that protocols see.

    recv -> scratch -> incoming (MemoryBIO) -> SSLObject.read -> the buffer that plain bytes take
    send <- unsent <- outgoing (MemoryBIO) <- SSLObject.write <- scratch <- OutputQueue, files

The native paths see the same bytes in the same buffers as without TLS. Bytes of files pass through
memory, since sendfile cannot encrypt them (kernel TLS: docs/security/tls.md).

Memory is bounded: a piece is received only when nothing of the one before is left to decrypt, and
encrypted only when the socket has taken the one before. OpenSSL's objects are made when the first
bytes arrive, so a silent connection costs as much as one without TLS. A first message that announces
more than TLS_CLIENT_HELLO_BYTES_MAX is refused before OpenSSL sees it.

The sizes of records are followed while they pass: an attempt to read a record that is not whole yet
would cost an exception of Python, as much as decrypting 8 KiB.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC

from broker._native.kernel.clock cimport clock_ms, monotonic_ns
from broker._native.wire.output_queue cimport (
    SEND_BLOCKED,
    SEND_BUDGET,
    SEND_DONE,
    SEND_FAILED,
    SEND_LATE,
    OutputQueue,
    SendStatus,
    queue_gather,
)

from ssl import MemoryBIO, SSLError, SSLWantReadError, SSLZeroReturnError

from broker.model import tls_limits

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int socket, void* into, size_t size, int flags)
    ssize_t c_send "send"(int socket, const void* data, size_t size, int flags)
    int MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL

cdef enum:
    RECORD_HANDSHAKE = 22
    CLIENT_HELLO = 1

cdef size_t PIECE_BYTES = tls_limits.TLS_PIECE_BYTES
cdef size_t HANDSHAKE_PIECE_BYTES = tls_limits.TLS_HANDSHAKE_PIECE_BYTES
cdef uint32_t CLIENT_HELLO_BYTES_MAX = tls_limits.TLS_CLIENT_HELLO_BYTES_MAX
# The fatal alert that Kafka answers bytes with that are not TLS: internal_error.
cdef bytes NO_TLS_ALERT = bytes([21, 3, 3, 0, 2, 2, 80])


@cython.final
cdef class TlsChannel:
    """The TLS of a connection."""

    def __cinit__(self, wrap, on_secured, on_failed=None, established=None):
        """Begin with a handshake, or with what was `established` elsewhere.

        Args:
            wrap: makes an SSLObject of two MemoryBIO objects, when the first bytes arrive.
            on_secured: called with the connection once its handshake is done.
            on_failed: called with the peer's host and the reason of a failed handshake.
            established: (SSLObject, incoming, outgoing) whose handshake is done.
        """
        self.wrap = wrap
        self.on_secured = on_secured
        self.on_failed = on_failed
        self.started_ms = clock_ms(CLOCK_MONOTONIC)
        if established is not None:
            self.ssl_object, self.incoming, self.outgoing = established
            self.is_established = True

    # ---- in -----------------------------------------------------------------------------------

    cdef int shake_hands(self, int fd, uint8_t* scratch):
        """Take one step of the handshake; return 0 when it is done, or a TlsStatus."""
        cdef ssize_t count
        if self.flush(fd, 0) < 0:
            return self.fail("reset by the peer")
        count = self.fetch(fd, scratch, HANDSHAKE_PIECE_BYTES)
        if count == TLS_FAILED:
            return TLS_FAILED
        if count == 0:
            return self.fail("closed during the TLS handshake")
        if count < 0:
            return TLS_AGAIN
        try:
            self.ssl_object.do_handshake()
        except SSLWantReadError:
            return TLS_AGAIN if self.flush(fd, 0) >= 0 else self.fail("reset by the peer")
        except SSLError as error:
            self.flush(fd, 0)      # the alert
            return self.fail(f"TLS handshake failed: {reason_of(error)}")
        self.is_established = True
        if self.flush(fd, 0) < 0:
            return self.fail("reset by the peer")
        return 0

    cdef ssize_t receive(self, int fd, uint8_t* into, size_t size, uint8_t* scratch):
        """Decrypt what has arrived; return how many bytes, 0 at the end, or a TlsStatus."""
        cdef size_t have = 0
        cdef ssize_t count = 1
        cdef bint is_drained = False
        while have < size and count > 0:
            if self.has_input():
                count = self.decrypt(into + have, size - have)
                if count > 0:
                    have += <size_t>count
                elif count == TLS_AGAIN:
                    count = 1       # a message of TLS itself
            elif is_drained:
                count = TLS_AGAIN
            else:
                count = self.fetch(fd, scratch, PIECE_BYTES)
                is_drained = 0 < count < <ssize_t>PIECE_BYTES
                if count == 0 and have == 0:
                    # Whoever cuts the connection could otherwise end a request early.
                    return self.fail("closed without an end of TLS")
        if self.outgoing.pending and self.flush(fd, 0) < 0:
            return self.fail("reset by the peer")
        return <ssize_t>have if have > 0 else count

    cdef ssize_t fetch(self, int fd, uint8_t* scratch, size_t size):
        # Receives ciphertext for OpenSSL: the bytes, 0 at the end of the connection, or a TlsStatus.
        cdef ssize_t count = recv(fd, scratch, size, MSG_DONTWAIT)
        if count < 0:
            if errno != EAGAIN and errno != EINTR:
                return self.fail("reset by the peer")
            return TLS_AGAIN
        if count == 0:
            return 0
        if self.first_size < FIRST_BYTES and not self.check_first(scratch, <size_t>count):
            c_send(fd, PyBytes_AS_STRING(NO_TLS_ALERT), 7, MSG_DONTWAIT | MSG_NOSIGNAL)
            return TLS_FAILED
        if self.ssl_object is None:
            self.incoming = MemoryBIO()
            self.outgoing = MemoryBIO()
            self.ssl_object = self.wrap(self.incoming, self.outgoing)
        self.note_records(scratch, <size_t>count)
        self.incoming.write(PyMemoryView_FromMemory(<char*>scratch, count, PyBUF_READ))
        return count

    cdef bint check_first(self, const uint8_t* data, size_t size):
        # Whether a connection begins as one of TLS, as far as it is known; otherwise it has failed.
        cdef size_t take = min(<size_t>(FIRST_BYTES - self.first_size), size)
        cdef uint32_t announced
        if self.is_established:
            self.first_size = FIRST_BYTES   # somewhere else
            return True
        memcpy(self.first + self.first_size, data, take)
        self.first_size += <int>take
        if self.first[0] != RECORD_HANDSHAKE or (self.first_size > 1 and self.first[1] != 3) or (
                self.first_size > 5 and self.first[5] != CLIENT_HELLO):
            self.fail("these are not the first bytes of TLS")
            return False
        if self.first_size < FIRST_BYTES:
            return True
        announced = (self.first[6] << 16) | (self.first[7] << 8) | self.first[8]
        if announced > CLIENT_HELLO_BYTES_MAX:
            self.fail(f"its first TLS message has {announced} bytes")
            return False
        return True

    cdef void note_records(self, const uint8_t* data, size_t size) noexcept:
        # Follows the records: how much of the last one, if it is not whole, has been received.
        cdef size_t take
        while size > 0:
            if self.body_left == 0:
                take = min(<size_t>(RECORD_HEAD_SIZE - self.head_size), size)
                memcpy(self.head + self.head_size, data, take)
                self.head_size += <uint32_t>take
                if self.head_size == RECORD_HEAD_SIZE:
                    self.body_left = (self.head[3] << 8) | self.head[4]
                    self.head_size = 0 if self.body_left == 0 else RECORD_HEAD_SIZE
            else:
                take = min(<size_t>self.body_left, size)
                self.body_left -= <uint32_t>take
                if self.body_left == 0:
                    self.head_size = 0
            data += take
            size -= take
        self.partial = self.head_size
        if self.body_left > 0:
            self.partial += ((self.head[3] << 8) | self.head[4]) - self.body_left

    cdef bint has_input(self):
        """Return whether `receive` would return something without a byte from the socket."""
        if self.has_failed or self.is_ended:
            return True
        return self.is_established and (
            <Py_ssize_t>self.incoming.pending > <Py_ssize_t>self.partial
            or <int>self.ssl_object.pending() > 0)

    cdef ssize_t decrypt(self, uint8_t* into, size_t size):
        cdef object count
        if self.has_failed:
            return TLS_FAILED
        if self.is_ended:
            return 0
        try:
            count = self.ssl_object.read(
                size, PyMemoryView_FromMemory(<char*>into, <Py_ssize_t>size, PyBUF_WRITE))
        except SSLWantReadError:
            self.partial = <uint32_t>self.incoming.pending
            return TLS_AGAIN
        except SSLZeroReturnError:
            count = 0
        except SSLError as error:
            return self.fail(f"TLS failed: {reason_of(error)}")
        if count == 0:
            self.is_ended = True
        return <ssize_t>count

    # ---- out ----------------------------------------------------------------------------------

    cdef bint has_unsent(self) noexcept:
        """Return whether ciphertext waits for the socket."""
        return self.unsent is not None

    cdef SendStatus send(
            self, OutputQueue* queue, int fd, int64_t budget, int64_t until_ns, uint8_t* scratch):
        """Encrypt and send as `queue_send` does; what is encrypted is not in the queue any more."""
        cdef ssize_t size
        cdef int sent
        while True:
            while self.unsent is not None:
                if until_ns != INT64_MAX and monotonic_ns() >= until_ns:
                    return SEND_LATE
                sent = self.flush(fd, MSG_MORE if queue.bytes > 0 and budget > 0 else 0)
                if sent < 0:
                    return SEND_FAILED
                if sent == 0:
                    return SEND_BLOCKED
            if queue.head == NULL:
                return SEND_DONE
            if budget <= 0:
                return SEND_BUDGET
            size = queue_gather(queue, scratch, PIECE_BYTES)
            if size < 0:
                return SEND_FAILED
            if size == 0:
                continue
            try:
                self.ssl_object.write(PyMemoryView_FromMemory(<char*>scratch, size, PyBUF_READ))
            except SSLError as error:
                self.fail(f"TLS failed: {reason_of(error)}")
                return SEND_FAILED
            budget -= size
            self.unsent = self.outgoing.read()
            self.unsent_at = 0

    cdef int flush(self, int fd, int flags):
        # Sends ciphertext once: 1 if none is left, 0 if the socket is full, -1 if it is gone.
        cdef ssize_t sent
        if self.unsent is None:
            if self.outgoing is None or not self.outgoing.pending:
                return 1
            self.unsent = self.outgoing.read()
            self.unsent_at = 0
        sent = c_send(
            fd, PyBytes_AS_STRING(self.unsent) + self.unsent_at,
            <size_t>(PyBytes_GET_SIZE(self.unsent) - self.unsent_at),
            MSG_DONTWAIT | MSG_NOSIGNAL | flags)
        if sent < 0:
            return 0 if errno == EAGAIN or errno == EINTR else -1
        self.unsent_at += sent
        if self.unsent_at < PyBytes_GET_SIZE(self.unsent):
            return 0
        self.unsent = None
        return 1

    cdef void finish(self, int fd):
        """Tell the peer that nothing follows, if the socket takes that at once."""
        if not self.is_established or self.has_failed or self.unsent is not None:
            return
        try:
            self.ssl_object.unwrap()
        except SSLError:
            pass        # the peer has not answered it, which nobody waits for
        self.flush(fd, 0)

    cdef int fail(self, str reason):
        # Notes the first reason; everything that is called later fails, too.
        if not self.has_failed:
            self.reason = reason
            self.has_failed = True
        return TLS_FAILED


cdef str reason_of(error):
    # OpenSSL's reason, such as "certificate verify failed: certificate has expired".
    cdef str detail = getattr(error, "verify_message", "") or ""
    cdef str reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{reason}: {detail}" if detail else reason
