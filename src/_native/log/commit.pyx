"""The threads that make appends durable: fdatasync without the GIL, results by eventfd.

A partition log submits a job (the files to sync, and the durable end that follows) and does not
wait. The threads sync the jobs in the order of submission and put finished jobs on a list; the
event loop polls `event_fd` and takes them from the list. What was appended before a job was
submitted is durable when its result is 0. A failed sync is reported and never retried: the kernel
has already dropped the dirty pages (see "PostgreSQL's fsync() surprise", LWN 752063). A submitter
has one job in flight per file, so the queue never holds more jobs than there are open logs.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import os
import select

from broker._native.kernel.file_ops cimport FileTable, file_table


cdef extern from "log/sync_threads.h" nogil:
    ctypedef const FileTable* GetFileTable() noexcept nogil

    SyncThreads* sync_threads_start(int count, GetFileTable* get_table)
    int sync_threads_event_fd(const SyncThreads* threads)
    void sync_threads_submit(SyncThreads* threads, SyncJob* job)
    void sync_threads_run(SyncThreads* threads)
    SyncJob* sync_threads_take_finished(SyncThreads* threads)
    void sync_threads_stop(SyncThreads* threads)
    void sync_threads_free(SyncThreads* threads)


@cython.final
cdef class CommitThread:
    """A pool of sync threads, and the eventfd that signals finished jobs."""

    def __cinit__(self, int threads):
        """Start the threads; `event_fd` becomes readable when a job is finished.

        With 0 threads, only `run` and `stop` sync anything: a simulation decides when.
        """
        self.threads = sync_threads_start(threads, file_table)
        if self.threads == NULL:
            raise OSError(errno, f"cannot start {threads} sync threads: {os.strerror(errno)}")
        self.event_fd = sync_threads_event_fd(self.threads)

    def __dealloc__(self):
        if self.threads == NULL:
            return
        with nogil:
            sync_threads_stop(self.threads)
        free_own(sync_threads_take_finished(self.threads), <void*>self)
        sync_threads_free(self.threads)

    cdef void submit(self, SyncJob* job) noexcept nogil:
        sync_threads_submit(self.threads, job)

    cdef SyncJob* take_finished(self) noexcept nogil:
        return sync_threads_take_finished(self.threads)

    def run(self):
        """Run the queued jobs in the calling thread."""
        with nogil:
            sync_threads_run(self.threads)

    def stop(self):
        """Finish every job that was submitted and end the threads; later jobs fail at once."""
        with nogil:
            sync_threads_stop(self.threads)

    # ---- the same for Python code; not to be mixed with native submitters on one CommitThread ----

    def submit_files(self, list fds, int folder_fd=-1, *, int64_t target=0, int64_t truncate_to=-1):
        """Queue a job: these files, then a folder."""
        cdef SyncJob* job
        cdef SyncJob made
        cdef int i
        cdef int count = len(fds)
        if not 0 < count < SYNC_JOB_FILES_MAX:
            raise ValueError(f"submit_files: 1 to {SYNC_JOB_FILES_MAX - 1} files, got {count}")
        for i in range(SYNC_JOB_FILES_MAX):
            made.fds[i] = fds[i] if i < count else -1
            made.is_folder[i] = i == count
        made.fds[count] = folder_fd
        made.owner = <void*>self
        made.target = target
        made.truncate_to = truncate_to
        job = <SyncJob*>malloc(sizeof(SyncJob))
        if job == NULL:
            raise MemoryError
        job[0] = made
        self.submit(job)

    def wait_finished(self, int timeout_ms):
        """Return (target, result) of each finished job, in order; [] after `timeout_ms`."""
        cdef SyncJob* jobs
        cdef SyncJob* job
        poll = select.poll()
        poll.register(self.event_fd, select.POLLIN)
        poll.poll(timeout_ms)
        jobs = job = self.take_finished()
        finished = []
        while job != NULL:
            finished.append((job.target, job.result))
            job = job.next
        free_own(jobs, <void*>self)
        return finished


cdef void free_own(SyncJob* job, void* owner) noexcept:
    cdef SyncJob* following
    while job != NULL:
        following = job.next
        if job.owner == owner:
            free(job)
        job = following
