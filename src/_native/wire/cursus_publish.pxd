from libc.stdint cimport int32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.wire.reply_slot cimport ReplySlot


cdef class RoundRobin:
    cdef uint64_t given

    cdef int32_t peek(self, int32_t partition_count) noexcept


cdef ReplySlot* cursus_publish(
    TopicTable topics, Turn turn, RoundRobin turns, session, Cursor body)
