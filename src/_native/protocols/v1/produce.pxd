from libc.stdint cimport uint8_t

from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.protocols.v1.line cimport Line
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.unseen_writes cimport UnseenWrites

# What follows the head of an answer whose log fails before the acknowledgement.
cdef struct Refusal:
    const uint8_t* data
    size_t size


cdef ReplySlot* v1_produce(
    TopicTable topics, Turn turn, Permissions permissions, UnseenWrites* unseen, Line* line,
    Refusal* refusal) noexcept
