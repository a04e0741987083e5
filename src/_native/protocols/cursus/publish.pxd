from libc.stdint cimport int32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.protocols.cursus.batch cimport Text
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.unseen_writes cimport UnseenWrites


cdef class RoundRobin:
    cdef uint64_t assigned

    cdef int32_t peek(self, int32_t partition_count) noexcept


cdef bint publish_take(Cursor* body) noexcept nogil
cdef ReplySlot* cursus_publish(
    TopicTable topics, Turn turn, Permissions permissions, RoundRobin round_robin,
    UnseenWrites* unseen, Text leader, session, Cursor body)
