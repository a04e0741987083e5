"""Deadlines of waits, and of their keepalives: set and cleared in constant time, however many.

A wheel of one-millisecond slots: a timer is in the slot of its deadline modulo the wheel's size,
and is due when the hand passes it at or after its deadline (Varghese and Lauck 1987, scheme 6).
"""

from libc.stdint cimport INT64_MAX, int64_t


cdef void wheel_init(TimerWheel* wheel, int64_t now_ms) noexcept nogil:
    cdef int i
    for i in range(WHEEL_SLOTS):
        wheel.slots[i].next = wheel.slots[i].previous = &wheel.slots[i]
    wheel.hand_ms = now_ms
    wheel.earliest_ms = INT64_MAX
    wheel.count = 0


cdef void wheel_set(TimerWheel* wheel, Timer* timer, int64_t deadline_ms) noexcept nogil:
    """Set a timer that is not set."""
    cdef Timer* head
    if deadline_ms < wheel.hand_ms:
        deadline_ms = wheel.hand_ms
    head = &wheel.slots[deadline_ms % WHEEL_SLOTS]
    timer.deadline_ms = deadline_ms
    timer.is_set = True
    timer.next = head
    timer.previous = head.previous
    head.previous.next = timer
    head.previous = timer
    wheel.count += 1
    if deadline_ms < wheel.earliest_ms:
        wheel.earliest_ms = deadline_ms


cdef void wheel_clear(TimerWheel* wheel, Timer* timer) noexcept nogil:
    """Clear a timer, whether it is set or not."""
    if not timer.is_set:
        return
    timer.previous.next = timer.next
    timer.next.previous = timer.previous
    timer.is_set = False
    wheel.count -= 1


cdef Timer* wheel_due(TimerWheel* wheel, int64_t now_ms) noexcept nogil:
    """Remove and return a timer that is due; NULL if there is none."""
    cdef Timer* head
    cdef Timer* timer
    if wheel.count == 0:
        wheel.hand_ms = now_ms
        return NULL
    # After a long sleep one revolution is enough: it passes every slot.
    if now_ms - wheel.hand_ms >= WHEEL_SLOTS:
        wheel.hand_ms = now_ms - WHEEL_SLOTS + 1
    while wheel.hand_ms <= now_ms:
        head = &wheel.slots[wheel.hand_ms % WHEEL_SLOTS]
        timer = head.next
        while timer != head:
            if timer.deadline_ms <= now_ms:
                wheel_clear(wheel, timer)
                return timer
            timer = timer.next
        if wheel.hand_ms == now_ms:
            break
        wheel.hand_ms += 1
    return NULL


cdef int64_t wheel_next(TimerWheel* wheel) noexcept nogil:
    """Return when to look again: the first deadline of this revolution, or its end; -1: never."""
    cdef Timer* timer
    cdef int64_t at
    if wheel.count == 0:
        return -1
    for at in range(wheel.hand_ms, wheel.hand_ms + WHEEL_SLOTS):
        timer = wheel.slots[at % WHEEL_SLOTS].next
        while timer != &wheel.slots[at % WHEEL_SLOTS]:
            if timer.deadline_ms <= at:
                return at
            timer = timer.next
    return wheel.hand_ms + WHEEL_SLOTS
