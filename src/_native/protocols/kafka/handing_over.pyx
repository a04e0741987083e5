"""Requests of Kafka that are left to Python, with the head of their answer.

The head is the answer's length, the correlation id and, in flexible versions, empty tagged fields.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.protocols.kafka.envelope cimport KEY_API_VERSIONS, RequestHead
from broker._native.wire.connection cimport Connection
from broker._native.wire.pending_reply cimport PendingReply, hand_over


cdef PendingReply request_hand_over(Connection connection, RequestHead* head):
    """Leave a request to Python; None if the connection was closed."""
    cdef PendingReply pending = hand_over(connection, head.body)
    if pending is None:
        return None
    pending.operation = head.api_key
    pending.version = head.api_version
    if head.client_id != NULL:
        pending.client_id = PyBytes_FromStringAndSize(
            <const char*>head.client_id, head.client_id_size).decode("utf-8", "replace")
    # ApiVersions is answered without tagged fields in all versions (KIP-511).
    pending.head.size = 9 if head.is_flexible and head.api_key != KEY_API_VERSIONS else 8
    store_uint32(pending.head.data + 4, head.correlation_id)
    pending.head.data[8] = 0
    return pending
