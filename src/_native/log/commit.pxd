"""The threads that make appends durable, and their job; see commit.pyx."""

from libc.stdint cimport int64_t


cdef extern from "log/sync_threads.h" nogil:
    enum: SYNC_JOB_FILES_MAX

    ctypedef struct SyncJob:
        int fds[3]            # synced in this order, -1 = unused
        int is_folder[3]      # 1 = fsync (a folder), 0 = fdatasync
        int64_t truncate_to   # >= 0: fds[0] is truncated to it first; -1: not truncated
        void* owner           # set by the submitter; the threads never read it
        int64_t target        # set by the submitter: the durable end once this job has succeeded
        int result            # 0, or -errno of the first failure
        int64_t took_us       # how long its syncs have taken
        SyncJob* next

    ctypedef struct SyncThreads:
        pass


cdef class CommitThread:
    cdef SyncThreads* threads
    cdef readonly int event_fd

    cdef void submit(self, SyncJob* job) noexcept nogil
    cdef SyncJob* take_finished(self) noexcept nogil
