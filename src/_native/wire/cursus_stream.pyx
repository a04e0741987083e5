"""A Cursus stream: batches of one partition as they come, and a sign of life while none do.

    WAITING   at the end of what may be read: the log's growth wakes it, the wheel for keepalives
    SENDING   each drain of its connection adds what one read of the log finds, as long as no more
              than CURSUS_STREAM_UNSENT_BYTES_MAX are unsent; the socket's room wakes it
    AWAY      Python was told of something: a compressed batch, one that cannot be read, the end

What is unsent is so at most that, one frame, and as many bytes as one read found (a batch, however
large, or 128 KiB): records that are longer in frames than in their log are read again for the rest.
In memory are the frames that hold it, of which the first may have been sent in part, and what was
unfolded and is not sent: `unfolded_bytes`, until `drop_unfolded`.
Between what it tells and `go_on_at`, `unfold` or `end` nothing is read; keepalives go on.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from broker._native.log.partition_log cimport PartitionLog
from broker._native.wire.connection cimport Connection, Flow
from broker._native.wire.cursus_frames cimport (
    FRAME_END,
    FRAME_FULL,
    FRAME_NO_MEMORY,
    FRAME_OPEN,
    LENGTH_SIZE,
    CursusFrame,
    FrameStatus,
)
from broker._native.wire.output_queue cimport queue_commit, queue_reserve
from broker._native.wire.timer_wheel cimport wheel_set

import logging

from broker._native.wire.cursus_frames import STATUS_NAMES as _STATUS_NAMES
from broker.model import limits

logger = logging.getLogger(__name__)

cdef enum:
    READ_BYTES_SHIFT = 10     # so much of a log counts as a request

cdef int64_t UNSENT_BYTES_MAX = limits.CURSUS_STREAM_UNSENT_BYTES_MAX


@cython.no_gc_clear    # the log would be gone before it forgets the watch
@cython.final
cdef class CursusStream(Flow):
    """What one STREAM sends.

    `tell` is called with the stream and what has come to pass; it may call back at once:

        "folded"                     the batch at `next_offset` is compressed: `unfold`, or
                                     `go_on_at` an offset behind it
        "too large", "unreadable"    what is at `next_offset` cannot be sent, and ends at
                                     `skip_offset`: `go_on_at`, or `end`
        "out of range", "removed",
        "offline", "stopped"         it has come to its end: `end`
        "closed"                     its connection has gone, or it was ended: nothing more is told
    """

    def __cinit__(
            self, PartitionLog log not None, int64_t offset, bytes topic not None, *,
            bint is_original, bint is_committed, int records_max, int64_t keepalive_ms, tell):
        """Send what a log has from an offset on, in the layout that is asked for."""
        self.frame = CursusFrame(
            topic, log.partition, is_original=is_original,
            bytes_max=limits.CURSUS_STREAM_FRAME_BYTES_MAX, records_max=records_max)
        self.frame.trim()
        self.log = log
        self.next_offset = offset
        self.is_committed = is_committed
        self.keepalive_ms = keepalive_ms
        self.tell = tell
        memset(&self.watch, 0, sizeof(self.watch))
        memset(&self.owner, 0, sizeof(self.owner))
        self.watch.owner = &self.owner

    def __dealloc__(self):
        if self.log is not None:
            self.log.unwatch(&self.watch)

    def __repr__(self):
        return f"<CursusStream of {self.log!r} at {self.next_offset}>"

    # ---- from the connection ------------------------------------------------------------------

    cdef void start(self):
        cdef Connection connection = self.connection
        self.owner.object = <void*>connection
        self.log.watch(&self.watch)
        self.sent_ms = connection.shared.monotonic_ms
        if self.keepalive_ms > 0:
            wheel_set(&connection.shared.wheel, &connection.timer,
                      self.sent_ms + self.keepalive_ms)

    cdef bint go_on(self):
        cdef Connection connection = self.connection
        cdef FrameStatus status
        cdef int64_t queued = connection.output.bytes
        cdef str change
        if not self.watch.is_linked:
            self.start()
        if self.is_away or queued > UNSENT_BYTES_MAX:
            return False
        self.owner.is_parked = False
        self.log.turn.forget(&self.owner)
        self.owner.ready_head = self.owner.ready_tail = NULL
        self.watch.is_ready = False
        change = self.find_change()
        if change is not None:
            self.leave_to_python(change)
            return False
        status = self.fill()
        queued = connection.output.bytes - queued
        connection.shared.work += <int>(queued >> READ_BYTES_SHIFT)
        if status == FRAME_OPEN:
            return True
        if status == FRAME_END:
            self.owner.is_parked = True
        elif status == FRAME_NO_MEMORY:
            connection.close("no memory for its frames")
        elif status != FRAME_FULL:
            self.skip_offset = self.frame.skip_offset
            self.leave_to_python(_STATUS_NAMES[status])
        return False

    cdef bint has_more(self) noexcept:
        return not (self.is_away or self.owner.is_parked) and (
            self.connection.output.bytes <= UNSENT_BYTES_MAX
            and self.connection.slots_head == NULL)

    cdef void woken(self):
        self.connection.touch()

    cdef void due(self):
        cdef Connection connection = self.connection
        cdef int64_t now_ms = connection.shared.monotonic_ms
        cdef uint8_t* at
        # While something is unsent a peer has enough to read, if it reads.
        if now_ms - self.sent_ms >= self.keepalive_ms:
            if connection.output.head == NULL and connection.slots_head == NULL:
                at = queue_reserve(&connection.output, LENGTH_SIZE)
                if at != NULL:
                    memset(at, 0, LENGTH_SIZE)
                    queue_commit(&connection.output, LENGTH_SIZE)
                    connection.touch()
            self.sent_ms = now_ms
        wheel_set(&connection.shared.wheel, &connection.timer, self.sent_ms + self.keepalive_ms)

    cdef void ended(self):
        self.connection = None
        self.owner.is_parked = False
        self.log.turn.forget(&self.owner)
        self.log.unwatch(&self.watch)
        self.leave_to_python("closed")
        self.tell = None

    cdef void must_stop(self):
        self.leave_to_python("stopped")

    # ---- frames -------------------------------------------------------------------------------

    cdef int64_t end_offset(self) noexcept:
        if not self.is_committed:
            return self.log.high_watermark
        return min(self.log.high_watermark, self.log.transactions.first_undecided)

    cdef str find_change(self):
        # What has become of the log, other than that there is more to read.
        if self.log.is_deleted:
            return "removed"
        if self.log.is_offline or self.log.is_loading:
            return "offline"
        return "out of range" if self.next_offset < self.log.log_start_offset else None

    cdef FrameStatus fill(self):
        """Queue frames of what one read finds, or was unfolded, as long as there is room."""
        cdef CursusFrame frame = self.frame
        cdef FrameStatus status
        cdef int64_t unsent_max = UNSENT_BYTES_MAX
        if frame.unfolded is not None:
            status = frame.walk(self.log)
        else:
            status = frame.read_slice(
                self.log, self.next_offset, self.end_offset(), self.is_committed)
            unsent_max += <int64_t>frame.read_size
        while True:
            if frame.count > 0 and not self.queue_frame():
                status = FRAME_NO_MEMORY
            self.next_offset = frame.next_offset
            if status != FRAME_FULL:
                frame.unfolded = None
                break
            if self.connection.output.bytes > unsent_max:
                break
            status = frame.walk(self.log)
        frame.trim()
        return status

    cdef bint queue_frame(self) noexcept:
        cdef Connection connection = self.connection
        cdef CursusFrame frame = self.frame
        cdef uint8_t* into
        frame.finish()
        into = queue_reserve(&connection.output, frame.out.size)
        if into == NULL:
            return False
        memcpy(into, frame.out.data, frame.out.size)
        queue_commit(&connection.output, frame.out.size)
        frame.begin()
        self.sent_ms = connection.shared.monotonic_ms
        return True

    cdef void leave_to_python(self, str what):
        self.is_away = True
        try:
            self.tell(self, what)
        except Exception:  # the turn goes on for everyone else
            logger.exception("%r: %s was not taken note of", self, what)
            if self.connection is not None:
                self.connection.close("a stream failed in the broker")

    # ---- from Python --------------------------------------------------------------------------

    @property
    def is_open(self):
        """Whether it sends, or will once it has begun."""
        return self.connection is not None

    @property
    def unfolded_bytes(self):
        """How much it holds of a batch that was unfolded for it and is not sent."""
        return 0 if self.frame.unfolded is None else len(self.frame.unfolded)

    def drop_unfolded(self):
        """Let go of that; it is asked for again when there is room to send more."""
        self.frame.unfolded = None

    def go_on_at(self, int64_t offset):
        """Go on with what an offset has, which is not below where it was."""
        if self.connection is None:
            return
        self.next_offset = max(self.next_offset, offset)
        self.is_away = False
        self.connection.touch()
        self.log.turn.request_end()

    def unfold(self, bytes batch not None, bytes unfolded not None):
        """Go on with the records of the compressed batch that was told of."""
        if self.connection is None:
            return
        if self.frame.hold(batch, unfolded, self.next_offset):
            self.go_on_at(self.next_offset)
        else:
            self.frame.unfolded = None
            self.skip_offset = self.next_offset + 1
            self.leave_to_python("unreadable")

    def end(self, bytes last, *, bint is_last):
        """End with a frame of a body behind the others, or with none; then close the connection, or
        serve what comes next there.
        """
        cdef bytes frame = b""
        if self.connection is None:
            return
        if last is not None:
            frame = len(last).to_bytes(LENGTH_SIZE, "big") + last
        self.connection.end_flow(frame, is_last)
