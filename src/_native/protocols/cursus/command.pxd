from libc.stdint cimport int64_t
from libc.string cimport memcmp

from broker._native.kernel.cursor cimport Cursor
from broker._native.protocols.cursus.batch cimport Text
from broker._native.wire.reply_slot cimport ReplySlot


cdef inline bint is_word(Text text, const char* word, size_t size) noexcept nogil:
    return text.size == size and memcmp(text.data, word, size) == 0


cdef bint read_number(Text text, bint may_be_negative, int64_t* number) noexcept nogil
cdef bint command_take(Cursor* body, const char* word, size_t size) noexcept nogil
cdef bint argument_take(Cursor* head, Text* name, Text* value) noexcept nogil
cdef bint message_take(Cursor* body, Cursor* head, Text* message) noexcept nogil
cdef bint has_structured_errors(session)
cdef void put_failed(ReplySlot* slot) noexcept nogil
