from libc.stdint cimport int64_t

cdef enum:
    WHEEL_SLOTS = 1024        # of one millisecond each; longer timers take several revolutions

cdef struct Timer:
    Timer* next
    Timer* previous
    int64_t deadline_ms       # monotonic; only read while is_set
    bint is_set
    void* owner               # opaque to the wheel

cdef struct TimerWheel:
    Timer slots[WHEEL_SLOTS]  # heads of circular lists
    int64_t hand_ms           # everything due before this has been returned
    int64_t earliest_ms       # of those set since the owner last reset it to INT64_MAX
    int count


cdef void wheel_init(TimerWheel* wheel, int64_t now_ms) noexcept nogil
cdef void wheel_set(TimerWheel* wheel, Timer* timer, int64_t deadline_ms) noexcept nogil
cdef void wheel_clear(TimerWheel* wheel, Timer* timer) noexcept nogil
cdef Timer* wheel_due(TimerWheel* wheel, int64_t now_ms) noexcept nogil
cdef int64_t wheel_next(TimerWheel* wheel) noexcept nogil
