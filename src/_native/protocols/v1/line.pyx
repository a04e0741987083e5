"""V1 lines in the form that programs send: one blank between arguments, no other white space.

    V1|<id>|PRODUCE|<topic> <key>:<value>[ acks=0| acks=1]
    V1|<id>|CONSUME|<topic> <partition> <offset>

Lines in any other form are left to Python, which parses all of them.
"""

from libc.stdint cimport INT64_MAX, uint64_t
from libc.string cimport memchr, memcmp

from broker._native.kernel.cursor cimport cursor_take
from broker._native.kernel.decimal cimport parse_digits

cdef enum:
    BAR = 0x7C
    BLANK = 0x20
    RETURN = 0x0D
    VERSION_SIZE = 3
    COMMAND_SIZE = 8          # with the bar after it
    ID_SIZE_MAX = 255
    DIGITS_MAX = 18           # of numbers that always fit into an int64


cdef Command line_read(Cursor frame, Line* line) noexcept nogil:
    """Split a line into its parts; return its command."""
    cdef const uint8_t* start = frame.next
    cdef const uint8_t* bar
    cdef const uint8_t* name
    cdef const uint8_t* at
    if frame.left > 0 and start[frame.left - 1] == RETURN:
        frame.left -= 1
    name = cursor_take(&frame, VERSION_SIZE)
    if name == NULL or memcmp(name, b"V1|", VERSION_SIZE) != 0:
        return COMMAND_OTHER
    bar = <const uint8_t*>memchr(frame.next, BAR, min(frame.left, <size_t>ID_SIZE_MAX + 1))
    if bar == NULL or bar == frame.next:
        return COMMAND_OTHER
    at = frame.next
    while at < bar:
        if not BLANK < at[0] < 0x7F:
            return COMMAND_OTHER
        at += 1
    cursor_take(&frame, <size_t>(bar + 1 - frame.next))
    line.head = start
    line.head_size = <size_t>(bar + 1 - start)
    name = cursor_take(&frame, COMMAND_SIZE)
    if name == NULL:
        return COMMAND_OTHER
    line.args = frame
    if memcmp(name, b"PRODUCE|", COMMAND_SIZE) == 0:
        return COMMAND_PRODUCE
    if memcmp(name, b"CONSUME|", COMMAND_SIZE) == 0:
        return COMMAND_CONSUME
    return COMMAND_OTHER


cdef bint word_take(Cursor* args, Cursor* word) noexcept nogil:
    """Step over a word and the blank after it, which must be followed by another word."""
    cdef const uint8_t* blank = <const uint8_t*>memchr(args.next, BLANK, args.left)
    word.next = args.next
    word.left = args.left if blank == NULL else <size_t>(blank - args.next)
    cursor_take(args, word.left)
    if blank != NULL:
        cursor_take(args, 1)
        if args.left == 0:
            return False
    return word.left > 0


cdef bint number_take(Cursor* args, int64_t* number) noexcept nogil:
    """Parse a word of digits; return False for any other word, and for more than DIGITS_MAX."""
    cdef Cursor word
    return (word_take(args, &word) and word.left <= DIGITS_MAX
            and parse_digits(word.next, word.left, <uint64_t>INT64_MAX, <uint64_t*>number))
