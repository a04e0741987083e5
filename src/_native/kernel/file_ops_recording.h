/* A table that does what the real one does, records every operation and can inject failures.
 *
 * Operations run one at a time, so the order of the record is the order on the disk. */
#ifndef BROKER_FILE_OPS_RECORDING_H
#define BROKER_FILE_OPS_RECORDING_H

#include "kernel/file_ops_table.h"

enum {
    RECORDED_BYTES_MAX = 64 << 20, /* of paths and written bytes; later operations are lost */
    FAULTS_MAX = 16,                /* planned failures */
    OPEN_PATHS_MAX = 4096,          /* descriptors whose paths are kept; others are asked for */
};

typedef struct FileOperation {
    int kind;         /* index of the name, see file_operation_name */
    int64_t position; /* in the file; the flags of an open */
    int64_t size;     /* asked for; the mode of an open or make_folder */
    int64_t result;   /* bytes, descriptor or 0; -errno */
    const char *path; /* absolute; the source of a rename */
    const void *bytes; /* written or stored bytes; the target path of a rename */
    size_t bytes_size;
    struct FileOperation *next;
} FileOperation;

extern const FileTable file_table_recording;

/* Name of a kind, NULL after the last. */
const char *file_operation_name(int kind);

/* Clears all operations and faults, and records all from now on. Call it, too, after names of open
 * files were changed by others. */
void recording_clear(void);

/* Clears the operations only. */
void recording_free_operations(void);

/* Records only injected failures from now on, so that a process can run for long. */
void recording_keep_failures(void);

/* Makes an operation fail, after `after` others of this kind whose path contains `path_part` or
 * matches it as a pattern (fnmatch), and the `times` - 1 that follow it. With `hides` it reports
 * success, as for a broker that ignores the error. -ENOSPC when there are FAULTS_MAX already,
 * -EINVAL for an operation that cannot be hidden. */
int recording_fail(int kind, const char *path_part, int error, int after, int times, int hides);

/* First operation and how many there are; they stay until one of the two clears them.
 * -ENOBUFS when some were lost. */
int64_t recording_operations(const FileOperation **first);

#endif
