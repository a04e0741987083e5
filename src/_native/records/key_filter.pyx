"""Selects records by their keys: those with a prefix, or those of a set.

The set is an open-addressing table, at most half full, whose slots point into the caller's bytes
objects; a lookup hashes the key in the record without creating an object.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.stdlib cimport calloc, free

from cython cimport final

from broker._native.records.record_walk cimport Span
from broker._native.records.rows cimport Filter, key_find


@final
cdef class KeyFilter:
    """Selects by a prefix if created from bytes, else by a set of whole keys."""

    def __cinit__(self, keys not None):
        cdef size_t slots = 2
        if isinstance(keys, bytes):
            self.keys = keys
            self.prefix = span_of(keys)
            return
        self.keys = frozenset(keys)
        while slots < 2 * <size_t>len(self.keys):
            slots *= 2
        self.table = <Span*>calloc(slots, sizeof(Span))
        if self.table == NULL:
            raise MemoryError
        self.mask = slots - 1
        for key in self.keys:
            self.add(key)

    def __dealloc__(self):
        free(self.table)

    cdef int add(self, key) except -1:
        cdef Span span
        if not isinstance(key, bytes):
            raise TypeError(f"a key filter takes bytes, not {key!r:.80}")
        span = span_of(key)
        key_find(self.table, self.mask, &span)[0] = span
        return 0

    cdef void apply(self, Filter* filter) noexcept:
        filter.is_set = True
        filter.has_keys = True
        filter.prefix = self.prefix
        filter.key_table = self.table
        filter.key_mask = self.mask


cdef Span span_of(bytes key):
    cdef Span span
    if PyBytes_GET_SIZE(key) > INT32_MAX:
        raise ValueError(f"a key of {len(key)} bytes: no record has one above {INT32_MAX}")
    span.start = <const uint8_t*>PyBytes_AS_STRING(key)
    span.length = <int32_t>PyBytes_GET_SIZE(key)
    return span
