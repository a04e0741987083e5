from broker._native.kernel.cursor cimport Cursor
from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.protocols.cursus.stream_heads cimport StreamTables
from broker._native.wire.reply_slot cimport ReplySlot


cdef bint append_take(Cursor* body) noexcept nogil
cdef ReplySlot* cursus_append(
    TopicTable topics, Turn turn, Permissions permissions, StreamTables tables, session,
    Cursor body)
