"""Which keys have surely no stream yet, so that their first event needs no look into a file.

It is a Bloom filter, of layers that are made as keys come: each is four times as large as the one
before, while there is memory, and takes the keys that come from then on. A layer is of blocks of 64
bytes; a key has all of its bits in one block. Of the keys without a stream a few in a hundred have
to be looked up all the same; more, if there is no memory for another layer.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef extern from "kernel/xxh3.h" nogil:
    void xxh3_init()
    uint64_t xxh3_64(const uint8_t* data, size_t size)

xxh3_init()

cdef enum:
    BLOCK_BYTES = 64              # a line of the processor's cache
    BLOCK_WORDS = 8
    BIT_MASK = 511                # of a block
    BIT_SHIFT = 9                 # bits of a hash that choose one of a block
    BITS_PER_KEY = 12
    PROBES = 6
    FIRST_BYTES = 16384           # of the first layer: 11,000 keys
    GROWTH = 4


@cython.final
cdef class FilterMemory:
    """The memory of all filters together.

    Attributes:
        size: what they take.
        size_max: what they may take.
    """

    def __cinit__(self, int64_t size_max):
        """Begin without any."""
        self.size_max = size_max


@cython.final
cdef class KeyFilter:
    """The keys of one partition.

    Attributes:
        is_whole: whether every key that has a stream was added: only then a key can be new.
    """

    def __cinit__(self, FilterMemory memory not None):
        """Begin without keys."""
        self.memory = memory

    def __dealloc__(self):
        cdef int i
        for i in range(self.layer_count):
            self.memory.size -= <int64_t>self.layers[i].block_count * BLOCK_BYTES
            free(self.layers[i].words)

    def add(self, list keys not None):
        """Add keys."""
        cdef bytes key
        for key in keys:
            self.put(<const uint8_t*>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key))

    def complete(self):
        """Note that all keys have been added, if there was memory for any."""
        self.is_whole = not self.has_lost and (self.layer_count > 0 or self.grow())

    def is_new(self, bytes key not None):
        """Return whether a key has surely not been added."""
        return self.lacks(<const uint8_t*>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key))

    cdef void put(self, const uint8_t* key, size_t size) noexcept:
        cdef FilterLayer* last
        cdef uint64_t* block
        cdef uint64_t number = xxh3_64(key, size)
        cdef int _probe
        if self.layer_count == 0 or self.layers[self.layer_count - 1].room <= 0:
            if not self.grow() and self.layer_count == 0:
                self.has_lost = True
                return
        last = &self.layers[self.layer_count - 1]
        last.room -= 1
        block = block_of(last, number)
        number = bits_of(number)
        for _probe in range(PROBES):
            block[(number & BIT_MASK) >> 6] |= <uint64_t>1 << (number & 63)
            number >>= BIT_SHIFT

    cdef bint lacks(self, const uint8_t* key, size_t size) noexcept:
        cdef uint64_t number, bits
        cdef uint64_t* block
        cdef int i, _probe
        if not self.is_whole:
            return False
        number = xxh3_64(key, size)
        for i in range(self.layer_count):
            block = block_of(&self.layers[i], number)
            bits = bits_of(number)
            for _probe in range(PROBES):
                if not block[(bits & BIT_MASK) >> 6] >> (bits & 63) & 1:
                    break
                bits >>= BIT_SHIFT
            else:
                return False
        return True

    cdef bint grow(self) noexcept:
        """Begin another layer; return False if there is no memory for a larger one."""
        cdef FilterMemory memory = self.memory
        cdef FilterLayer* layer = &self.layers[self.layer_count]
        cdef int64_t before = 0
        cdef int64_t size = FIRST_BYTES
        if self.layer_count == LAYERS_MAX:
            return False
        if self.layer_count > 0:
            before = <int64_t>self.layers[self.layer_count - 1].block_count * BLOCK_BYTES
            size = before * GROWTH
        size = min(size, memory.size_max - memory.size) // BLOCK_BYTES * BLOCK_BYTES
        if size <= before:
            return False
        layer.words = <uint64_t*>calloc(<size_t>size // 8, 8)
        if layer.words == NULL:
            return False
        layer.block_count = <uint32_t>(size // BLOCK_BYTES)
        layer.room = size * 8 // BITS_PER_KEY
        memory.size += size
        self.layer_count += 1
        return True


cdef inline uint64_t* block_of(const FilterLayer* layer, uint64_t number) noexcept nogil:
    """Return the block of a key by the upper half of its hash."""
    cdef uint64_t place = (number >> 32) * layer.block_count >> 32
    return layer.words + place * BLOCK_WORDS


cdef inline uint64_t bits_of(uint64_t number) noexcept nogil:
    """Return six numbers of nine bits, mixed from the whole hash."""
    number *= <uint64_t>0x9E3779B97F4A7C15
    return number >> 10 ^ number >> 41
