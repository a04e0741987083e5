"""V1: a request is a line, and its answer is a line.

PRODUCE and CONSUME are served natively in the form that programs send (line, produce, consume),
everything else by Python.

A line may have 65,535 bytes before its newline, as many as the original's buffer of 64 KiB held. A
longer one closes the connection without an answer, after the answers to the lines before it. The
last line before EOF needs no newline.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memchr

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.growing cimport text_trim
from broker._native.protocols.v1.consume cimport ConsumeReader
from broker._native.protocols.v1.line cimport (
    COMMAND_CONSUME,
    COMMAND_PRODUCE,
    Command,
    Line,
    line_read,
)
from broker._native.protocols.v1.produce cimport Refusal, v1_produce
from broker._native.wire.connection cimport (
    VERDICT_MORE,
    VERDICT_NO,
    VERDICT_YES,
    Connection,
    NativeProtocol,
    Verdict,
)
from broker._native.wire.epoll cimport EPOLLIN, EPOLLRDHUP
from broker._native.wire.pending_reply cimport hand_over
from broker._native.wire.permitted cimport permissions_of
from broker._native.wire.reply_slot cimport ReplySlot

from broker.model import limits

cdef enum:
    NEWLINE = 10
    TEXT_SIZE = 4             # of text at the start: as a length, above all limits of frames
    CUT_TOO_LONG = -1
    READ_BYTES_SHIFT = 10     # 1 KiB of a log counts as one request

cdef size_t LINE_BYTES_MAX = limits.V1_REQUEST_BYTES_MAX
cdef size_t REPLY_BYTES_KEPT = limits.V1_CONSUME_BYTES_MAX // 2


cdef inline bint is_text(uint8_t byte) noexcept nogil:
    return 0x20 <= byte < 0x7F or 0x09 <= byte <= 0x0D


@cython.final
cdef class V1(NativeProtocol):
    """The V1 line protocol."""

    cdef public bint has_followers        # V1 followers are registered: Python serves PRODUCE
    cdef bytes refusal_line               # owns what `refusal` points to
    cdef Refusal refusal
    cdef ConsumeReader consume_reader

    def __cinit__(self, fallback, bytes refusal not None):
        """Leave all other requests to `fallback`.

        `refusal` is the answer, after `V1|<id>|`, to a PRODUCE whose log fails before it is
        acknowledged.
        """
        self.fallback = fallback
        self.serves_half_closed = self.is_metered = True
        self.refusal_line = refusal
        self.refusal.data = <const uint8_t*>PyBytes_AS_STRING(refusal)
        self.refusal.size = <size_t>PyBytes_GET_SIZE(refusal)
        self.consume_reader = ConsumeReader()

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept:
        # Text, or a line of fewer bytes: too short for a request, so it gets an error.
        cdef size_t i
        for i in range(min(size, <size_t>TEXT_SIZE)):
            if not is_text(data[i]):
                return VERDICT_NO
            if data[i] == NEWLINE:
                return VERDICT_YES
        return VERDICT_YES if size >= TEXT_SIZE else VERDICT_MORE

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        cdef const uint8_t* newline = <const uint8_t*>memchr(
            data, NEWLINE, min(size, LINE_BYTES_MAX + 1))
        if newline == NULL:
            return CUT_TOO_LONG if size > LINE_BYTES_MAX else 0
        frame.next = data
        frame.left = <size_t>(newline - data)
        return <int64_t>frame.left + 1

    cdef bint is_write(self, Cursor frame) noexcept:
        cdef Line line
        return line_read(frame, &line) == COMMAND_PRODUCE

    cdef bint is_read(self, Cursor frame) noexcept:
        cdef Line line
        return line_read(frame, &line) == COMMAND_CONSUME

    cdef void refuse(self, Connection connection, int64_t cut):
        # What follows is not a line. The answers to earlier lines are still sent.
        connection.watch(connection.interest & ~<uint32_t>(EPOLLIN | EPOLLRDHUP))
        connection.request_drain()

    cdef bint serve(self, Connection connection, Cursor frame):
        cdef Line line
        cdef Command command = line_read(frame, &line)
        cdef ReplySlot* slot = NULL
        if command == COMMAND_PRODUCE and not self.has_followers:
            slot = v1_produce(
                connection.poller.topics, connection.poller.turn, permissions_of(connection),
                &connection.unseen, &line, &self.refusal)
            if slot != NULL:
                connection.enqueue(slot)
                return True
        elif command == COMMAND_CONSUME and self.consume(connection, &line):
            return not connection.is_closed
        return hand_over(connection, frame) is not None

    cdef void serve_last(self, Connection connection, Cursor rest):
        self.requests += 1
        self.serve(connection, rest)

    cdef bint consume(self, Connection connection, Line* line):
        cdef bint is_served = self.consume_reader.serve(
            connection.poller.topics, permissions_of(connection), line)
        connection.poller.work += <int>(self.consume_reader.bytes_read >> READ_BYTES_SHIFT)
        if is_served:
            connection.reply(self.consume_reader.reply.data, self.consume_reader.reply.size)
        text_trim(&self.consume_reader.reply, REPLY_BYTES_KEPT)
        return is_served
