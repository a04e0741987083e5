/* Threads that sync files, first come first served, and tell the event loop what is durable.
 *
 * A job's memory belongs to its submitter; the threads link it, sync its files, store the result
 * and hand it back. They touch no Python object. One eventfd becomes readable when the list of
 * finished jobs stops being empty, so a burst of syncs wakes the loop once. */
#ifndef BROKER_SYNC_THREADS_H
#define BROKER_SYNC_THREADS_H

#include <stdint.h>

enum { SYNC_JOB_FILES_MAX = 3, SYNC_THREADS_MAX = 64 };

typedef struct SyncJob {
    int fds[SYNC_JOB_FILES_MAX];       /* synced in this order, -1 = unused */
    int is_folder[SYNC_JOB_FILES_MAX]; /* 1 = fsync (a folder), 0 = fdatasync */
    int64_t truncate_to;               /* >= 0: fds[0] is truncated to it first, -1 = not */
    void *owner;                       /* the submitter's; the threads never read it */
    int64_t target;                    /* the submitter's: the durable end this job proves */
    int result;                        /* 0, or -errno of the first failure; then no more is done */
    int64_t started_ns;                /* CLOCK_MONOTONIC */
    int64_t finished_ns;
    struct SyncJob *next; /* the threads', until the job is taken back */
} SyncJob;

/* The file syscalls, passed in: they live in another shared object (kernel/file_ops). */
typedef struct SyncCalls {
    int (*truncate)(int fd, int64_t size);
    int (*start_writeback)(int fd);
    int (*sync_data)(int fd);
    int (*sync)(int fd);
} SyncCalls;

typedef struct SyncThreads SyncThreads;

/* Starts 0 to SYNC_THREADS_MAX threads, all signals blocked. NULL with errno set on failure.
 * Without any, jobs wait for sync_threads_run: a simulation has one order of operations. */
SyncThreads *sync_threads_start(int count, const SyncCalls *calls);

/* Readable while finished jobs wait to be taken. */
int sync_threads_event_fd(const SyncThreads *threads);

/* Queues a job behind the others. After stop it comes straight back with -ECANCELED. */
void sync_threads_submit(SyncThreads *threads, SyncJob *job);

/* Syncs in the caller's thread what waits. */
void sync_threads_run(SyncThreads *threads);

/* Takes all finished jobs, linked by `next` in order of finishing, and clears the eventfd. */
SyncJob *sync_threads_take_finished(SyncThreads *threads);

/* Ends the threads after the last queued job. Finished jobs can still be taken. Idempotent. */
void sync_threads_stop(SyncThreads *threads);

/* Stops if that was not done, then closes the eventfd and frees everything but the jobs. */
void sync_threads_free(SyncThreads *threads);

#endif
