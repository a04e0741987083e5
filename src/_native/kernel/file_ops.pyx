"""File syscalls for native code (file_ops.pxd) and for Python; all file I/O goes through them.

Every operation goes through one table of C functions (file_ops_table.h). The broker uses the real
one; `start_recording` replaces it by one that records every operation and fails those set by
`fail`, so that tests can observe and inject disk errors.

For native code: results are bytes or 0, negative ones -errno; EINTR is handled; `file_pwrite`
writes all bytes or fails; a sync is never retried. For Python: `StorageError` has the operation,
path and reason, and the OSError as its cause; on a full disk it is `DiskFull`; for a missing file
it is FileNotFoundError. Files are created with mode 0600, folders with 0700.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EEXIST, ENOENT
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from posix.fcntl cimport O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY
from posix.stat cimport fstat, struct_stat

import os

from broker.model.errors import DiskFull, StorageError


cdef extern from "Python.h":
    str PyUnicode_DecodeFSDefault(const char* path)

cdef extern from "kernel/file_ops_table.h" nogil:
    const FileTable file_table_real
    const FileTable* table_in_use "file_table"()
    void file_table_use(const FileTable* table)

cdef extern from "kernel/file_ops_recording.h" nogil:
    ctypedef struct FileOperation:
        int kind
        int64_t position
        int64_t size
        int64_t result
        const char* path
        const char* bytes
        size_t bytes_size
        FileOperation* next

    const FileTable file_table_recording
    const char* file_operation_name(int kind)
    void recording_clear()
    void recording_free_operations()
    void recording_keep_failures()
    int recording_fail(int kind, const char* path_part, int error, int after, int times,
                       int hides)
    int64_t recording_operations(const FileOperation** first)


# ---- for native code ---------------------------------------------------------------------------

cdef const FileTable* file_table() noexcept nogil:
    """Return the table in use."""
    return table_in_use()


cdef bint file_is_removed(int fd) noexcept nogil:
    """Return whether an open file has been deleted: what is written to it is lost."""
    cdef struct_stat found
    return fstat(fd, &found) == 0 and found.st_nlink == 0


cdef ssize_t file_read_at(
        const char* path, void* into, size_t size, int64_t position) noexcept nogil:
    """Read from a file that is open only meanwhile."""
    cdef int fd = file_open(path, O_RDONLY, 0)
    cdef ssize_t count
    if fd < 0:
        return fd
    count = file_pread(fd, into, size, position)
    file_close(fd)
    return count


cdef int file_write_at(
        const char* path, const void* data, size_t size, int64_t position) noexcept nogil:
    """Write to a file that is open only meanwhile, and created if it does not exist. 0 or -errno.
    """
    cdef int fd = file_open(path, O_WRONLY | O_CREAT, 0o600)
    cdef ssize_t written
    cdef int closed
    if fd < 0:
        return fd
    written = file_pwrite(fd, data, size, position)
    closed = file_close(fd)
    return closed if written >= 0 else <int>written


# ---- for Python --------------------------------------------------------------------------------

cdef int64_t done(int64_t result, str operation, path) except -1:
    """Return a result that is not negative, or raise the error of -errno."""
    if result >= 0:
        return result
    cause = OSError(-result, os.strerror(-result), os.fspath(path))
    if result == -ENOENT:
        raise cause
    failure = DiskFull if is_no_space(result) else StorageError
    raise failure(f"{operation} {os.fspath(path)}: {cause.strerror}") from cause


cdef object ask_system(call, str operation, path):
    """Return what a function of os says of a path."""
    try:
        return call(path)
    except OSError as error:
        done(-error.errno, operation, path)


cdef object on_path(int (*call)(const char*) noexcept nogil, str operation, path):
    # Without the GIL: freeing the blocks of a large file, for example, can take long.
    cdef bytes name = os.fsencode(path)
    cdef const char* c_name = name
    cdef int result
    with nogil:
        result = call(c_name)
    done(result, operation, path)


cdef int open_file(path, int flags) except -1:
    cdef bytes name = os.fsencode(path)
    cdef const char* c_name = name
    cdef int fd
    with nogil:
        fd = file_open(c_name, flags, 0o600)
    return <int>done(fd, "open", path)


cdef bytes read_from(int fd, path, int64_t position, int64_t size):
    cdef bytes content = PyBytes_FromStringAndSize(NULL, size)
    cdef char* into = PyBytes_AS_STRING(content)
    cdef int64_t count
    with nogil:
        count = file_pread(fd, into, <size_t>size, position)
    done(count, "read", path)
    return content if count == size else content[:count]


def read_file(path):
    """Return all bytes of a file."""
    cdef int fd = open_file(path, O_RDONLY)
    try:
        return read_from(fd, path, 0, done(file_size(fd), "size", path))
    finally:
        file_close(fd)


def read_range(path, int64_t position, int64_t size):
    """Return `size` bytes of a file from a position on, fewer at its end."""
    cdef int fd = open_file(path, O_RDONLY)
    try:
        return read_from(fd, path, position, size)
    finally:
        file_close(fd)


def write_file_atomic(path, data):
    """Replace a file so that a crash leaves the old or the new content; durable on return.

    One writer per path at a time: the new content is first written to PATH.tmp.
    """
    target = os.fspath(path)
    temporary = target + ".tmp"
    try:
        write_into(temporary, data, O_TRUNC, 0, True)
        rename(temporary, target)
    except (OSError, StorageError):
        name = os.fsencode(temporary)
        file_remove(name)  # its result is ignored: the first error is raised
        raise
    sync_folder(os.path.dirname(target) or ".")


def write_file(path, data):
    """Replace the content of a file; a crash may leave any part of it, or an empty file."""
    write_into(path, data, O_TRUNC, 0, False)


def write_range(path, data, int64_t position):
    """Write into a file from a position on; a crash may leave any part of it."""
    write_into(path, data, 0, position, False)


def write_at(path, data, int64_t position):
    """Write into a file from a position on; durable on return, except for a new file's name."""
    write_into(path, data, 0, position, True)


