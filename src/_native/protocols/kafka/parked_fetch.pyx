"""A fetch that waits until its logs have enough to answer, or for its deadline.

Logs put the watches of their partitions on its ready list, in the order in which they changed. What
a partition is, what is enough and what the reply has is that of its subclasses: the sessions of
consumers (fetch.pyx) and those of replicas (replica_fetch.pyx).
"""

from broker._native.kernel.histogram cimport histogram_add
from broker._native.log.turn cimport Watch, ready_add
from broker._native.wire.mute cimport mute


cdef class ParkedFetch(Wait):
    """A fetch whose connection waits for it while there is too little to answer."""

    cdef void sweep(self) noexcept:
        """Remove the partitions from the ready list that are not `is_ready` any more, in one walk:
        those that are forgotten together.
        """
        cdef Watch* watch = self.owner.ready_head
        cdef Watch* following
        self.owner.ready_head = self.owner.ready_tail = NULL
        while watch != NULL:
            following = watch.ready_next
            if watch.is_ready:
                watch.is_ready = False
                ready_add(watch)
            watch = following

    cdef void unmark_all(self) noexcept:
        """Empty the ready list at once."""
        cdef Watch* watch = self.owner.ready_head
        while watch != NULL:
            watch.is_ready = False
            watch = watch.ready_next
        self.owner.ready_head = self.owner.ready_tail = NULL

    cdef void begin_request(self, RequestHead* head) noexcept:
        """Take what the reply needs of a request's header."""
        self.correlation_id = head.correlation_id
        self.version = head.api_version
        self.is_flexible = head.is_flexible

    cdef void park(self, Connection connection):
        """Answer once the logs have enough, or after the request's time."""
        connection.begin_wait(self)
        connection.set_timer(self.wait_ms)
        self.owner.object = <void*>connection
        self.owner.is_parked = True

    cdef void woken(self):
        if self.has_enough():
            self.answer()

    cdef void due(self):
        self.answer()

    cdef void ended(self):
        self.owner.is_parked = False
        self.turn.forget(&self.owner)

    cdef void answer(self):
        """Answer with what there is."""
        cdef Connection connection = self.connection
        connection.end_wait()
        self.send(connection)

    cdef void send(self, Connection connection):
        """Queue the response; if it tells a throttle time, the connection is mute for that time."""
        self.reply(&connection.output)
        if self.meter != NULL:
            connection.metered = self.meter
            connection.metered_us = self.read_us
            histogram_add(
                &self.meter.remote,
                0 if self.read_us >= connection.poller.turn_us
                else connection.poller.clock_us - self.read_us)
        connection.request_drain()
        if self.throttle_ms > 0:
            mute(connection, self.throttle_ms)

    cdef bint has_enough(self) noexcept:
        """Return whether there is enough to answer before the deadline (fetch.min.bytes)."""
        return True

    cdef void reply(self, OutputQueue* queue) noexcept:
        """Queue the whole response: one frame."""
