"""TLS of one connection: OpenSSL between the socket and the bytes that protocols see.

    recv -> scratch -> incoming (MemoryBIO) -> SSLObject.read -> the buffer that plain bytes take
    sendmsg <- unsent <- outgoing (MemoryBIO) <- SSLObject.write <- scratch <- OutputQueue, files

The native paths see the same bytes in the same buffers as without TLS. Bytes of files pass through
memory, since sendfile cannot encrypt them (kernel TLS: docs/security/tls.md).

Memory is bounded: a piece is received only when nothing of the one before is left to decrypt, and
encrypted only when the socket has taken the one before. OpenSSL's objects are made when the first
bytes arrive, so a silent connection costs as much as one without TLS. A first message that
announces more than TLS_CLIENT_HELLO_BYTES_MAX is refused before OpenSSL sees it.

The sizes of records are followed while they pass: an attempt to read a record that is not whole yet
would cost an exception of Python, as much as decrypting 8 KiB. And so are those without data, which
a peer could send for ever: a call receives as much as it was asked for, whatever comes of it, and
too many of them in a row end the connection.

Opening a record takes as long for one byte as for hundreds, and a piece may have thousands of them:
a call opens TLS_RECORDS_PER_READ at most. What it has received besides is held for the next ones,
by a few connections at once; while there are as many of them as may be, others receive no more at a
time than what is opened in one call.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
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
    queue_count_memory,
    queue_gather,
)

from ssl import MemoryBIO, SSLError, SSLWantReadError, SSLZeroReturnError

from broker.model import tls_limits

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int socket, void* into, size_t size, int flags)
    ssize_t c_send "send"(int socket, const void* data, size_t size, int flags)
    struct iovec:
        void* iov_base
        size_t iov_len
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int socket, const msghdr* message, int flags)
    int MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL

cdef enum:
    PARTS_MAX = 16                  # bytes objects in one system call
    RECORD_HANDSHAKE = 22
    CLIENT_HELLO = 1

cdef size_t SCRATCH_BYTES = tls_limits.TLS_SCRATCH_BYTES
cdef size_t PIECE_BYTES = tls_limits.TLS_PIECE_BYTES
cdef size_t HANDSHAKE_PIECE_BYTES = tls_limits.TLS_HANDSHAKE_PIECE_BYTES
cdef uint32_t RECORDS_PER_PIECE = tls_limits.TLS_RECORDS_PER_PIECE
cdef uint32_t RECORDS_PER_READ = tls_limits.TLS_RECORDS_PER_READ
cdef size_t SHORT_PIECE_BYTES = tls_limits.TLS_SHORT_PIECE_BYTES
cdef int HOLDING_MAX = tls_limits.TLS_HOLDING_MAX
cdef uint32_t RECORDS_WITHOUT_DATA_MAX = tls_limits.TLS_RECORDS_WITHOUT_DATA_MAX
cdef int64_t RECORDS_WITHOUT_DATA_BYTES = tls_limits.TLS_RECORDS_WITHOUT_DATA_BYTES
cdef uint32_t CLIENT_HELLO_BYTES_MAX = tls_limits.TLS_CLIENT_HELLO_BYTES_MAX
# What is answered to bytes that are not TLS: the fatal alert internal_error.
cdef bytes NO_TLS_ALERT = bytes([21, 3, 3, 0, 2, 2, 80])

cdef int holding = 0                # channels that hold ciphertext


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
        self.unsent = []
        if established is not None:
            self.ssl_object, self.incoming, self.outgoing = established
            self.is_established = True

    def __dealloc__(self):
        self.drop_held()

    # ---- in -----------------------------------------------------------------------------------

    cdef int shake_hands(self, int fd, uint8_t* scratch):
        """Take one step of the handshake; return 0 when it is done, or a TlsStatus."""
        cdef ssize_t count
        cdef size_t given = 0
        if self.flush(fd, 0) < 0:
            return self.fail("reset by the peer")
        count = self.take_in(fd, scratch, HANDSHAKE_PIECE_BYTES)
        if count == TLS_FAILED:
            return TLS_FAILED
        if count == 0:
            return self.fail("closed during the TLS handshake")
        if count < 0:
            return TLS_AGAIN
        while given < <size_t>count:
            given += self.give(scratch + given, <size_t>count - given)
        try:
            self.ssl_object.do_handshake()
        except SSLWantReadError:
            return TLS_AGAIN if self.flush(fd, 0) >= 0 else self.fail("reset by the peer")
        except SSLError as error:
            self.flush(fd, 0)      # the alert
            return self.fail(f"TLS handshake failed: {reason_of(error)}")
        self.is_established = True
        self.dataless = 0
        if self.flush(fd, 0) < 0:
            return self.fail("reset by the peer")
        return 0

    cdef ssize_t receive(
            self, int fd, uint8_t* into, size_t size, uint8_t* scratch, bint is_sparing):
        """Decrypt what has arrived; return how many bytes, 0 at the end, or a TlsStatus.

        With `is_sparing` OpenSSL is given as little at a time as in a handshake: it keeps memory
        for the most that it was ever given.
        """
        cdef size_t piece_max = HANDSHAKE_PIECE_BYTES if is_sparing else PIECE_BYTES
        cdef size_t have = 0, given = 0, received = 0, total = 0, piece
        cdef ssize_t count = 1
        cdef bint is_drained = False
        self.opened = 0
        while have < size and count > 0:
            if self.opened == RECORDS_PER_READ:
                count = TLS_AGAIN
            elif self.can_open():
                self.opened += 1
                count = self.decrypt(into + have, size - have)
                if count > 0:
                    have += <size_t>count
                elif count == TLS_AGAIN:
                    count = 1       # a message of TLS itself
            elif self.dataless > RECORDS_WITHOUT_DATA_MAX:     # of all that was given
                count = self.fail("sends TLS records without data")
            elif self.held != NULL:
                self.give_held()
            elif given < received:
                given += self.give(scratch + given, min(piece_max, received - given))
            elif is_drained or total >= size or (self.opened > 0 and holding >= HOLDING_MAX):
                count = TLS_AGAIN
            else:
                # What is received fits into what is asked for, as the plaintext is shorter.
                piece = min(SCRATCH_BYTES, max(size - have, piece_max))
                if holding >= HOLDING_MAX:
                    piece = min(piece, SHORT_PIECE_BYTES)
                count = self.take_in(fd, scratch, piece)
                is_drained = 0 < count < <ssize_t>piece
                given = 0
                received = <size_t>max(count, 0)
                total += received
                if count == 0 and have == 0:
                    # Whoever cuts the connection could otherwise end a request early.
                    return self.fail("closed without an end of TLS")
        if given < received and self.opened < RECORDS_PER_READ:
            given += self.give(scratch + given, received - given)
        if given < received and not self.hold(scratch + given, received - given):
            return self.fail("no memory for its records")
        if self.outgoing.pending and self.flush(fd, 0) < 0:
            return self.fail("reset by the peer")
        return <ssize_t>have if have > 0 else count

    cdef ssize_t take_in(self, int fd, uint8_t* scratch, size_t size):
        # Receives ciphertext: how many bytes, 0 at the end, or a TlsStatus.
        cdef ssize_t count = recv(fd, scratch, size, MSG_DONTWAIT)
        if count < 0:
            if errno != EAGAIN and errno != EINTR:
                return self.fail("reset by the peer")
            return TLS_AGAIN
        if count > 0 and self.first_size < FIRST_BYTES and not self.check_first(
                scratch, <size_t>count):
            c_send(fd, PyBytes_AS_STRING(NO_TLS_ALERT), 7, MSG_DONTWAIT | MSG_NOSIGNAL)
            return TLS_FAILED
        return count

    cdef size_t give(self, uint8_t* data, size_t size):
        # Gives ciphertext to OpenSSL, RECORDS_PER_PIECE at most; returns how many bytes.
        if self.ssl_object is None:
            self.incoming = MemoryBIO()
            self.outgoing = MemoryBIO()
            self.ssl_object = self.wrap(self.incoming, self.outgoing)
        size = self.note_records(data, size)
        self.incoming.write(PyMemoryView_FromMemory(<char*>data, <Py_ssize_t>size, PyBUF_READ))
        return size

    cdef bint hold(self, const uint8_t* data, size_t size):
        # Keeps ciphertext for the next calls; False without memory.
        global holding
        self.held = <uint8_t*>malloc(size)
        if self.held == NULL:
            return False
        holding += 1
        memcpy(self.held, data, size)
        self.held_at = 0
        self.held_size = size
        return True

    cdef void give_held(self):
        # Gives OpenSSL some of what is held.
        self.held_at += self.give(self.held + self.held_at, self.held_size - self.held_at)
        if self.held_at == self.held_size:
            self.drop_held()

    cdef void drop_held(self) noexcept:
        global holding
        if self.held != NULL:
            free(self.held)
            self.held = NULL
            holding -= 1

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

    cdef size_t note_records(self, const uint8_t* data, size_t size) noexcept:
        # Follows the records: how much of the last one, if it is not whole, has been received.
        # Returns the size of these bytes without what comes after RECORDS_PER_PIECE.
        cdef size_t take, given = size
        cdef uint32_t whole = 0
        while size > 0 and whole < RECORDS_PER_PIECE:
            if self.body_left == 0:
                take = min(<size_t>(RECORD_HEAD_SIZE - self.head_size), size)
                memcpy(self.head + self.head_size, data, take)
                self.head_size += <uint32_t>take
                if self.head_size == RECORD_HEAD_SIZE:
                    self.body_left = (self.head[3] << 8) | self.head[4]
                    if self.body_left == 0:
                        self.head_size = 0
                        whole += 1
            else:
                take = min(<size_t>self.body_left, size)
                self.body_left -= <uint32_t>take
                if self.body_left == 0:
                    self.head_size = 0
                    whole += 1
            data += take
            size -= take
        self.partial = self.head_size
        if self.body_left > 0:
            self.partial += ((self.head[3] << 8) | self.head[4]) - self.body_left
        self.dataless += whole
        return given - size

    cdef bint has_input(self):
        """Return whether `receive` would return something without a byte from the socket."""
        return self.held != NULL or self.can_open()

    cdef bint can_open(self):
        # Whether OpenSSL has a whole record, or the connection is over.
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
        elif self.dataless > 0:
            self.dataless -= 1
        self.data_bytes += count
        if self.data_bytes > RECORDS_WITHOUT_DATA_BYTES:
            self.data_bytes = self.dataless = 0
        return <ssize_t>count

    # ---- out ----------------------------------------------------------------------------------

    cdef bint has_unsent(self) noexcept:
        """Return whether ciphertext waits for the socket."""
        return len(self.unsent) > 0

    cdef SendStatus send(
            self, OutputQueue* queue, int fd, int64_t budget, int64_t until_ns, uint8_t* scratch):
        """Encrypt and send as `queue_send` does.

        What is encrypted is not in the queue any more, but in the memory that it counts.
        """
        cdef ssize_t size, sent
        while True:
            while self.unsent:
                if until_ns != INT64_MAX and monotonic_ns() >= until_ns:
                    return SEND_LATE
                sent = self.flush(fd, MSG_MORE if queue.bytes > 0 and budget > 0 else 0)
                if sent < 0:
                    return SEND_FAILED
                if sent == 0:
                    return SEND_BLOCKED
                sent = min(sent, self.counted)      # a handshake's is not counted
                self.counted -= sent
                queue_count_memory(queue, -sent)
            if queue.head == NULL:
                return SEND_DONE
            if budget <= 0:
                return SEND_BUDGET
            size = queue_gather(queue, scratch, SCRATCH_BYTES)
            if size < 0:
                return SEND_FAILED
            budget -= size
            size = self.seal(scratch, size)
            if size < 0:
                return SEND_FAILED
            self.counted += size
            queue_count_memory(queue, size)

    cdef int seal(self, uint8_t* data, ssize_t size):
        # Encrypts; returns how many bytes of ciphertext that makes, or a TlsStatus.
        cdef ssize_t at = 0, piece
        cdef int made = 0
        cdef bytes sealed
        while at < size:
            piece = min(<ssize_t>PIECE_BYTES, size - at)
            try:
                self.ssl_object.write(
                    PyMemoryView_FromMemory(<char*>data + at, piece, PyBUF_READ))
            except SSLError as error:
                return self.fail(f"TLS failed: {reason_of(error)}")
            sealed = self.outgoing.read()
            self.unsent.append(sealed)
            made += <int>PyBytes_GET_SIZE(sealed)
            at += piece
        return made

    cdef ssize_t flush(self, int fd, int flags):
        # Sends ciphertext once: how many bytes; 0 if the socket is full or none is there, < 0 if it
        # is gone.
        cdef iovec parts[PARTS_MAX]
        cdef msghdr message
        cdef ssize_t sent, left
        cdef int count = 0
        cdef bytes sealed
        if not self.unsent and self.outgoing is not None and self.outgoing.pending:
            self.unsent.append(self.outgoing.read())
        if not self.unsent:
            return 0
        memset(&message, 0, sizeof(message))
        for sealed in self.unsent:
            if count == PARTS_MAX:
                break
            parts[count].iov_base = PyBytes_AS_STRING(sealed)
            parts[count].iov_len = <size_t>PyBytes_GET_SIZE(sealed)
            count += 1
        parts[0].iov_base = <char*>parts[0].iov_base + self.unsent_at
        parts[0].iov_len -= <size_t>self.unsent_at
        message.msg_iov = parts
        message.msg_iovlen = <size_t>count
        sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | flags)
        if sent < 0:
            return 0 if errno == EAGAIN or errno == EINTR else -1
        left = sent + self.unsent_at
        count = 0
        for sealed in self.unsent:
            if left < PyBytes_GET_SIZE(sealed):
                break
            left -= PyBytes_GET_SIZE(sealed)
            count += 1
        del self.unsent[:count]
        self.unsent_at = left
        return sent

    cdef void finish(self, int fd):
        """Tell the peer that nothing follows, if the socket takes that at once."""
        self.drop_held()
        if not self.is_established or self.has_failed or self.unsent:
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