cdef int write_into(path, data, int flags, int64_t position, bint is_synced) except -1:
    cdef Py_buffer view
    cdef int fd
    cdef int64_t written
    cdef int synced, closed
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        fd = open_file(path, O_WRONLY | O_CREAT | flags)
        with nogil:
            written = file_pwrite(fd, view.buf, <size_t>view.len, position)
            synced = file_sync(fd) if written >= 0 and is_synced else 0
            closed = file_close(fd)
    finally:
        PyBuffer_Release(&view)
    done(written, "write", path)
    done(synced, "sync", path)
    return <int>done(closed, "close", path)


def make_folder(path):
    """Create a folder unless it exists; durable after a `sync_folder` of its parent."""
    cdef bytes name = os.fsencode(path)
    cdef int result = file_table().make_folder(name, 0o700)
    if result != -EEXIST:
        done(result, "make_folder", path)


def remove(path):
    """Remove a file or an empty folder."""
    on_path(file_table().remove, "remove", path)


def rename(source, target):
    """Rename a file or folder, replacing a file or an empty folder of that name."""
    cdef bytes source_name = os.fsencode(source)
    cdef bytes target_name = os.fsencode(target)
    cdef const char* c_source = source_name
    cdef const char* c_target = target_name
    cdef int result
    with nogil:
        result = file_rename(c_source, c_target)
    done(result, "rename", source)


cdef object move_all(str operation, list sources, list targets):
    # Without targets: remove. `names` keeps the paths alive while the GIL is released.
    cdef list names = [os.fsencode(path) for path in sources + targets]
    cdef Py_ssize_t count = len(sources), i, place = 0
    cdef bint removes = not targets
    cdef int result = 0
    cdef const char** paths = <const char**>malloc(max(1, len(names)) * sizeof(char*))
    if paths == NULL:
        raise MemoryError
    for i in range(len(names)):
        paths[i] = PyBytes_AS_STRING(names[i])
    with nogil:
        for place in range(count):
            if removes:
                result = file_remove(paths[place])
            else:
                result = file_rename(paths[place], paths[count + place])
            if result < 0 and result != -ENOENT:
                break
    free(paths)
    if result != -ENOENT and count > 0:
        done(result, operation, sources[place])


def rename_all(sources, targets):
    """Rename files in order, ignoring missing ones.

    The GIL is released once for all of them: a thread that reacquires it for each of many short
    calls delays the others.
    """
    sources, targets = list(sources), list(targets)
    if len(sources) != len(targets):
        raise ValueError("rename_all: each source needs a target")
    move_all("rename", sources, targets)


def remove_all(paths):
    """Remove files as `rename_all` renames them."""
    move_all("remove", list(paths), [])


def sync_folder(path):
    """Make the names in a folder durable."""
    on_path(file_table().sync_folder, "sync_folder", path)


def sync_file(path):
    """Make everything written to a file durable, also by descriptors that are already closed."""
    cdef int fd = open_file(path, O_RDONLY)
    cdef int result
    with nogil:
        result = file_sync(fd)
        file_close(fd)
    done(result, "sync", path)


