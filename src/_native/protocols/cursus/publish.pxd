from libc.stdint cimport int32_t, int64_t, uint64_t

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


cdef bint is_word(Text text, const char* word, size_t size) noexcept nogil
cdef bint read_number(Text text, bint may_be_negative, int64_t* number) noexcept nogil
cdef bint argument_take(Cursor* head, Text* name, Text* value) noexcept nogil
cdef bint command_take(Cursor* body, const char* word, size_t size) noexcept nogil
cdef bint message_take(Cursor* body, Cursor* head, Text* message) noexcept nogil
cdef bint has_structured_errors(session)
cdef void put_failed(ReplySlot* slot) noexcept nogil
cdef bint publish_take(Cursor* body) noexcept nogil
cdef ReplySlot* cursus_publish(
    TopicTable topics, Turn turn, Permissions permissions, RoundRobin round_robin,
    UnseenWrites* unseen, Text leader, session, Cursor body)
