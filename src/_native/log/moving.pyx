"""Puts a log into another folder, which has a copy of its files, while it is appended to and read.

    written     what there is to copy
    last_cut    what has to be copied again, because the log was cut (truncation.pyx)
    hold        nothing more is acknowledged, made visible or synced; appends and reads go on
    use         everything is read from, and written to, the other folder from here on
    end_hold    what was appended meanwhile is synced and acknowledged

A log is not cut while it is held here, and one that is being cut is not held: `hold` here and
`SyncedLog.hold` exclude each other. Its role may change, which uses no file.

`broker.storage.files.folder_copy` copies the files, and makes the change durable while the log is
held: an acknowledged record is always in the folder that a start would use.
"""

from libc.stdint cimport int64_t
from posix.fcntl cimport O_RDWR

from broker._native.kernel.file_ops cimport file_close, file_size
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.segment cimport Segment
from broker._native.log.segment_file cimport PATH_SIZE
from broker._native.log.segmented_log cimport must

import os

from broker.model.errors import StorageError


def written(PartitionLog log not None):
    """Return (base offset, bytes of the log in its file) of each segment, oldest first."""
    return [((<Segment>segment).base_offset, (<Segment>segment).written)
            for segment in log.segments]


def last_cut(PartitionLog log not None):
    """Return (number of cuts so far, segment, bytes): what the last one has left of the files.

    All segments before that one are left, and so many bytes of it. Between two calls that return
    the same no byte has changed that was in a file at the first one, unless the log is loading now.
    """
    return log.cut_count, log.cut_base, log.cut_size


def hold(PartitionLog log not None):
    """Acknowledge and sync nothing from now on; False: it is not in service, or the disk is full.
    """
    if not log.is_in_service or log.is_full:
        return False
    log.is_switching = True
    return True


def end_hold(PartitionLog log not None):
    """Sync and acknowledge again."""
    log.is_switching = False
    if not (log.is_offline or log.is_deleted):
        log.mark_dirty()   # also if a cut waits for it: that begins when all is written


def use(PartitionLog log not None, str folder not None):
    """Read from and write to another folder, whose files have the same bytes.

    The log is held, and no sync of it runs. Raises StorageError, and changes nothing, if the copy
    of the active segment cannot be opened or has another size.
    """
    cdef bytes path = os.fsencode(folder)
    cdef Segment active = log.active
    cdef Segment segment = Segment(log.turn.files, path, active.base_offset)
    cdef char file[PATH_SIZE]
    cdef int64_t size
    cdef int fd
    if log.job_is_running or not log.is_switching:
        raise ValueError(f"{log!r} is not held")
    segment.path(file, b".log")
    fd = log.turn.files.open_path(file, O_RDWR)
    must(min(fd, 0), log, "cannot open the copy")
    size = file_size(fd)
    if size != active.written:
        file_close(fd)
        raise StorageError(f"{log.folder}: its copy has {size} bytes instead of {active.written}")
    for segment in log.segments:
        segment.close()
        segment.filled = 0
    active.opened(fd)
    active.reserved = size
    active.since_opened = 0
    active.is_settled = False   # staged bytes keep the file open
    set_folder(log, folder, path)
    log.turn.log_changes += 1


def renamed(PartitionLog log not None, str folder not None):
    """Note that the folder has another name: the open files are still those."""
    set_folder(log, folder, os.fsencode(folder))


cdef int set_folder(PartitionLog log, str folder, bytes path) except -1:
    cdef Segment segment
    log.folder = folder
    log.folder_path = path
    for segment in log.segments:
        segment.folder = path
        segment.folder_path = segment.folder
    return 0
