from broker._native.kernel.cursor cimport Cursor
from broker._native.log.permissions cimport Permissions
from broker._native.protocols.cursus.stream_heads cimport StreamTables
from broker._native.wire.connection cimport Connection


cdef bint append_take(Cursor* body) noexcept nogil
cdef bint cursus_append(
    Connection connection, Permissions permissions, StreamTables tables, Cursor body)
cdef int append_foresee(
    Connection connection, Permissions permissions, StreamTables tables, Cursor rest) except -1
