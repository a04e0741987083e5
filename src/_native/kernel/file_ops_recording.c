/* The recording table. Paths come from the kernel (/proc/self/fd), so a file that was opened before
 * the recording, or renamed, still has its right name in the record. They are kept while a file is
 * open, until an operation changes names or the recording starts anew: asking takes longer than
 * most operations. */
#define _GNU_SOURCE
#include "kernel/file_ops_recording.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each kind of operation: its constant, and its name in the record. */
#define EACH_KIND(X) \
    X(OPEN, "open") \
    X(CLOSE, "close") \
    X(READ, "read") \
    X(WRITE, "write") \
    X(ALLOCATE, "allocate") \
    X(TRUNCATE, "truncate") \
    X(SIZE, "size") \
    X(START_WRITEBACK, "start_writeback") \
    X(SYNC_DATA, "sync_data") \
    X(SYNC, "sync") \
    X(SYNC_FOLDER, "sync_folder") \
    X(SYNC_FILESYSTEM, "sync_filesystem") \
    X(RENAME, "rename") \
    X(REMOVE, "remove") \
    X(MAKE_FOLDER, "make_folder") \
    X(LIST_FOLDER, "list_folder") \
    X(SEND, "send")

#define AS_CONSTANT(kind, name) KIND_##kind,
#define AS_NAME(kind, name) name,

enum { EACH_KIND(AS_CONSTANT) KINDS };
static const char *const kind_names[] = {EACH_KIND(AS_NAME)};

typedef struct Fault {
    int kind;
    int error;
    int after;
    int times;
    int is_hidden;
    char path_part[NAME_MAX + 1];
} Fault;

typedef struct Call {
    int kind;
    int64_t position;
    int64_t size;
    const void *bytes; /* written; the target path of a rename */
    size_t bytes_size;
    char path[PATH_MAX];
    char target[PATH_MAX]; /* of a rename */
} Call;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FileOperation *first;
static FileOperation **last_next = &first;
static int64_t recorded_count;
static size_t recorded_bytes;
static int64_t lost_count;
static Fault faults[FAULTS_MAX];
static int fault_count;
static int keeps_failures_only;
static int is_planned; /* the running operation fails as planned */
static int is_hidden;  /* and reports success */
static char is_opened_here[OPEN_PATHS_MAX]; /* by descriptor, and so it will be closed here */
static char *open_paths[OPEN_PATHS_MAX];    /* NULL: the kernel is to be asked */
static int open_paths_end;

const char *file_operation_name(int kind) {
    return kind >= 0 && kind < KINDS ? kind_names[kind] : NULL;
}

static void forget_path(int fd) {
    if (fd >= 0 && fd < OPEN_PATHS_MAX) {
        free(open_paths[fd]);
        open_paths[fd] = NULL;
    }
}

static void forget_paths(void) {
    while (open_paths_end > 0) {
        forget_path(--open_paths_end);
    }
}

static void free_operations(void) {
    while (first) {
        FileOperation *next = first->next;
        free(first);
        first = next;
    }
    last_next = &first;
    recorded_count = 0;
    recorded_bytes = 0;
    lost_count = 0;
}

void recording_clear(void) {
    pthread_mutex_lock(&lock);
    free_operations();
    forget_paths();
    fault_count = 0;
    keeps_failures_only = 0;
    pthread_mutex_unlock(&lock);
}

void recording_free_operations(void) {
    pthread_mutex_lock(&lock);
    free_operations();
    pthread_mutex_unlock(&lock);
}

void recording_keep_failures(void) {
    pthread_mutex_lock(&lock);
    keeps_failures_only = 1;
    pthread_mutex_unlock(&lock);
}