def sync_filesystem(path):
    """Make everything written to a folder's file system durable: cheaper than many single syncs.

    Kernels before 5.8 do not report every failure here.
    """
    on_path(file_table().sync_filesystem, "sync_filesystem", path)


def list_folder(path):
    """Return the names in a folder, sorted."""
    on_path(file_table().list_folder, "list_folder", path)
    return sorted(ask_system(os.listdir, "list_folder", path))


def size(path):
    """Return the size of a file in bytes."""
    cdef int fd = open_file(path, O_RDONLY)
    try:
        return done(file_size(fd), "size", path)
    finally:
        file_close(fd)


def space(path):
    """Return (bytes, free bytes, inodes, free inodes) of a path's file system.

    Free is what this user may still allocate. Inodes are 0 and 0 where they are not counted.
    """
    found = ask_system(os.statvfs, "space", path)
    return (found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files,
            found.f_favail)


def reserve_file(path, int64_t size):
    """Create a file of `size` allocated bytes.

    `DiskFull`, and no file, when the disk does not have them.
    """
    cdef int fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC)
    cdef int result, closed
    with nogil:
        result = file_allocate(fd, 0, size)
        closed = file_close(fd)
    if result < 0:
        file_remove(os.fsencode(path))  # its result is ignored: the first error is raised
    done(result, "allocate", path)
    done(closed, "close", path)


def truncate(path, int64_t size):
    """Truncate a file to a size in bytes."""
    cdef int fd = open_file(path, O_WRONLY)
    cdef int result
    with nogil:
        result = file_truncate(fd, size)
        file_close(fd)
    done(result, "truncate", path)


def inode(path):
    """Return a file's inode number, which differs from that of a later file of the same name."""
    cdef int fd = open_file(path, O_RDONLY)
    try:
        return os.fstat(fd).st_ino
    finally:
        file_close(fd)


def modified_ms(path):
    """Return when a file was last changed, in milliseconds since 1970."""
    return ask_system(os.stat, "modified_ms", path).st_mtime_ns // 1_000_000


# ---- recording, for tests ----------------------------------------------------------------------

cdef tuple operation_names():
    names = []
    while file_operation_name(<int>len(names)) != NULL:
        names.append(file_operation_name(<int>len(names)).decode())
    return tuple(names)


cdef tuple OPERATION_NAMES = operation_names()


def start_recording(bint failures_only=False):
    """Clear the record and the planned failures, and record from now on.

    Call it again after open files were renamed by anything but this module: their paths are kept.
    With `failures_only` only failures by `fail` are recorded, so that a broker can run for long.
    """
    recording_clear()
    if failures_only:
        recording_keep_failures()
    file_table_use(&file_table_recording)


def stop_recording():
    """Use the real table again; the record can still be read."""
    file_table_use(&file_table_real)


def recorded():
    """Return the operations so far as tuples (op, path, position, size, data, result).

    `path` is absolute. `data` has the bytes of "write" and the target path of "rename", and is
    empty otherwise. `position` has the flags of "open", `size` the mode of "open" and
    "make_folder". `result` is -errno when the operation failed.
    """
    cdef const FileOperation* operation
    cdef int64_t count = recording_operations(&operation)
    if count < 0:
        raise StorageError("recorded: more operations than the record holds")
    operations = []
    while count > 0:
        operations.append((
            OPERATION_NAMES[operation.kind],
            PyUnicode_DecodeFSDefault(operation.path),
            operation.position,
            operation.size,
            operation.bytes[:operation.bytes_size],
            operation.result,
        ))
        operation = operation.next
        count -= 1
    return operations


def take_recorded():
    """Return the operations so far and clear the record; what was planned to fail still does."""
    operations = recorded()
    recording_free_operations()
    return operations


def fail(op, path_part, errno, after=0, times=1, bint is_hidden=False):
    """Make an operation fail, after `after` others of this name on paths that contain `path_part`
    or match it as a pattern ("*/topic-0/*.index").

    The `times` - 1 that follow it fail too; a failing operation changes nothing on the disk. With
    `is_hidden` it reports success nevertheless ("write", "sync_data" and "sync" only): tests of the
    tests use that to plant bugs. Call it after `start_recording`.
    """
    cdef bytes part = os.fsencode(path_part)
    cdef int kind
    if file_table() != &file_table_recording:
        raise RuntimeError("fail: start_recording was not called")
    if op not in OPERATION_NAMES:
        raise ValueError(f"fail: no operation is called {op!r}")
    kind = OPERATION_NAMES.index(op)
    done(recording_fail(kind, part, errno, after, times, is_hidden), "fail", path_part)
