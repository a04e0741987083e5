"""Hashes a column of keys or values: Kafka's murmur2, its partition of a key, and XXH3.

Kafka's default partitioner uses the 32-bit MurmurHash2 with seed 0x9747b28c of a key, without its
sign bit, modulo the number of partitions (Utils.murmur2, Utils.toPositive). The hash reads four
bytes at a time, lowest first; up to three remaining ones are mixed in last.

A null has no hash: its row is -1 where hashes are int32, and 0 in a column of XXH3.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.records.column cimport COLUMN_INT32, COLUMN_UINT64, Column, column_new
from broker._native.records.column_source cimport (
    ColumnSource, Content, ContentColumn, content_read,
)


cdef extern from "kernel/little_endian.h" nogil:
    uint32_t load32_little(const uint8_t* data)


cdef extern from "kernel/xxh3.h" nogil:
    ctypedef uint64_t xxh3_function(const uint8_t* data, size_t size)

    struct xxh3_implementation:
        const char* name
        xxh3_function* hash

    void xxh3_init()
    uint64_t xxh3_64(const uint8_t* data, size_t size)
    const xxh3_implementation* xxh3_implementations()


xxh3_init()

cdef enum HashKind:
    HASH_MURMUR2
    HASH_PARTITION
    HASH_XXH3_64

MURMUR2 = HASH_MURMUR2
PARTITION = HASH_PARTITION
XXH3_64 = HASH_XXH3_64

cdef enum:
    SEED = 0x9747B28C
    MULTIPLIER = 0x5BD1E995
    NULL_KEY = -1

cdef struct Hashing:
    int kind
    uint32_t partitions


# ---- one value ---------------------------------------------------------------------------------

cdef inline uint32_t murmur2_of(const uint8_t* data, size_t size) noexcept nogil:
    """Return the hash without its sign bit."""
    cdef uint32_t multiplier = MULTIPLIER
    cdef uint32_t state = <uint32_t>SEED ^ <uint32_t>size
    cdef uint32_t word
    cdef size_t left = size
    while left >= 4:
        word = load32_little(data) * multiplier
        word = (word ^ (word >> 24)) * multiplier
        state = state * multiplier ^ word
        data += 4
        left -= 4
    if left:
        if left == 3:
            state ^= <uint32_t>data[2] << 16
        if left >= 2:
            state ^= <uint32_t>data[1] << 8
        state = (state ^ data[0]) * multiplier
    state = (state ^ (state >> 13)) * multiplier
    return (state ^ (state >> 15)) & INT32_MAX


cdef inline void put_hash(
        const Hashing* hashing, void* hashes, Py_ssize_t row, const uint8_t* data, int64_t size,
) noexcept nogil:
    """Store the hash of a row; a size of -1 is a null."""
    cdef uint32_t murmur2
    if hashing.kind == HASH_XXH3_64:
        (<uint64_t*>hashes)[row] = xxh3_64(data, <size_t>size) if size >= 0 else 0
    elif size < 0:
        (<int32_t*>hashes)[row] = NULL_KEY
    else:
        murmur2 = murmur2_of(data, <size_t>size)
        if hashing.kind == HASH_PARTITION:
            murmur2 %= hashing.partitions
        (<int32_t*>hashes)[row] = <int32_t>murmur2


# ---- a column ----------------------------------------------------------------------------------

cdef inline Py_ssize_t put_hashes(
        const Hashing* hashing, const ContentColumn* column, Py_ssize_t count,
        void* hashes, Py_ssize_t first,
) noexcept nogil:
    """Store the hashes of all rows from row `first` on; return the first bad row or -1."""
    cdef Content content
    cdef Py_ssize_t row
    for row in range(count):
        if not content_read(column, row, &content):
            return row
        put_hash(hashing, hashes, first + row, content.data, content.size)
    return -1


cdef Hashing hashing_of(int kind, int64_t partitions) except *:
    cdef Hashing hashing
    if not 0 < partitions <= INT32_MAX:
        raise ValueError(f"{partitions} partitions, expected 1 to {INT32_MAX}")
    hashing.kind = kind
    hashing.partitions = <uint32_t>partitions
    return hashing


cdef Column new_hashes(int kind, Py_ssize_t count):
    cdef Column hashes = column_new(COLUMN_UINT64 if kind == HASH_XXH3_64 else COLUMN_INT32, count)
    hashes.count = count
    return hashes


def hash_sources(int kind, tuple sources not None, int64_t partitions=1):
    """Return the hashes of the "key" columns of ColumnSources, one after another, as one Column.

    Raises:
        ValueError: partitions out of range, or a row outside of its column's data.
    """
    cdef Hashing hashing = hashing_of(kind, partitions)
    cdef ColumnSource source
    cdef Column hashes
    cdef Py_ssize_t first = 0, bad, count = 0
    for source in sources:
        count += source.count
    hashes = new_hashes(kind, count)
    for source in sources:
        with nogil:
            bad = put_hashes(&hashing, &source.columns.keys, source.count, hashes.data, first)
        if bad >= 0:
            raise ValueError(f"row {first + bad} is not within the "
                             f"{source.columns.keys.data_size} bytes of its column's data")
        first += source.count
    return hashes


def hash_objects(int kind, objects, int64_t partitions=1):
    """Return the hashes of bytes-like objects, None for null, as a Column.

    Raises:
        ValueError: partitions out of range.
        TypeError: an object that is neither.
    """
    cdef Hashing hashing = hashing_of(kind, partitions)
    cdef tuple items = tuple(objects)      # its length cannot change meanwhile
    cdef Column hashes = new_hashes(kind, len(items))
    cdef Py_ssize_t row = 0
    for item in items:
        if not put_object(&hashing, hashes.data, row, item):
            raise TypeError(f"row {row}: expected bytes or None, got {type(item).__name__}")
        row += 1
    return hashes


cdef bint put_object(const Hashing* hashing, void* hashes, Py_ssize_t row, object item) except *:
    """Store the hash of an object; False when it has no bytes."""
    cdef Py_buffer view
    if item is None:
        put_hash(hashing, hashes, row, NULL, -1)
    elif PyBytes_CheckExact(item):
        put_hash(hashing, hashes, row, <const uint8_t*>PyBytes_AS_STRING(item),
                 PyBytes_GET_SIZE(item))
    else:
        try:
            PyObject_GetBuffer(item, &view, PyBUF_SIMPLE)
        except TypeError:
            return False
        put_hash(hashing, hashes, row, <const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)
    return True


# ---- one key from Python -----------------------------------------------------------------------

cdef object hash_one(const Hashing* hashing, object key):
    cdef int32_t hashed = 0
    if not put_object(hashing, &hashed, 0, key):
        raise TypeError(f"expected bytes, got {type(key).__name__}")
    return hashed


def murmur2(key not None):
    """Return Kafka's murmur2 hash of a bytes-like object without its sign bit: 0 to 2**31 - 1.

    Raises:
        TypeError, BufferError: no bytes-like object, or one in pieces.

    Example:
        >>> murmur2(b"abc")
        479470107
    """
    cdef Hashing hashing = [HASH_MURMUR2, 1]
    return hash_one(&hashing, key)


def partition(key, int64_t partitions):
    """Return the partition that Kafka's default partitioner chooses for a key; -1 for None.

    It is `murmur2(key) % partitions`. Records without a key may go to any partition: Kafka's
    producer uses one until a batch is full ("sticky").

    Raises:
        ValueError: fewer than 1 or more than 2**31 - 1 partitions.
        TypeError, BufferError: no bytes-like object, or one in pieces.

    Example:
        >>> partition(b"abc", 12), partition(None, 12)
        (3, -1)
    """
    cdef Hashing hashing = hashing_of(HASH_PARTITION, partitions)
    return hash_one(&hashing, key)


def xxh3_names():
    """Return the implementations that this processor supports; first the one in use, last
    "portable".
    """
    cdef const xxh3_implementation* each = xxh3_implementations()
    names = []
    while each.name != NULL:
        names.append((<bytes>each.name).decode())
        each += 1
    return tuple(names)


def xxh3_64_by(str implementation, data not None):
    """Return the hash by one of `xxh3_names()`; ValueError when it is not among them."""
    cdef const xxh3_implementation* each = xxh3_implementations()
    cdef Py_buffer view
    cdef uint64_t hash
    while each.name != NULL:
        if (<bytes>each.name).decode() == implementation:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            hash = each.hash(<const uint8_t*>view.buf, <size_t>view.len)
            PyBuffer_Release(&view)
            return hash
        each += 1
    raise ValueError(f"{implementation!r}, expected one of {xxh3_names()}")