int recording_fail(int kind, const char *path_part, int error, int after, int times,
                   int hides) {
    if (strlen(path_part) > NAME_MAX) {
        return -ENAMETOOLONG;
    }
    if (hides && kind != KIND_WRITE && kind != KIND_SYNC_DATA && kind != KIND_SYNC) {
        return -EINVAL;
    }
    pthread_mutex_lock(&lock);
    int result = fault_count < FAULTS_MAX ? 0 : -ENOSPC;
    if (result == 0) {
        Fault *fault = &faults[fault_count++];
        *fault = (Fault){.kind = kind, .error = error, .after = after, .times = times,
                         .is_hidden = hides};
        strcpy(fault->path_part, path_part);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int64_t recording_operations(const FileOperation **operations) {
    pthread_mutex_lock(&lock);
    *operations = first;
    int64_t count = lost_count ? -ENOBUFS : recorded_count;
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- names -------------------------------------------------------------------------------- */

/* An absolute path without links, also for a file that does not exist (yet) in a folder that
 * does. */
static void canonical_path(const char *path, char into[PATH_MAX]) {
    if (realpath(path, into)) {
        return;
    }
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t folder_size = slash ? (size_t)(slash - path) + 1 : 0;
    if (folder_size < sizeof folder) {
        memcpy(folder, path, folder_size);
        folder[folder_size] = 0;
        if (realpath(slash ? folder : ".", into) && strlen(into) + strlen(name) + 2 <= PATH_MAX) {
            strcat(strcat(into, "/"), name);
            return;
        }
    }
    snprintf(into, PATH_MAX, "%s", path);
}

static void keep_path(int fd, const char *path) {
    if (fd >= 0 && fd < OPEN_PATHS_MAX && is_opened_here[fd]) {
        free(open_paths[fd]);
        open_paths[fd] = strdup(path);
        open_paths_end = fd < open_paths_end ? open_paths_end : fd + 1;
    }
}

static void path_of_fd(int fd, char into[PATH_MAX]) {
    char link[64];
    if (fd >= 0 && fd < open_paths_end && open_paths[fd]) {
        strcpy(into, open_paths[fd]);
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, into, PATH_MAX - 1);
    into[size > 0 ? size : 0] = 0;
    keep_path(fd, into);
}

/* ---- one operation ------------------------------------------------------------------------ */

/* From begin to finish no other operation runs. */
static void begin(Call *call, int kind, int64_t position, int64_t size) {
    pthread_mutex_lock(&lock);
    is_planned = 0;
    is_hidden = 0;
    call->kind = kind;
    call->position = position;
    call->size = size;
    call->bytes_size = 0;
    call->path[0] = call->target[0] = 0; /* not all of the 8 KB */
}

static void begin_on_fd(Call *call, int kind, int fd, int64_t position, int64_t size) {
    begin(call, kind, position, size);
    path_of_fd(fd, call->path);
}

static void begin_on_path(Call *call, int kind, const char *path, int64_t position, int64_t size) {
    begin(call, kind, position, size);
    canonical_path(path, call->path);
}

static int is_meant(const Fault *fault, const char *path) {
    return strstr(path, fault->path_part) || fnmatch(fault->path_part, path, 0) == 0;
}

/* Returns 0, or the planned -errno of this operation. */
static int planned_failure(const Call *call) {
    for (int i = 0; i < fault_count; i++) {
        Fault *fault = &faults[i];
        if (fault->kind != call->kind || fault->times == 0 ||
            !(is_meant(fault, call->path) || is_meant(fault, call->target))) {
            continue;
        }
        if (fault->after > 0) {
            fault->after--;
            continue;
        }
        fault->times--;
        is_planned = 1;
        is_hidden = fault->is_hidden;
        return -fault->error;
    }
    return 0;
}

/* Copies the call, its path and its bytes into one block; NULL when the record is full. */
static FileOperation *copy_of(const Call *call, int64_t result) {
    size_t path_size = strlen(call->path) + 1;
    size_t whole_size = sizeof(FileOperation) + path_size + call->bytes_size;
    if (whole_size > RECORDED_BYTES_MAX - recorded_bytes) {
        return NULL;
    }
    FileOperation *operation = malloc(whole_size);
    if (operation) {
        char *path = (char *)(operation + 1);
        memcpy(path, call->path, path_size);
        if (call->bytes_size) {
            memcpy(path + path_size, call->bytes, call->bytes_size);
        }
        *operation = (FileOperation){
            .kind = call->kind, .position = call->position, .size = call->size, .result = result,
            .path = path, .bytes = path + path_size, .bytes_size = call->bytes_size};
        recorded_bytes += whole_size;
    }
    return operation;
}

/* Records the operation and lets others run; returns the result that it reports. */
static int64_t finish(const Call *call, int64_t result) {
    int64_t reported = is_hidden ? call->size : result; /* of a sync 0 */
    if (keeps_failures_only && !is_planned) {
        pthread_mutex_unlock(&lock);
        return reported;
    }
    FileOperation *operation = copy_of(call, result);
    if (operation) {
        *last_next = operation;
        last_next = &operation->next;
        recorded_count++;
    } else {
        lost_count++;
    }
    pthread_mutex_unlock(&lock);
    return reported;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* Defines recorded_OPERATION, which calls the operation of the real table unless it fails as planned.
 * The last arguments begin the call. */
#define RECORDED(type, operation, parameters, arguments, ...) \
    static type recorded_##operation parameters { \
        Call call; \
        __VA_ARGS__; \
        int failure = planned_failure(&call); \
        return (type)finish(&call, failure ? failure : file_table_real.operation arguments); \
    }

RECORDED(ssize_t, pread, (int fd, void *into, size_t size, int64_t position),
         (fd, into, size, position),
         begin_on_fd(&call, KIND_READ, fd, position, (int64_t)size))
RECORDED(int, allocate, (int fd, int64_t position, int64_t size), (fd, position, size),
         begin_on_fd(&call, KIND_ALLOCATE, fd, position, size))
RECORDED(int, truncate, (int fd, int64_t size), (fd, size),
         begin_on_fd(&call, KIND_TRUNCATE, fd, 0, size))
RECORDED(int64_t, size, (int fd), (fd), begin_on_fd(&call, KIND_SIZE, fd, 0, 0))
RECORDED(int, start_writeback, (int fd), (fd), begin_on_fd(&call, KIND_START_WRITEBACK, fd, 0, 0))
RECORDED(int, sync_data, (int fd), (fd), begin_on_fd(&call, KIND_SYNC_DATA, fd, 0, 0))
RECORDED(int, sync, (int fd), (fd), begin_on_fd(&call, KIND_SYNC, fd, 0, 0))
RECORDED(int, sync_folder, (const char *path), (path),
         begin_on_path(&call, KIND_SYNC_FOLDER, path, 0, 0))
RECORDED(int, sync_filesystem, (const char *path), (path),
         begin_on_path(&call, KIND_SYNC_FILESYSTEM, path, 0, 0))
RECORDED(int, remove, (const char *path), (path), begin_on_path(&call, KIND_REMOVE, path, 0, 0);
         forget_paths())
RECORDED(int, make_folder, (const char *path, int mode), (path, mode),
         begin_on_path(&call, KIND_MAKE_FOLDER, path, 0, mode))
RECORDED(ssize_t, send, (int out_fd, int fd, int64_t position, size_t size),
         (out_fd, fd, position, size),
         begin_on_fd(&call, KIND_SEND, fd, position, (int64_t)size))
RECORDED(ssize_t, pwrite, (int fd, const void *bytes, size_t size, int64_t position),
         (fd, bytes, size, position),
         begin_on_fd(&call, KIND_WRITE, fd, position, (int64_t)size); call.bytes = bytes;
         call.bytes_size = size)
RECORDED(int, rename, (const char *source, const char *target), (source, target),
         begin_on_path(&call, KIND_RENAME, source, 0, 0); canonical_path(target, call.target);
         call.bytes = call.target; call.bytes_size = strlen(call.target); forget_paths())

static int recorded_open(const char *path, int flags, int mode) {
    Call call;
    begin_on_path(&call, KIND_OPEN, path, flags, mode);
    int failure = planned_failure(&call);
    int result = failure ? failure : file_table_real.open(path, flags, mode);
    if (result >= 0 && result < OPEN_PATHS_MAX) {
        is_opened_here[result] = 1;
        keep_path(result, call.path);
    }
    return (int)finish(&call, result);
}

static int recorded_close(int fd) {
    Call call;
    begin_on_fd(&call, KIND_CLOSE, fd, 0, 0);
    forget_path(fd);
    if (fd >= 0 && fd < OPEN_PATHS_MAX) {
        is_opened_here[fd] = 0;
    }
    int failure = planned_failure(&call);
    int result = file_table_real.close(fd); /* also when it fails: the descriptor is gone */
    return (int)finish(&call, failure ? failure : result);
}

/* Operations that change nothing on the disk are recorded only when they fail as planned. */
static int recorded_list_folder(const char *path) {
    Call call;
    begin_on_path(&call, KIND_LIST_FOLDER, path, 0, 0);
    int failure = planned_failure(&call);
    if (failure) {
        return (int)finish(&call, failure);
    }
    pthread_mutex_unlock(&lock);
    return file_table_real.list_folder(path);
}

const FileTable file_table_recording = {
    .open = recorded_open,
    .close = recorded_close,
    .pread = recorded_pread,
    .pwrite = recorded_pwrite,
    .allocate = recorded_allocate,
    .truncate = recorded_truncate,
    .size = recorded_size,
    .start_writeback = recorded_start_writeback,
    .sync_data = recorded_sync_data,
    .sync = recorded_sync,
    .sync_folder = recorded_sync_folder,
    .sync_filesystem = recorded_sync_filesystem,
    .rename = recorded_rename,
    .remove = recorded_remove,
    .make_folder = recorded_make_folder,
    .list_folder = recorded_list_folder,
    .send = recorded_send,
};
