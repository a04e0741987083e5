"""Keeps what is in the memory of this process from other processes and from core files."""

cdef extern from "<sys/prctl.h>" nogil:
    int PR_SET_DUMPABLE
    int prctl(int option, unsigned long argument, ...)


def forbid_dumps() -> None:
    """Leave no core file, and let no other process of this user read this one's memory; prctl(2).

    It holds for child processes that are forked, until one of them runs another program.
    """
    if prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("prctl has refused to forbid core dumps")
