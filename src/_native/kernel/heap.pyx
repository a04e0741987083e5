"""Limits how much freed memory the heap keeps.

glibc raises its mmap threshold to the size of the largest mapping that was ever freed, and its trim
threshold to twice that. So one frame of 10 MiB from one bad client would leave 20 MiB resident for
good, and later frames would fragment them.
"""

from broker.model import limits

cdef extern from *:
    """
    #include <malloc.h>
    #if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    #define set_heap_option(option, bytes) mallopt(option, bytes)
    #else  /* another allocator */
    #ifndef M_MMAP_THRESHOLD
    #define M_MMAP_THRESHOLD 0
    #define M_TRIM_THRESHOLD 0
    #endif
    #define set_heap_option(option, bytes) 1
    #endif
    """
    enum:
        M_MMAP_THRESHOLD
        M_TRIM_THRESHOLD
    int set_heap_option(int option, int bytes) nogil


def bound_what_is_kept() -> None:
    """Set fixed mmap and trim thresholds: HEAP_BLOCK_BYTES_MAX and HEAP_KEPT_BYTES_MAX; mallopt(3).

    They apply to the whole process, so a program calls this at its start, and a library does not.
    """
    if not set_heap_option(M_MMAP_THRESHOLD, limits.HEAP_BLOCK_BYTES_MAX):
        raise ValueError(f"a block of {limits.HEAP_BLOCK_BYTES_MAX} bytes is above mallopt's limit")
    if not set_heap_option(M_TRIM_THRESHOLD, limits.HEAP_KEPT_BYTES_MAX):
        raise ValueError(f"mallopt refused to keep {limits.HEAP_KEPT_BYTES_MAX} bytes")
