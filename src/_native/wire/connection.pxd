from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.partition_log cimport PartitionLog
from broker._native.wire.frame_memory cimport InputBuffer
from broker._native.wire.output_queue cimport OutputQueue
from broker._native.wire.poller_state cimport PollerState
from broker._native.wire.quota cimport ClientQuota
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.request_meter cimport RequestMeter
from broker._native.wire.timer_wheel cimport Timer
from broker._native.wire.tls cimport TlsChannel
from broker._native.wire.unseen_writes cimport UnseenList, UnseenWrites


# Whether the first bytes of a connection are of a protocol.
cdef enum Verdict:
    VERDICT_NO
    VERDICT_MORE              # they may be: more bytes are needed to decide
    VERDICT_YES


cdef class NativeProtocol:
    """How one wire protocol cuts a connection's bytes into requests, and serves them."""

    cdef readonly object fallback         # the Python protocol for all other requests
    cdef readonly bint is_closed_idle     # after connections.max.idle.ms of silence
    cdef readonly bint serves_half_closed  # requests are still answered after the EOF of the peer
    cdef readonly bint is_metered         # the poller counts its bytes for quotas
    cdef readonly NativeProtocol gate     # serves connections until they log in; None: no login
    cdef readonly NativeProtocol opened   # of a gate: serves them afterwards
    cdef readonly uint64_t connections
    cdef readonly uint64_t requests

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept
    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept
    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept
    cdef bint is_write(self, Cursor frame) noexcept
    cdef bint is_read(self, Cursor frame) noexcept
    cdef bint serve(self, Connection connection, Cursor frame)
    cdef int foresee(self, Connection connection, Cursor rest) except -1
    cdef void record_latency(self, int64_t begun_ns) noexcept
    cdef list meters(self)
    cdef void refuse(self, Connection connection, int64_t cut)
    cdef void serve_last(self, Connection connection, Cursor rest)
    cdef void lost(self, Connection connection, str reason)


cdef class Wait:
    """An answer that is not complete yet: the connection serves no later request meanwhile."""

    cdef Connection connection            # None before it begins and after it has ended
    cdef bint is_stream                   # it sends frames until it is ended, even to a slow reader
    cdef bint ends_by_input               # it is due as soon as the next bytes arrive
    cdef bint is_brief                    # it ends soon: a broker that stops waits for it

    cdef void woken(self)
    cdef void due(self)
    cdef void ended(self)
    cdef bint write_frames(self)
    cdef bint has_more(self) noexcept
    cdef void stop(self)


cdef class Connection:
    cdef readonly int fd
    cdef PollerState poller
    cdef readonly str peer_host           # the client's address
    cdef public object session            # state of the Python protocol for this connection
    cdef readonly TlsChannel tls          # None: its bytes are not encrypted
    cdef NativeProtocol protocol          # None: not detected yet
    cdef NativeProtocol named             # what it is without detection, once its first bytes come
    cdef uint8_t protocol_flags           # state of the native protocol for this connection
    cdef bint is_outbound                 # this broker has opened it: it receives replies
    cdef readonly bint needs_login        # its listener has a login, and it has not logged in yet
    cdef int64_t login_ends_ms            # monotonic: when it must log in again; 0: never
    cdef bint is_partly_served            # of the frame that is being served something is left
    cdef bint expects_long                # the last frame was longer than half of a read
    cdef InputBuffer input                # an incomplete frame, or frames that must wait
    cdef ReplySlot* slots_head
    cdef ReplySlot* slots_tail
    cdef int64_t slots_bytes              # memory of the slots and the replies in them
    cdef int32_t slots_waiting            # slots that wait for a write or for Python
    cdef UnseenWrites unseen              # writes that no slot waits for
    cdef OutputQueue output
    cdef Wait wait                        # the answer that is not complete yet, or None
    cdef Timer timer                      # of `wait`
    cdef ClientQuota quota                # of its last request; None: there are no quotas
    cdef int64_t written_bytes            # of requests, not counted for its quota yet
    cdef int64_t read_bytes               # of answers, likewise
    cdef bint is_busy                     # a request is being served; later ones wait for it
    cdef bint is_held                     # is_busy until earlier writes are visible, answered
    cdef bint is_closed
    cdef bint is_closing                  # close once everything has been sent
    cdef bint needs_lease                 # the output has replies that do (ReplySlot.needs_lease)
    cdef int64_t broker_epoch             # of the first of these replies
    cdef bint input_ended                 # nothing more is read; replies are still sent
    cdef bint is_drain_requested
    cdef bint has_unserved                # `input` may hold whole requests, to be served first
    cdef uint32_t interest                # the events that epoll watches
    cdef int64_t active_ms                # monotonic: when a byte was last received or sent
    cdef uint64_t round                   # the round of the poller that last served it
    cdef RequestMeter* metered            # of the answer that was put in the output, or NULL
    cdef int64_t metered_us               # when its request was read
    cdef int64_t unsent_us                # since when the output is not empty; 0: it is

    cdef void on_event(self, uint32_t events)
    cdef bint is_full(self) noexcept
    cdef void read(self)
    cdef bint receive(self)
    cdef void shake_hands(self, uint32_t events)
    cdef bint is_readable(self) noexcept
    cdef bint has_unsent(self) noexcept
    cdef void fail_tls(self)
    cdef void resume_reading(self)
    cdef void restart_frame_timer(self) noexcept
    cdef void enqueue(self, ReplySlot* slot)
    cdef bint note_unseen(self, PartitionLog log, int64_t end_offset) noexcept
    cdef bint hold_back(self, Cursor frame)
    cdef bint wait_for_unseen(self, UnseenList* writes, int64_t wait_ms)
    cdef bint detect_protocol(self, const uint8_t* data, size_t size)
    cdef bint begin_protocol(self, NativeProtocol protocol)
    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size)
    cdef void begin_wait(self, Wait wait)
    cdef void end_wait(self)
    cdef void end_wait_by_input(self)
    cdef void set_timer(self, int64_t delay_ms) noexcept
    cdef void hasten_timer(self, int64_t delay_ms) noexcept
    cdef void reset_timer(self, int64_t delay_ms) noexcept
    cdef void end_stream(self, bytes last, bint is_last)
    cdef ReplySlot* complete_slot(self, const uint8_t* data, size_t size)
    cdef void reply(self, const uint8_t* data, size_t size)
    cdef void on_eof(self)
    cdef void store_input(self, const uint8_t* data, size_t size, bint is_same_frame)
    cdef void resume(self)
    cdef void drain(self)
    cdef int64_t replies_until_ns(self) noexcept
    cdef bint is_unread(self) noexcept
    cdef void check_lease(self, ReplySlot* slot) noexcept
    cdef void send(self)
    cdef void watch(self, uint32_t interest)
    cdef void request_drain(self)
    cdef void close(self, str reason)
    cdef void drop_replies(self) noexcept
