from libc.stdint cimport uint8_t

cdef enum Protocol:
    PROTOCOL_UNDECIDED       # too few bytes so far
    PROTOCOL_UNKNOWN         # no protocol that is served here
    PROTOCOL_KAFKA           # from here on in the order of broker.model.protocol_names
    PROTOCOL_V1
    PROTOCOL_RUSTLOG
    PROTOCOL_CURSUS
    PROTOCOL_HTTP
    PROTOCOLS                # how many values there are


cdef Protocol protocol_of(const uint8_t* data, size_t size) noexcept nogil
cdef Protocol protocol_named(str name) except *
