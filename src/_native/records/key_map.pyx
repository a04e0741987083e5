"""Maps a key to the offset of its newest record, in bounded memory.

A key is stored as 128 bits of its hash: 24 bytes per slot, in an open-addressing table that is at
most three quarters full. When it is full the caller ends its pass over the log there and begins the
next one at `end_offset`.

Two keys with equal hashes would be taken for one, and a record lost. So the hash is the 128-bit
SipHash-1-3 (Aumasson and Bernstein; Python's hash of str, at twice the length) with a random secret
per map: by chance, a collision takes about 2^64 keys, and no client can construct one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import os

from cython cimport final

from broker._native.records.record_walk cimport Span


cdef extern from "kernel/little_endian.h" nogil:
    uint64_t load64_little(const uint8_t* data)

cdef extern from *:
    """
    /* The slot of a hash among n, without a division: the upper half of a product of 128 bits. */
    static inline uint64_t scale_hash(uint64_t hash, uint64_t n)
    {
        return (uint64_t)(((unsigned __int128)hash * n) >> 64);
    }
    """
    uint64_t scale_hash(uint64_t hash, uint64_t n) nogil
    void prefetch "__builtin_prefetch"(const void* address) nogil

cdef enum:
    SECRET_SIZE = 16
    WORD_ROUNDS = 1          # per word of the key
    LAST_ROUNDS = 3          # after the last one

PLACE_BYTES = sizeof(Place)

cdef struct State:
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d


cdef inline uint64_t rotate(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline void stir(State* state, int rounds) noexcept nogil:
    cdef int _i
    for _i in range(rounds):
        state.a += state.b
        state.c += state.d
        state.b = rotate(state.b, 13) ^ state.a
        state.d = rotate(state.d, 16) ^ state.c
        state.a = rotate(state.a, 32)
        state.c += state.b
        state.a += state.d
        state.b = rotate(state.b, 17) ^ state.c
        state.d = rotate(state.d, 21) ^ state.a
        state.c = rotate(state.c, 32)


cdef inline void put_word(State* state, uint64_t word) noexcept nogil:
    state.d ^= word
    stir(state, WORD_ROUNDS)
    state.a ^= word


cdef inline KeyHash hash_key(const uint64_t* secret, const uint8_t* key,
                             size_t size) noexcept nogil:
    cdef KeyHash hash
    cdef State state
    cdef uint64_t word = <uint64_t>size << 56
    cdef size_t left = size
    state.a = secret[0] ^ <uint64_t>0x736F6D6570736575
    state.b = secret[1] ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    state.c = secret[0] ^ <uint64_t>0x6C7967656E657261
    state.d = secret[1] ^ <uint64_t>0x7465646279746573
    while left >= 8:
        put_word(&state, load64_little(key))
        key += 8
        left -= 8
    while left > 0:
        left -= 1
        word |= <uint64_t>key[left] << (8 * left)
    put_word(&state, word)
    state.c ^= 0xEE
    stir(&state, LAST_ROUNDS)
    hash.low = state.a ^ state.b ^ state.c ^ state.d
    state.b ^= 0xDD
    stir(&state, LAST_ROUNDS)
    hash.high = state.a ^ state.b ^ state.c ^ state.d
    return hash


@final
cdef class KeyMap:
    """Has as many keys as fit into `memory_bytes`; `secret` is 16 bytes, random by default."""

    def __cinit__(self, int64_t memory_bytes, bytes secret=None):
        cdef uint64_t i
        secret = os.urandom(SECRET_SIZE) if secret is None else secret
        if PyBytes_GET_SIZE(secret) != SECRET_SIZE:
            raise ValueError(f"a secret of {len(secret)} bytes, expected {SECRET_SIZE}")
        self.place_count = <uint64_t>max(memory_bytes, 0) // sizeof(Place)
        self.capacity = <int64_t>(self.place_count // 4 * 3)
        if self.capacity == 0:
            raise ValueError(f"{memory_bytes} bytes, expected at least {4 * sizeof(Place)}")
        for i in range(2):
            self.secret[i] = load64_little(<const uint8_t*>PyBytes_AS_STRING(secret) + 8 * i)
        self.places = <Place*>malloc(self.place_count * sizeof(Place))
        if self.places == NULL:
            raise MemoryError
        memset(self.places, 0xFF, self.place_count * sizeof(Place))    # offsets of -1

    def __dealloc__(self):
        free(self.places)

    def __len__(self):
        return self.count

    cdef KeyHash foresee(self, const Span* key) noexcept nogil:
        """Hash a key and prefetch its slot: a cache miss takes as long as several records."""
        cdef KeyHash hash = hash_key(self.secret, key.start, <size_t>key.length)
        prefetch(&self.places[scale_hash(hash.low, self.place_count)])
        return hash

    cdef Place* find_slot(self, const KeyHash* hash) noexcept nogil:
        """Return the key's slot, or the empty one where it would be inserted."""
        cdef uint64_t i = scale_hash(hash.low, self.place_count)
        cdef Place* place
        while True:
            place = &self.places[i]
            if place.offset < 0 or (
                    place.hash.low == hash.low and place.hash.high == hash.high):
                return place
            i += 1
            if i == self.place_count:
                i = 0

    cdef bint put(self, const KeyHash* hash, int64_t offset) noexcept nogil:
        """Record the offset of a key's record; False when the key is new and the map is full."""
        cdef Place* place = self.find_slot(hash)
        if place.offset < 0:
            if self.count == self.capacity:
                return False
            self.count += 1
            place.hash = hash[0]
        if offset > place.offset:
            place.offset = offset
        return True

    cdef int64_t find(self, const KeyHash* hash) noexcept nogil:
        """Return the offset of the newest record of a key, -1 for none."""
        return self.find_slot(hash).offset

    def get(self, bytes key not None):
        """Return the offset of the newest record of a key, -1 for none."""
        cdef KeyHash hash = hash_key(self.secret, <const uint8_t*>PyBytes_AS_STRING(key),
                                     <size_t>PyBytes_GET_SIZE(key))
        return self.find(&hash)

    def hash_of(self, bytes key not None):
        """Return the hash of a key in this map: 16 bytes."""
        cdef KeyHash hash = hash_key(self.secret, <const uint8_t*>PyBytes_AS_STRING(key),
                                     <size_t>PyBytes_GET_SIZE(key))
        return int(hash.low).to_bytes(8, "little") + int(hash.high).to_bytes(8, "little")
