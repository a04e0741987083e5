from libc.stdint cimport int32_t

from broker._native.kernel.cursor cimport Cursor

cdef bint all_have_keys(Cursor records, int32_t count) noexcept nogil
