"""The answer with a long page: its parts are copied to the output as the client reads them.

All readers share the parts: a page that many of them read slowly is in memory once, and no step of
the loop copies all of it. Unsent are at most HTTP_UNSENT_BYTES_MAX and one part. A client that
takes nothing is closed by `Poller.sweep`, one that takes too little once its time is over.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.output_queue cimport queue_commit, queue_reserve

from broker.model import http_limits

cdef int64_t UNSENT_BYTES_MAX = http_limits.HTTP_UNSENT_BYTES_MAX
cdef int64_t PAGE_MS_MAX = http_limits.HTTP_PAGE_SECONDS_MAX * 1000


@cython.final
cdef class PageStream(Wait):
    """The response to one request; the connection closes after it."""

    cdef bytes head
    cdef object page          # a LongPage, held while it is sent: who counts pages knows by that
    cdef tuple parts          # of it
    cdef Py_ssize_t next_part
    cdef bint has_begun

    def __cinit__(self, bytes head not None, page):
        """Send a head, and then the parts of a page."""
        self.head = head
        self.page = page
        self.parts = page.parts

    cdef bint write_frames(self):
        cdef Connection connection = self.connection
        if not self.has_begun:
            self.has_begun = True
            connection.set_timer(PAGE_MS_MAX)
            if not self.put(self.head):
                return False
        while self.next_part < len(self.parts) and connection.output.bytes < UNSENT_BYTES_MAX:
            if not self.put(<bytes>self.parts[self.next_part]):
                return False
            self.next_part += 1
        if self.next_part == len(self.parts) and connection.output.bytes == 0:
            connection.end_stream(b"", True)
        return False

    cdef bint put(self, bytes part):
        cdef size_t size = <size_t>PyBytes_GET_SIZE(part)
        cdef uint8_t* into = queue_reserve(&self.connection.output, size)
        if into == NULL:
            self.connection.close("no memory for its page")
            return False
        memcpy(into, PyBytes_AS_STRING(part), size)
        queue_commit(&self.connection.output, size)
        return True

    cdef bint has_more(self) noexcept:
        if self.next_part == len(self.parts):
            return self.connection.output.bytes == 0
        return self.connection.output.bytes < UNSENT_BYTES_MAX

    cdef void due(self):
        self.connection.close("its page was not read in time")

    cdef void ended(self):
        self.page = None
        self.parts = ()
