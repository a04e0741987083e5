"""An append that waits until the version of its stream has been read from the file.

    cursus_append -> lookup_begin -> StreamTables.when_unknown, for the first: Python reads the file
                                                        |
    cursus_append <- next drain <- StreamHeads.end_lookups <- StreamHeads.know

Meanwhile the frame stays the first of its connection's input. Nothing of it has been carried out:
it is served again as if it had just come, wherever its partition is led by then. But it waits only
once. If the version is not in memory then, because it could not be read, or was forgotten again,
the frame is left to Python, which looks it up and appends in one step.
"""

cimport cython

cdef enum:
    LOOKED_UP = 2             # of Connection.protocol_flags: its next frame has waited


@cython.final
cdef class StreamLookup(Wait):
    """The wait of one append.

    Attributes:
        key: of its stream.
    """

    cdef void ended(self):
        self.heads.lookups.pop(self, None)

    def end(self):
        """Serve the append again; nothing if its connection has closed."""
        cdef Connection connection = self.connection
        if connection is None:
            return
        connection.end_wait()
        connection.protocol_flags |= LOOKED_UP
        connection.request_drain()
        connection.poller.turn.request_end()


cdef bint lookup_take(Connection connection) noexcept:
    """Return whether the frame that is served now has waited for a lookup."""
    cdef bint has_waited = connection.protocol_flags & LOOKED_UP != 0
    connection.protocol_flags &= ~LOOKED_UP
    return has_waited


cdef bint lookup_begin(
        Connection connection, StreamHeads heads, PartitionLog log, bytes key) except -1:
    """Let the frame that is served now wait for a version; return False if nobody looks it up."""
    cdef StreamLookup lookup
    if heads.tables.when_unknown is None:
        return False
    lookup = StreamLookup.__new__(StreamLookup)
    lookup.heads = heads
    lookup.key = key
    lookup.is_brief = True
    heads.lookups[lookup] = None
    connection.is_partly_served = True
    connection.begin_wait(lookup)
    if len(heads.lookups) == 1:
        heads.tables.when_unknown(log)
    return True
