"""Frames and request headers of Kafka.

A frame is an int32 size and as many bytes. A request header is (Kafka protocol guide):

    int16 api key | int16 api version | int32 correlation id | nullable string client id
    from the first flexible version of the api on: tagged fields

The client id has an int16 length in flexible headers, too. ApiVersions is read in any version: a
version above ours is answered in version 0 with error 35 (KIP-511), so its header must be parsed.
"""

from broker._native.kernel.cursor cimport READ_DONE, cursor_int16, cursor_int32
from broker._native.messages.fields cimport STRING_MAX, TAGS_MAX, read_string, read_tags

from broker.model import limits

assert TAGS_MAX == limits.TAGS_PER_STRUCT_MAX
assert STRING_MAX == limits.STRING_BYTES_MAX

cdef int apis_read(rows, ApiTable* apis) except -1:
    """Fill the table from rows of (key, min, max, first flexible version)."""
    cdef int i
    for i in range(API_KEYS):
        apis.version_min[i] = -1
    for key, version_min, version_max, flexible_from in rows:
        if not 0 <= key < API_KEYS:
            raise ValueError(f"api key {key}, expected 0 to {API_KEYS - 1}")
        apis.version_min[key] = version_min
        apis.version_max[key] = version_max
        apis.flexible_from[key] = flexible_from
    return 0


cdef EnvelopeStatus envelope_read(Cursor frame, ApiTable* apis, RequestHead* head) noexcept nogil:
    """Read the header of one whole frame; head.body is what follows."""
    cdef int32_t size = 0
    if (cursor_int16(&frame, &head.api_key) != READ_DONE
            or cursor_int16(&frame, &head.api_version) != READ_DONE
            or cursor_int32(&frame, &head.correlation_id) != READ_DONE):
        return ENVELOPE_MALFORMED
    if (head.api_key < 0 or head.api_key >= API_KEYS
            or apis.version_min[head.api_key] < 0 or head.api_version < 0):
        return ENVELOPE_UNSUPPORTED
    if head.api_key != KEY_API_VERSIONS and not (
            apis.version_min[head.api_key] <= head.api_version
            <= apis.version_max[head.api_key]):
        return ENVELOPE_UNSUPPORTED
    if not read_string(&frame, False, &head.client_id, &size):
        return ENVELOPE_MALFORMED
    head.client_id_size = <int16_t>size
    head.is_flexible = head.api_version >= apis.flexible_from[head.api_key]
    if not read_tags(&frame, head.is_flexible):
        return ENVELOPE_MALFORMED
    head.body = frame
    return ENVELOPE_OK
