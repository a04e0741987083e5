"""A stream whose frames Python brings, as from another broker.

Python sends frames while `send` returns True; then it waits for RelayEvent.ROOM, which comes when
no more than RELAY_UNSENT_BYTES_MAX are unsent. So that many bytes and one frame are in memory.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.output_queue cimport queue_commit, queue_reserve

import logging
from enum import Enum

from broker.model import limits

logger = logging.getLogger(__name__)

cdef enum:
    LENGTH_SIZE = 4

cdef int64_t UNSENT_BYTES_MAX = limits.RELAY_UNSENT_BYTES_MAX


class RelayEvent(Enum):
    """What Python is notified of.

    ROOM: the client has read enough for the next frame.
    STOPPED: the broker stops: `end`.
    CLOSED: the stream has ended, or its connection has: the last notification.
    """

    ROOM = "room"
    STOPPED = "stopped"
    CLOSED = "closed"


@cython.final
cdef class Relay(Wait):
    """The response to one request: frames of a uint32 length and a body.

    `notify` is called with a RelayEvent; it may call a method at once.
    """

    cdef object notify
    cdef bint is_awaited      # Python waits for room

    def __cinit__(self, notify not None):
        """Send nothing yet."""
        self.notify = notify
        self.is_stream = True

    # ---- from the connection ------------------------------------------------------------------

    cdef bint write_frames(self):
        if self.is_awaited and self.connection.output.bytes <= UNSENT_BYTES_MAX:
            self.is_awaited = False
            self.call(RelayEvent.ROOM)
        return False

    cdef bint has_more(self) noexcept:
        return self.is_awaited and self.connection.output.bytes <= UNSENT_BYTES_MAX

    cdef void woken(self):
        self.connection.request_drain()

    cdef void due(self):
        pass

    cdef void ended(self):
        self.call(RelayEvent.CLOSED)
        self.notify = None

    cdef void stop(self):
        self.call(RelayEvent.STOPPED)

    cdef void call(self, object event):
        try:
            if self.notify is not None:
                self.notify(event)
        except Exception:  # other connections continue
            logger.exception("a notification failed: event=%s", event)
            if self.connection is not None:
                self.connection.close("a stream failed in the broker")

    # ---- from Python --------------------------------------------------------------------------

    @property
    def is_open(self):
        """Whether it has begun and has not ended."""
        return self.connection is not None

    def send(self, bytes body not None):
        """Send a frame; return whether another one may be sent now."""
        cdef Connection connection = self.connection
        cdef uint8_t* into
        cdef size_t size = <size_t>len(body)
        if connection is None:
            return False
        into = queue_reserve(&connection.output, LENGTH_SIZE + size)
        if into == NULL:
            connection.close("no memory for its frames")
            return False
        store_uint32(into, <uint32_t>size)
        memcpy(into + LENGTH_SIZE, <const char*>body, size)
        queue_commit(&connection.output, LENGTH_SIZE + size)
        self.is_awaited = connection.output.bytes > UNSENT_BYTES_MAX
        connection.request_drain()
        connection.poller.turn.request_end()
        return not self.is_awaited

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
