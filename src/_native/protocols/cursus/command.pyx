"""Text commands that are served natively: their parts, and the answer to one whose log fails.

    [envelope] KEYWORD name=value ... message=...       blanks between them, arguments in any order

What is unusual is left to Python, whose parser is the specification of this one
(protocols/cursus/grammar.py).
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.cursor cimport cursor_take
from broker._native.kernel.decimal cimport parse_digits
from broker._native.log.turn cimport LOG_NOT_LED, LOG_OFFLINE, LOG_TIMED_OUT, LogStatus
from broker._native.protocols.cursus.produce cimport put_failure
from broker._native.wire.frame cimport FRAME_HEAD_SIZE
from broker._native.wire.reply_slot cimport slot_replace

cdef extern from "string.h" nogil:
    void* memmem(const void* data, size_t size, const void* wanted, size_t wanted_size)

cdef enum:
    DIGITS_MAX = 18               # of numbers that always fit into an int64
    EQUALS = 0x3D
    ENVELOPE_HEAD = 2
    HEAD_MAX = 2048               # bytes before `message=`, natively
    MESSAGE_SIZE = 8              # message=
    MINUS = 0x2D

cdef const char* FAILED = b'ERROR: command_failed reason="the log of the partition has failed"'
# Errors on which clients try again.
cdef const char* NOT_LEADER = b"ERROR: NOT_LEADER"
cdef const char* TOO_FEW = (
    b'ERROR: leader_not_found reason="too few replicas are in sync, try again later"')
cdef const char* TOO_LATE = (
    b'ERROR: leader_not_found reason="the replicas in sync have not copied it in time"')


# ---- parsing -------------------------------------------------------------------------------------

cdef inline bint is_white(uint8_t byte) noexcept nogil:
    return byte == 0x20 or 0x09 <= byte <= 0x0D


cdef bint read_number(Text text, bint may_be_negative, int64_t* number) noexcept nogil:
    """Parse digits, none being 0; return False for a number in any other notation."""
    cdef bint is_negative = may_be_negative and text.size > 1 and text.data[0] == MINUS
    if text.size > DIGITS_MAX or not parse_digits(
            text.data + is_negative, text.size - is_negative, <uint64_t>INT64_MAX,
            <uint64_t*>number):
        return False
    if is_negative:
        number[0] = -number[0]
    return True


cdef bint command_take(Cursor* body, const char* word, size_t size) noexcept nogil:
    """Step over the envelope, if any, and a keyword with a blank; return False for others."""
    cdef const uint8_t* found
    if body.left > ENVELOPE_HEAD and body.next[0] == 0:
        if cursor_take(body, ENVELOPE_HEAD + <size_t>body.next[1]) == NULL:
            return False
    found = cursor_take(body, size)
    return found != NULL and memcmp(found, word, size) == 0


cdef bint argument_take(Cursor* head, Text* name, Text* value) noexcept nogil:
    """Take the next name=value; without another one the name is empty. Return False for others."""
    while head.left > 0 and is_white(head.next[0]):
        cursor_take(head, 1)
    name.data = head.next
    name.size = 0
    if head.left == 0:
        return True
    while head.left > 0 and not is_white(head.next[0]) and head.next[0] != EQUALS:
        cursor_take(head, 1)
    name.size = <size_t>(head.next - name.data)
    if head.left == 0 or head.next[0] != EQUALS or name.size == 0:
        return False
    cursor_take(head, 1)
    value.data = head.next
    while head.left > 0 and not is_white(head.next[0]):
        cursor_take(head, 1)
    value.size = <size_t>(head.next - value.data)
    return True


cdef bint message_take(Cursor* body, Cursor* head, Text* message) noexcept nogil:
    """Take the arguments before a message, and the message; return False without one."""
    cdef const uint8_t* message_at
    while body.left > 0 and (is_white(body.next[body.left - 1]) or body.next[body.left - 1] == 0):
        body.left -= 1
    message_at = <const uint8_t*>memmem(body.next, min(body.left, <size_t>HEAD_MAX), b"message=",
                                        MESSAGE_SIZE)
    if message_at == NULL:
        return False
    head.next = body.next
    head.left = <size_t>(message_at - body.next)
    cursor_take(body, head.left + MESSAGE_SIZE)
    while body.left > 0 and is_white(body.next[0]):
        cursor_take(body, 1)
    message.data = body.next
    message.size = body.left
    return message.size > 0


# ---- answers -------------------------------------------------------------------------------------

cdef bint has_structured_errors(session):
    """Return whether the client asked for structured errors, which only Python writes."""
    cdef object state = getattr(session, "state", None)
    return state is not None and getattr(state, "has_structured_errors", False)


cdef void put_failed(ReplySlot* slot) noexcept nogil:
    """Write the answer for a log that fails, behind the other one."""
    cdef uint32_t failed_size = 66
    store_uint32(slot.data + slot.size, failed_size)
    memcpy(slot.data + slot.size + FRAME_HEAD_SIZE, FAILED, failed_size)
    slot.failed_size = FRAME_HEAD_SIZE + failed_size
    slot.fail = fail_command


cdef void fail_command(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    # A SlotFail.
    if status == LOG_OFFLINE:
        slot_replace(slot, place, status)
    elif status == LOG_NOT_LED:
        put_failure(slot, NOT_LEADER)
    else:
        put_failure(slot, TOO_LATE if status == LOG_TIMED_OUT else TOO_FEW)
