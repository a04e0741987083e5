/* Jobs wait in `waiting`. If there are several, one thread takes a number of them, starts the
 * writeback of all and moves them to `started`: the disk then works on all files at once, and
 * their extents and inodes reach the journal in one commit instead of one each. Every thread
 * takes jobs from `started` and syncs them. A job that waits alone skips that step. */
#define _GNU_SOURCE
#include "log/sync_threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Jobs whose writeback one thread starts before it lets the others sync them: enough to fill a
 * disk's queue, few enough (some 10 us each) not to keep them waiting. */
enum { WRITEBACK_JOBS_MAX = 32 };

typedef struct JobList {
    SyncJob *first;
    SyncJob *last;
} JobList;

struct SyncThreads {
    GetFileTable *get_table;
    pthread_mutex_t lock; /* guards all below but `event_fd`, `count` and `threads` */
    pthread_cond_t work;
    JobList waiting;
    JobList started;
    JobList finished; /* not empty <=> the eventfd is readable */
    int stopping;
    int event_fd;
    int count;
    pthread_t threads[SYNC_THREADS_MAX];
};

static void list_append(JobList *list, SyncJob *first, SyncJob *last) {
    last->next = NULL;
    if (list->first) {
        list->last->next = first;
    } else {
        list->first = first;
    }
    list->last = last;
}

static SyncJob *list_pop(JobList *list) {
    SyncJob *job = list->first;
    list->first = job->next;
    job->next = NULL;
    return job;
}

/* Takes up to `limit` jobs, which stay linked. */
static JobList list_take(JobList *list, int limit) {
    JobList taken = {list->first, list->first};
    while (--limit > 0 && taken.last->next) {
        taken.last = taken.last->next;
    }
    list->first = taken.last->next;
    taken.last->next = NULL;
    return taken;
}

/* ---- the threads -------------------------------------------------------------------------- */

/* Returns 0 or the first failure. Nothing is retried, and nothing is done after a failure: the
 * state after a failed sync is unknown, and its submitter must decide. */
static int sync_files(const FileTable *calls, const SyncJob *job) {
    int result = job->truncate_to >= 0 ? calls->truncate(job->fds[0], job->truncate_to) : 0;
    for (int i = 0; i < SYNC_JOB_FILES_MAX && result == 0; i++) {
        if (job->fds[i] >= 0) {
            result = (job->is_folder[i] ? calls->sync : calls->sync_data)(job->fds[i]);
        }
    }
    return result;
}

/* Only the first file: the others (a new segment, a folder) are rare and small. A file whose
 * writeback cannot start has failed; its sync might not report the error again. */
static void start_writeback(const FileTable *calls, const JobList *jobs) {
    for (SyncJob *job = jobs->first; job; job = job->next) {
        if (job->fds[0] >= 0 && !job->is_folder[0]) {
            job->result = calls->start_writeback(job->fds[0]);
        }
    }
}

static void finish(SyncThreads *threads, SyncJob *job) {
    pthread_mutex_lock(&threads->lock);
    if (!threads->finished.first) {
        eventfd_write(threads->event_fd, 1); /* from 0: cannot block or overflow */
    }
    list_append(&threads->finished, job, job);
    pthread_mutex_unlock(&threads->lock);
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void run(SyncThreads *threads, SyncJob *job) {
    if (job->result == 0) {
        int64_t begun_us = now_us();
        job->result = sync_files(threads->get_table(), job);
        job->took_us = now_us() - begun_us;
    }
    finish(threads, job);
}

static void *thread_main(void *argument) {
    SyncThreads *threads = argument;
    pthread_mutex_lock(&threads->lock);
    for (;;) {
        SyncJob *waiting = threads->waiting.first;
        if (waiting && (waiting->next || threads->started.first)) {
            JobList jobs = list_take(&threads->waiting, WRITEBACK_JOBS_MAX);
            pthread_mutex_unlock(&threads->lock);
            start_writeback(threads->get_table(), &jobs);
            pthread_mutex_lock(&threads->lock);
            list_append(&threads->started, jobs.first, jobs.last);
            pthread_cond_broadcast(&threads->work);
        } else if (waiting || threads->started.first) {
            SyncJob *job = list_pop(waiting ? &threads->waiting : &threads->started);
            pthread_mutex_unlock(&threads->lock);
            run(threads, job);
            pthread_mutex_lock(&threads->lock);
        } else if (threads->stopping) {
            break;
        } else {
            pthread_cond_wait(&threads->work, &threads->lock);
        }
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

/* ---- for submitters ------------------------------------------------------------------------ */

static int start_threads(SyncThreads *threads, int count) {
    sigset_t all;
    sigset_t before;
    int error = 0;
    sigfillset(&all); /* the main thread handles signals; a new thread inherits the mask */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (threads->count < count && error == 0) {
        error = pthread_create(&threads->threads[threads->count], NULL, thread_main, threads);
        if (error == 0) {
            pthread_setname_np(threads->threads[threads->count], "broker-sync");
            threads->count++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

SyncThreads *sync_threads_start(int count, GetFileTable *get_table) {
    if (count < 0 || count > SYNC_THREADS_MAX) {
        errno = EINVAL;
        return NULL;
    }
    SyncThreads *threads = calloc(1, sizeof *threads);
    if (!threads) {
        return NULL;
    }
    threads->get_table = get_table;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->work, NULL);
    threads->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = threads->event_fd < 0 ? errno : start_threads(threads, count);
    if (error) {
        sync_threads_free(threads);
        errno = error;
        return NULL;
    }
    return threads;
}

int sync_threads_event_fd(const SyncThreads *threads) {
    return threads->event_fd;
}

void sync_threads_submit(SyncThreads *threads, SyncJob *job) {
    job->result = 0;
    job->took_us = 0;
    pthread_mutex_lock(&threads->lock);
    int stopping = threads->stopping;
    if (!stopping) {
        list_append(&threads->waiting, job, job);
    }
    pthread_mutex_unlock(&threads->lock);
    if (!stopping) {
        pthread_cond_signal(&threads->work); /* unlocked: a woken thread would only wait for the lock */
    } else {
        job->result = -ECANCELED;
        finish(threads, job);
    }
}

void sync_threads_run(SyncThreads *threads) {
    pthread_mutex_lock(&threads->lock);
    while (threads->waiting.first) {
        SyncJob *job = list_pop(&threads->waiting);
        pthread_mutex_unlock(&threads->lock);
        run(threads, job);
        pthread_mutex_lock(&threads->lock);
    }
    pthread_mutex_unlock(&threads->lock);
}

SyncJob *sync_threads_take_finished(SyncThreads *threads) {
    eventfd_t wakes;
    pthread_mutex_lock(&threads->lock);
    SyncJob *jobs = threads->finished.first;
    threads->finished.first = NULL;
    eventfd_read(threads->event_fd, &wakes);
    pthread_mutex_unlock(&threads->lock);
    return jobs;
}

void sync_threads_stop(SyncThreads *threads) {
    pthread_mutex_lock(&threads->lock);
    threads->stopping = 1;
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->lock);
    while (threads->count > 0) {
        pthread_join(threads->threads[--threads->count], NULL);
    }
    sync_threads_run(threads); /* jobs still queued if there are no threads */
}

void sync_threads_free(SyncThreads *threads) {
    sync_threads_stop(threads);
    if (threads->event_fd >= 0) {
        close(threads->event_fd);
    }
    pthread_cond_destroy(&threads->work);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
}
