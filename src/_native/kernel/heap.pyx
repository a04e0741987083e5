"""When the process gives freed memory back to the system.

glibc takes the size of the largest mapping that was ever freed as its new limit for mappings, and
twice that as what it keeps at the end of the heap. One frame of 10 MiB from one bad client would
so leave 20 MiB resident for good, and the next ones fragment them.
"""

from broker.model import limits

cdef extern from *:
    """
    #include <malloc.h>
    #if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    #define set_heap_option(option, bytes) mallopt(option, bytes)
    #else  /* another heap, with rules of its own */
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
    """Have large blocks be mappings of their own, and a free end of the heap go back.

    Both limits (HEAP_BLOCK_BYTES_MAX, HEAP_KEPT_BYTES_MAX) no longer move then; mallopt(3). The
    whole process's, so it is for a program's start, not for a library.
    """
    if not set_heap_option(M_MMAP_THRESHOLD, limits.HEAP_BLOCK_BYTES_MAX):
        raise ValueError(f"a block of {limits.HEAP_BLOCK_BYTES_MAX} bytes is above mallopt's limit")
    if not set_heap_option(M_TRIM_THRESHOLD, limits.HEAP_KEPT_BYTES_MAX):
        raise ValueError(f"{limits.HEAP_KEPT_BYTES_MAX} bytes are not mallopt's to keep")
