from broker._native.kernel.cursor cimport Cursor
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.wire.reply_slot cimport ReplySlot


cdef ReplySlot* cursus_produce(TopicTable topics, Turn turn, Cursor body) noexcept
