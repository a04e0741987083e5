from libc.stdint cimport int64_t

from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.protocols.kafka.envelope cimport RequestHead
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.request_meter cimport RequestMeter
from broker._native.wire.unseen_writes cimport UnseenWrites

cdef enum ServeStatus:
    SERVED                # there is a slot with the reply, which may still wait
    SERVED_SILENTLY       # acks=0: no reply
    SERVED_CLOSE          # acks=0 and an error: closing is the only signal
    NOT_SERVED            # nothing was changed: the Python handler serves the whole request


cdef ServeStatus produce_serve(TopicTable topics, Turn turn, Permissions permissions,
                               RequestHead* head, RequestMeter* meter, UnseenWrites* unseen,
                               ReplySlot** slot, int64_t* decompressed_bytes) noexcept
cdef void tell_throttle(ReplySlot* slot, RequestHead* head, int64_t throttle_ms) noexcept
