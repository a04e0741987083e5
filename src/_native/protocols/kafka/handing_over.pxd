from broker._native.protocols.kafka.envelope cimport RequestHead
from broker._native.wire.connection cimport Connection
from broker._native.wire.pending_reply cimport PendingReply


cdef PendingReply request_hand_over(Connection connection, RequestHead* head)
