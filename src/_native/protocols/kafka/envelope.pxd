from libc.stdint cimport int16_t, int32_t, uint8_t

from broker._native.kernel.cursor cimport Cursor

cdef enum:
    KEY_API_VERSIONS = 18
    API_KEYS = 128           # above every key that exists (95 of them in Kafka 4.4)
    REQUEST_HEAD_MIN = 10    # key, version, correlation id, client id length

# The versions that are served, and the first version whose headers have tagged fields.
cdef struct ApiTable:
    int16_t version_min[API_KEYS]      # -1: the key is not served
    int16_t version_max[API_KEYS]
    int16_t flexible_from[API_KEYS]    # 32767: never

cdef enum EnvelopeStatus:
    ENVELOPE_OK
    ENVELOPE_MALFORMED       # the peer is not speaking this protocol: close
    ENVELOPE_UNSUPPORTED     # a key or version that is not served: close (no error response exists)

cdef struct RequestHead:
    int16_t api_key
    int16_t api_version
    int32_t correlation_id
    const uint8_t* client_id           # NULL: null
    int16_t client_id_size
    bint is_flexible
    Cursor body


cdef int apis_read(rows, ApiTable* apis) except -1
cdef EnvelopeStatus envelope_read(Cursor frame, ApiTable* apis, RequestHead* head) noexcept nogil
