/* The real table: each operation in Linux, with EINTR and short writes handled. */
#define _GNU_SOURCE
#include "kernel/file_ops_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic(const FileTable *) table_in_use = &file_table_real;

const FileTable *file_table(void) {
    return atomic_load_explicit(&table_in_use, memory_order_acquire);
}

void file_table_use(const FileTable *table) {
    atomic_store_explicit(&table_in_use, table, memory_order_release);
}

static int status(int result) {
    return result < 0 ? -errno : result;
}

static int real_open(const char *path, int flags, int mode) {
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return status(fd);
}

static int real_close(int fd) {
    /* Linux frees the descriptor before anything can interrupt: a second close could hit another
     * thread's new file. */
    int result = status(close(fd));
    return result == -EINTR ? 0 : result;
}

static ssize_t real_pread(int fd, void *into, size_t size, int64_t position) {
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(fd, (char *)into + done, size - done, position + (off_t)done);
        if (count == 0) {
            break;
        }
        if (count > 0) {
            done += (size_t)count;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return (ssize_t)done;
}

static ssize_t real_pwrite(int fd, const void *bytes, size_t size, int64_t position) {
    size_t done = 0;
    while (done < size) {
        const char *next = (const char *)bytes + done;
        ssize_t count = pwrite(fd, next, size - done, position + (off_t)done);
        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0) {
            return -EIO; /* a device that writes nothing and reports no error */
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return (ssize_t)done;
}

static int real_truncate(int fd, int64_t size) {
    int result;
    do {
        result = ftruncate(fd, size);
    } while (result < 0 && errno == EINTR);
    return status(result);
}

static int64_t real_size(int fd) {
    struct stat facts;
    return fstat(fd, &facts) < 0 ? -errno : facts.st_size;
}

static int real_allocate(int fd, int64_t position, int64_t size) {
    int result;
    do {
        result = fallocate(fd, 0, position, size);
    } while (result < 0 && errno == EINTR);
    if (result == 0 || errno != EOPNOTSUPP) {
        return status(result);
    }
    /* A file system without extents to reserve: a hole reads the same, only ENOSPC comes later. */
    int64_t present = real_size(fd);
    if (present < 0) {
        return (int)present;
    }
    return present >= position + size ? 0 : real_truncate(fd, position + size);
}

static int real_start_writeback(int fd) {
    int result = status(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
    return result == -ENOSYS ? 0 : result;
}

static int real_sync_data(int fd) {
    return status(fdatasync(fd));
}

static int real_sync(int fd) {
    return status(fsync(fd));
}

/* Opens a folder for one of the two functions that sync by a descriptor. */
static int with_folder(const char *path, int (*call)(int fd)) {
    int fd = real_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return fd;
    }
    int synced = status(call(fd));
    int closed = real_close(fd);
    return synced < 0 ? synced : closed;
}

static int real_sync_folder(const char *path) {
    return with_folder(path, fsync);
}

static int real_sync_filesystem(const char *path) {
    return with_folder(path, syncfs);
}

static int real_rename(const char *source, const char *target) {
    return status(rename(source, target));
}

static int real_remove(const char *path) {
    return status(remove(path));
}

static int real_make_folder(const char *path, int mode) {
    return status(mkdir(path, (mode_t)mode));
}

static ssize_t real_send(int out_fd, int fd, int64_t position, size_t size) {
    off_t next = position;
    ssize_t count;
    do {
        count = sendfile(out_fd, fd, &next, size);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

static int real_list_folder(const char *path) {
    (void)path; /* the listing itself reports errors */
    return 0;
}

const FileTable file_table_real = {
    .open = real_open,
    .close = real_close,
    .pread = real_pread,
    .pwrite = real_pwrite,
    .allocate = real_allocate,
    .truncate = real_truncate,
    .size = real_size,
    .start_writeback = real_start_writeback,
    .sync_data = real_sync_data,
    .sync = real_sync,
    .sync_folder = real_sync_folder,
    .sync_filesystem = real_sync_filesystem,
    .rename = real_rename,
    .remove = real_remove,
    .make_folder = real_make_folder,
    .list_folder = real_list_folder,
    .send = real_send,
};
