"""A Cursus stream: batches of one partition as they are appended, and keepalives in between.

    WAITING   at the end of what may be read: a change of the log wakes it, and the timer wheel for
              keepalives
    SENDING   each drain of its connection adds the frames of one read of the log, while no more
              than CURSUS_STREAM_UNSENT_BYTES_MAX are unsent; a writable socket wakes it
    PAUSED    Python was notified of an event (StreamEvent)

Unsent are at most that many bytes, one frame, and the bytes of one read (a batch, however large, or
128 KiB): if records are longer in frames than in their log, the rest of them is read again. In
memory are the frames that hold these bytes, of which the first may have been sent in part, and the
records of a decompressed batch that are not sent yet: `decompressed_bytes`, until
`drop_decompressed`. Between a notification and `resume_at`, `decompress` or `end` nothing is read;
keepalives continue.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport Watch, WatchOwner
from broker._native.protocols.cursus.frames cimport (
    FRAME_END,
    FRAME_FULL,
    FRAME_NO_MEMORY,
    FRAME_OPEN,
    LENGTH_SIZE,
    CursusFrame,
    FrameStatus,
)
from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.output_queue cimport queue_commit, queue_reserve

import logging
from enum import Enum

from broker._native.protocols.cursus import frames
from broker.model import limits

logger = logging.getLogger(__name__)

cdef enum:
    READ_BYTES_SHIFT = 10     # 1 KiB of a log counts as one request

cdef int64_t UNSENT_BYTES_MAX = limits.CURSUS_STREAM_UNSENT_BYTES_MAX


class StreamEvent(Enum):
    """What Python is notified of, and the methods that end the pause.

    Those that a frame's status causes have its name.

    COMPRESSED: the batch at `next_offset` is compressed: `decompress`, or `resume_at` an offset
        after it.
    TOO_LARGE, UNREADABLE: what is at `next_offset` cannot be sent, and ends at `skip_offset`:
        `resume_at`, or `end`.
    OUT_OF_RANGE, REMOVED, OFFLINE, STOPPED: the stream must end: `end`.
    CLOSED: it has ended, or its connection has: the last notification.
    """

    COMPRESSED = "compressed"
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"
    OUT_OF_RANGE = "out of range"
    REMOVED = "removed"
    OFFLINE = "offline"
    STOPPED = "stopped"
    CLOSED = "closed"


@cython.no_gc_clear    # `log` would be cleared before it is unwatched
@cython.final
cdef class CursusStream(Wait):
    """The response to one STREAM.

    `notify` is called with the stream and a StreamEvent; it may call a method at once.
    """

    cdef readonly PartitionLog log
    cdef CursusFrame frame
    cdef bint is_committed
    cdef readonly int64_t next_offset     # after what was sent
    cdef readonly int64_t skip_offset     # after what cannot be sent, once Python was notified
    cdef int64_t keepalive_ms             # 0: none are sent
    cdef int64_t sent_ms                  # monotonic: when the last frame was sent
    cdef bint is_paused                   # Python handles a notification
    cdef Watch watch
    cdef WatchOwner owner
    cdef object notify

    def __cinit__(
            self, PartitionLog log not None, int64_t offset, bytes topic not None, *,
            bint is_original, bint is_committed, int records_max, int64_t keepalive_ms, notify):
        """Stream the records of a log from an offset on, in the requested layout."""
        self.frame = CursusFrame(
            topic, log.partition, is_original=is_original,
            bytes_max=limits.CURSUS_STREAM_FRAME_BYTES_MAX, records_max=records_max)
        self.frame.trim()
        self.log = log
        self.next_offset = offset
        self.is_committed = is_committed
        self.keepalive_ms = keepalive_ms
        self.notify = notify
        self.is_stream = True
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
        self.sent_ms = connection.poller.monotonic_ms
        if self.keepalive_ms > 0:
            connection.set_timer(self.keepalive_ms)

    cdef bint write_frames(self):
        cdef Connection connection = self.connection
        cdef FrameStatus status
        cdef int64_t queued = connection.output.bytes
        cdef object change
        if not self.watch.is_linked:
            self.start()
        if self.is_paused or queued > UNSENT_BYTES_MAX:
            return False
        self.owner.is_parked = False
        self.log.turn.forget(&self.owner)
        self.owner.ready_head = self.owner.ready_tail = NULL
        self.watch.is_ready = False
        change = self.find_change()
        if change is not None:
            self.pause_and_notify(change)
            return False
        status = self.fill()
        queued = connection.output.bytes - queued
        connection.poller.work += <int>(queued >> READ_BYTES_SHIFT)
        if status == FRAME_OPEN:
            return True
        if status == FRAME_END:
            self.owner.is_parked = True
        elif status == FRAME_NO_MEMORY:
            connection.close("no memory for its frames")
        elif status != FRAME_FULL:
            self.skip_offset = self.frame.skip_offset
            self.pause_and_notify(StreamEvent(frames.STATUS_NAMES[status]))
        return False

    cdef bint has_more(self) noexcept:
        return not (self.is_paused or self.owner.is_parked) and (
            self.connection.output.bytes <= UNSENT_BYTES_MAX
            and self.connection.slots_head == NULL)

    cdef void woken(self):
        self.connection.request_drain()

    cdef void due(self):
        cdef Connection connection = self.connection
        cdef int64_t now_ms = connection.poller.monotonic_ms
        cdef uint8_t* at
        # Unsent bytes keep the connection alive as well as a keepalive would.
        if now_ms - self.sent_ms >= self.keepalive_ms:
            if connection.output.head == NULL and connection.slots_head == NULL:
                at = queue_reserve(&connection.output, LENGTH_SIZE)
                if at != NULL:
                    memset(at, 0, LENGTH_SIZE)
                    queue_commit(&connection.output, LENGTH_SIZE)
                    connection.request_drain()
            self.sent_ms = now_ms
        connection.set_timer(self.sent_ms + self.keepalive_ms - now_ms)

    cdef void ended(self):
        self.owner.is_parked = False
        self.log.turn.forget(&self.owner)
        self.log.unwatch(&self.watch)
        self.pause_and_notify(StreamEvent.CLOSED)
        self.notify = None

    cdef void stop(self):
        self.pause_and_notify(StreamEvent.STOPPED)

    # ---- frames -------------------------------------------------------------------------------

    cdef int64_t end_offset(self) noexcept:
        if not self.is_committed:
            return self.log.high_watermark
        return min(self.log.high_watermark, self.log.transactions.first_undecided)

    cdef object find_change(self):
        # Returns the event of a change of the log other than more records, or None.
        if self.log.is_deleted and not self.log.is_released:
            return StreamEvent.REMOVED
        if self.log.is_offline or self.log.is_loading or self.log.is_released:
            return StreamEvent.OFFLINE
        if self.next_offset < self.log.log_start_offset:
            return StreamEvent.OUT_OF_RANGE
        return None

    cdef FrameStatus fill(self):
        """Queue frames of one read, or of a decompressed batch, up to the limit of unsent bytes."""
        cdef CursusFrame frame = self.frame
        cdef FrameStatus status
        cdef int64_t unsent_max = UNSENT_BYTES_MAX
        if frame.decompressed is not None:
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
                frame.decompressed = None
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
        self.sent_ms = connection.poller.monotonic_ms
        return True

    cdef void pause_and_notify(self, object event):
        self.is_paused = True
        try:
            self.notify(self, event)
        except Exception:  # other connections continue
            logger.exception("a notification failed: stream=%r event=%s", self, event)
            if self.connection is not None:
                self.connection.close("a stream failed in the broker")

    # ---- from Python --------------------------------------------------------------------------

    @property
    def is_open(self):
        """Whether it has begun and has not ended."""
        return self.connection is not None

    @property
    def decompressed_bytes(self):
        """Bytes of a decompressed batch that it holds and that are not sent."""
        return 0 if self.frame.decompressed is None else len(self.frame.decompressed)

    def drop_decompressed(self):
        """Drop them; Python is notified of the batch again once more can be sent."""
        self.frame.decompressed = None

    def resume_at(self, int64_t offset):
        """Continue at an offset, which is not below the current one."""
        if self.connection is None:
            return
        self.next_offset = max(self.next_offset, offset)
        self.is_paused = False
        self.connection.request_drain()
        self.log.turn.request_end()

    def decompress(self, bytes batch not None, bytes decompressed not None):
        """Continue with the records of the compressed batch of the notification."""
        if self.connection is None:
            return
        if self.frame.hold(batch, decompressed, self.next_offset):
            self.resume_at(self.next_offset)
        else:
            self.frame.decompressed = None
            self.skip_offset = self.next_offset + 1
            self.pause_and_notify(StreamEvent.UNREADABLE)

    def end(self, bytes last, *, bint is_last):
        """End with a last frame of this body, or without one (None).

        Then close the connection if `is_last`; otherwise it serves later requests.
        """
        cdef bytes frame = b""
        if self.connection is None:
            return
        if last is not None:
            frame = len(last).to_bytes(LENGTH_SIZE, "big") + last
        self.connection.end_stream(frame, is_last)
