/* Threads that sync files, first come first served, and notify the event loop.
 *
 * A job's memory belongs to its submitter; the threads link it, sync its files, store the result
 * and return it. They access no Python object. One eventfd becomes readable when the list of
 * finished jobs stops being empty, so a burst of syncs wakes the loop once. */
#ifndef BROKER_SYNC_THREADS_H
#define BROKER_SYNC_THREADS_H

#include <stdint.h>

#include "kernel/file_ops_table.h"

enum { SYNC_JOB_FILES_MAX = 3, SYNC_THREADS_MAX = 64 };

typedef struct SyncJob {
    int fds[SYNC_JOB_FILES_MAX];       /* synced in this order, -1 = unused */
    int is_folder[SYNC_JOB_FILES_MAX]; /* 1 = fsync (a folder), 0 = fdatasync */
    int64_t truncate_to;               /* >= 0: fds[0] is truncated to it first; -1: not */
    void *owner;                       /* set by the submitter; the threads never read it */
    int64_t target;                    /* set by the submitter: the durable end after the job */
    int result;                        /* 0, or -errno of the first failure, which ends the job */
    int64_t took_us;                   /* how long its syncs have taken */
    struct SyncJob *next; /* used by the threads until the job is taken */
} SyncJob;

/* Returns the table of file syscalls in use, which is in another shared object (kernel/file_ops). */
typedef const FileTable *GetFileTable(void);

typedef struct SyncThreads SyncThreads;

/* Starts 0 to SYNC_THREADS_MAX threads, all signals blocked. NULL with errno set on failure.
 * With 0, jobs wait for sync_threads_run, so that a simulation has one order of operations. */
SyncThreads *sync_threads_start(int count, GetFileTable *get_table);

/* Readable while finished jobs wait to be taken. */
int sync_threads_event_fd(const SyncThreads *threads);

/* Queues a job. After stop it is returned at once with -ECANCELED. */
void sync_threads_submit(SyncThreads *threads, SyncJob *job);

/* Runs the queued jobs in the caller's thread. */
void sync_threads_run(SyncThreads *threads);

/* Takes all finished jobs, linked by `next` in order of finishing, and clears the eventfd. */
SyncJob *sync_threads_take_finished(SyncThreads *threads);

/* Ends the threads after the last queued job. Finished jobs can still be taken. Idempotent. */
void sync_threads_stop(SyncThreads *threads);

/* Stops the threads if necessary, then closes the eventfd and frees everything but the jobs. */
void sync_threads_free(SyncThreads *threads);

#endif
