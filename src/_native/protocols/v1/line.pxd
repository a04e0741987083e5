from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor

# The commands that the native paths know.
cdef enum Command:
    COMMAND_OTHER             # or written in a form that is left to Python
    COMMAND_PRODUCE
    COMMAND_CONSUME

# A line in the form that programs send.
cdef struct Line:
    const uint8_t* head       # `V1|<correlation id>|`: an answer begins with it
    size_t head_size
    Cursor args


cdef Command line_read(Cursor frame, Line* line) noexcept nogil
cdef bint word_take(Cursor* args, Cursor* word) noexcept nogil
cdef bint number_take(Cursor* args, int64_t* number) noexcept nogil
