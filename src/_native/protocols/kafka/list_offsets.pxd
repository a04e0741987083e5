from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.protocols.kafka.envelope cimport RequestHead
from broker._native.wire.reply_slot cimport ReplySlot


cdef ReplySlot* list_offsets_serve(
    TopicTable topics, Permissions permissions, RequestHead* head) noexcept
