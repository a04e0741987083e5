"""Finds the records of a batch without a key: a compacted topic refuses them (KIP-467).

The records are those of a version 2 batch (record_batch.pyx), decompressed. All of their fields are
read, so records that pass are also valid.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free, malloc

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_walk cimport RecordFields, record_take_at

from broker.model.errors import Corrupt


cdef int32_t find_keyless(Cursor* records, int32_t count, int32_t* places,
                          int32_t places_max) noexcept nogil:
    # Returns how many were found; -1 when the records are invalid.
    cdef RecordFields fields
    cdef int32_t found = 0, i
    for i in range(count):
        if not record_take_at(records, i, &fields):
            return -1
        if fields.key.length < 0 and found < places_max:
            places[found] = i
            found += 1
    return found if records.left == 0 else -1


cdef bint all_have_keys(Cursor records, int32_t count) noexcept nogil:
    """Return whether these are exactly `count` valid records that have keys."""
    cdef int32_t place
    return find_keyless(&records, count, &place, 1) == 0


def keyless(data, int32_t count, int32_t places_max):
    """Return the indexes in the batch, from 0, of the first `places_max` records without a key.

    Raises:
        Corrupt: the bytes are not exactly `count` records with the offsets from 0 on.
    """
    cdef Py_buffer view
    cdef Cursor cursor
    cdef int32_t* places
    cdef int32_t found, i
    if places_max < 1:
        raise ValueError(f"places_max {places_max}, expected 1 or more")
    places = <int32_t*>malloc(<size_t>places_max * sizeof(int32_t))
    if places == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        cursor.next = <const uint8_t*>view.buf
        cursor.left = <size_t>view.len
        with nogil:
            found = find_keyless(&cursor, count, places, places_max)
        PyBuffer_Release(&view)
        if found < 0:
            raise Corrupt(f"batch: not {count} whole records")
        return [places[i] for i in range(found)]
    finally:
        free(places)
