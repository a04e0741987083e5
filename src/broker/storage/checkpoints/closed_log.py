"""How a broker has left a log of a shared data directory, for the broker that opens it next.

    0                                                     version
    <leader epoch> <log end> <log start> <digest>         of the segments (clean_segments.py)
    <XXH3 of all above>                                   16 hexadecimal digits

in `closed-log` of the partition's folder, written after everything else of the log is on the disk.
The leader epoch is that of the election with which the log was open. It tells whether another
broker may have opened the log since: each election has the epoch that follows the one before it.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of

FILE_NAME = "closed-log"
_TEMPORARY = ".tmp"
_VERSION = b"0"
_FIELDS = 4
_log = logging.getLogger(__name__)


class ClosedLog(NamedTuple):
    """A log as its last broker has left it."""

    leader_epoch: int
    log_end_offset: int
    log_start_offset: int
    digest: str


def read(folder: Path) -> ClosedLog | None:
    """Return what the folder has, None if that is nothing or damaged. Raises StorageError."""
    file = folder / FILE_NAME
    try:
        content = file_ops.read_file(str(file))
    except FileNotFoundError:
        return None
    body, _, check = content.rstrip(b"\n").rpartition(b"\n")
    version, _, line = body.partition(b"\n")
    cells = line.decode("ascii", "replace").split(" ")
    is_whole = check == b"%016x" % digest_of(body + b"\n")
    if version != _VERSION or len(cells) != _FIELDS or not is_whole:
        _log.warning("log is recovered: file=%s error=damaged", file)
        return None
    return ClosedLog(int(cells[0]), int(cells[1]), int(cells[2]), cells[3])


def write_all(path: Path, left: Mapping[Path, ClosedLog], *, is_one_sync: bool) -> None:
    """Write the files of several folders of a data directory, durably. Raises StorageError.

    Args:
        path: the data directory.
        left: by folder.
        is_one_sync: sync the file system, and not each file.
    """
    if not is_one_sync:
        for folder, closed in left.items():
            file_ops.write_file_atomic(str(folder / FILE_NAME), _text(closed))
        return
    for folder, closed in left.items():
        file_ops.write_file(str(folder / (FILE_NAME + _TEMPORARY)), _text(closed))
    file_ops.sync_filesystem(str(path))
    for folder in left:
        file_ops.rename(str(folder / (FILE_NAME + _TEMPORARY)), str(folder / FILE_NAME))
    file_ops.sync_filesystem(str(path))


def remove(folder: Path, *, is_durable: bool) -> None:
    """Remove the file: the log is going to be changed. Raises StorageError."""
    try:
        file_ops.remove(str(folder / FILE_NAME))
    except FileNotFoundError:
        return
    if is_durable:
        file_ops.sync_folder(str(folder))


def _text(closed: ClosedLog) -> bytes:
    body = _VERSION + b"\n" + " ".join(map(str, closed)).encode() + b"\n"
    return body + b"%016x\n" % digest_of(body)
