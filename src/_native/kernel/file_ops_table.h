/* Every syscall on files, as one table of functions.
 *
 * The broker uses `file_table_real`; tests replace it by a table that records, fails or simulates.
 * Results are bytes or 0, negative ones -errno. All functions are thread-safe. */
#ifndef BROKER_FILE_OPS_TABLE_H
#define BROKER_FILE_OPS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct FileTable {
    /* A descriptor, opened with O_CLOEXEC besides the flags given. */
    int (*open)(const char *path, int flags, int mode);
    int (*close)(int fd);
    /* Fewer bytes than asked only at the end of the file. */
    ssize_t (*pread)(int fd, void *into, size_t size, int64_t position);
    /* All bytes or -errno: a short write is continued by another. */
    ssize_t (*pwrite)(int fd, const void *bytes, size_t size, int64_t position);
    /* Reserves blocks and makes the file reach to position + size; never glibc's emulation. */
    int (*allocate)(int fd, int64_t position, int64_t size);
    int (*truncate)(int fd, int64_t size);
    int64_t (*size)(int fd);
    /* Starts to write dirty pages without waiting: a hint that guarantees nothing. */
    int (*start_writeback)(int fd);
    /* fdatasync and fsync. Never retried: after a failure the kernel marks the lost pages clean, so
     * a second call would succeed without writing them. */
    int (*sync_data)(int fd);
    int (*sync)(int fd);
    int (*sync_folder)(const char *path);
    /* syncfs(2): all that was written to any file of the file system that holds a folder. */
    int (*sync_filesystem)(const char *path);
    int (*rename)(const char *source, const char *target);
    int (*remove)(const char *path); /* a file, or an empty folder */
    int (*make_folder)(const char *path, int mode);
    /* Called before a folder is listed: 0, or the -errno that it cannot be listed with. */
    int (*list_folder)(const char *path);
    /* sendfile(2): bytes taken by the socket, which may be fewer. */
    ssize_t (*send)(int out_fd, int fd, int64_t position, size_t size);
} FileTable;

extern const FileTable file_table_real;

/* The table in use. */
const FileTable *file_table(void);
void file_table_use(const FileTable *table);

#endif
