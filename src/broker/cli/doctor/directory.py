"""A data directory: who may read it, whose it is, its file system, its disk, and the clock."""

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from broker._native.kernel import file_ops
from broker.cli.checks import OK, PROBLEM, WARNING, Check, disk_check
from broker.model.clock import SystemClock, monotonic_ns
from broker.model.clock_guard import ClockGuard, Reading
from broker.model.errors import StorageError
from broker.segments import text_files
from broker.storage.checkpoints import clock_checkpoint
from broker.storage.log_dir import KAFKA_LOCK, LOCK

FSYNCS: Final = 20
FSYNC_SLOW_MS: Final = 20
FSYNC_PROBLEM_MS: Final = 200
_FSYNC_BYTES: Final = 4096
_TRIAL: Final = ".doctor"  # a file that is made and removed
_INODES_FREE_PERCENT: Final = 5
_OF_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_OF_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"})


def directory_checks(folder: Path, node_id: int | None, confirmed_ms: int) -> Iterator[Check]:
    """Look at a data directory.

    Args:
        folder: it need not exist.
        node_id: of the broker that is to use it; None: any.
        confirmed_ms: the setting polylog.clock.confirmed.ms.
    """
    name = str(folder)
    place = next(each for each in (folder, *folder.parents) if each.exists())
    if not place.is_dir():
        yield Check("directory", PROBLEM, name, f"{place} is a file", "name another directory")
        return
    if place == folder:
        yield from _access(folder)
        yield from _identity(folder, node_id)
        yield from _clock(folder, confirmed_ms)
    else:
        yield Check("directory", OK, name, "it does not exist: the first start makes it", "")
    yield from _file_system(name, place)
    if os.access(place, os.W_OK | os.X_OK):
        yield _sync(name, place)
    else:
        yield Check(
            "directory",
            PROBLEM,
            name,
            f"this user may not write into {place}",
            "run this as the user of the broker; if it is, change the owner of the directory",
        )


def _access(folder: Path) -> Iterator[Check]:
    name, found = str(folder), folder.stat()
    others = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if found.st_uid != os.geteuid():
        yield Check(
            "permissions",
            WARNING,
            name,
            f"it belongs to the user with the id {found.st_uid}, and this is {os.geteuid()}",
            "run this as the user of the broker",
        )
    if others:
        yield Check(
            "permissions",
            PROBLEM if others & (stat.S_IWGRP | stat.S_IWOTH) else WARNING,
            name,
            "other users may change it" if others & 0o22 else "other users may look into it",
            f"chmod 700 {folder}",
        )
    else:
        yield Check("permissions", OK, name, "only its owner may read it", "")


def _identity(folder: Path, node_id: int | None) -> Iterator[Check]:
    name = str(folder)
    if (folder / KAFKA_LOCK).exists() and not (folder / LOCK).exists():
        yield Check(
            "directory",
            PROBLEM,
            name,
            "it is a log directory of Apache Kafka, whose topics this broker does not know",
            "start with another --data-dir, and copy them with MirrorMaker 2",
        )
        return
    try:
        properties = text_files.read_properties(folder / text_files.META_PROPERTIES)
        holder = _holder(folder)
    except (OSError, StorageError) as error:
        yield Check("directory", PROBLEM, name, f"it cannot be read: {error}", "")
        return
    known = None if properties is None else properties.get("node.id")
    if known is not None and node_id is not None and known != str(node_id):
        yield Check(
            "directory",
            PROBLEM,
            name,
            f"it is of node {known}, and the configuration of node {node_id}",
            f"set node.id={known}, or start with another --data-dir",
        )
    elif known is None:
        yield Check("directory", OK, name, "no broker has used it yet", "")
    else:
        use = "no broker uses it now" if holder is None else f"a broker uses it: {holder}"
        yield Check("directory", OK, name, f"it is of node {known}; {use}", "")


def _holder(folder: Path) -> str | None:
    """Return what the broker that uses a directory has written of itself; None: none uses it."""
    try:
        with (folder / LOCK).open(encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read().strip()
    except FileNotFoundError:
        pass
    return None


def _clock(folder: Path, confirmed_ms: int) -> Iterator[Check]:
    seen, clock = clock_checkpoint.read(folder), SystemClock()
    if seen is None:
        return
    now = Reading(clock.wall_ms(), clock.boot_ms())
    guard = ClockGuard(seen, clock_checkpoint.boot_id(), now, confirmed_ms)
    guard.observe(now)
    guard.confirm(confirmed_ms, now)
    if guard.is_held:
        yield Check(
            "clock",
            PROBLEM,
            str(folder),
            "the clock was set since the broker has last seen it: nothing is deleted by age",
            "correct the clock; if it is right now, set polylog.clock.confirmed.ms, see"
            " `broker docs operations`",
        )
    else:
        yield Check("clock", OK, str(folder), "it has gone on as expected", "")


def _file_system(name: str, place: Path) -> Iterator[Check]:
    found = os.statvfs(place)
    yield disk_check(name, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
    if found.f_files and found.f_favail * 100 < found.f_files * _INODES_FREE_PERCENT:
        yield Check(
            "inodes",
            PROBLEM,
            name,
            f"{found.f_favail} of {found.f_files} files may still be made",
            "delete files of others there, or make the file system again with more inodes",
        )
    kind = _kind(place)
    if kind in _OF_MEMORY:
        fix = "name a directory on a disk with --data-dir, unless records may be lost"
        yield Check("file-system", WARNING, name, f"{kind} is lost with a restart", fix)
    elif kind in _OF_NETWORK:
        reason = f"{kind} is a network's: its syncs are slow, and its locks may not hold"
        yield Check("file-system", WARNING, name, reason, "use a local disk or a block device")


def _kind(place: Path) -> str:
    """Return the type of a folder's file system, "" where the kernel does not tell it."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = [each.partition(" - ")[2].split()[0] for each in lines if each.split()[2:3] == [number]]
    return kinds[-1] if kinds else ""


def _sync(name: str, place: Path) -> Check:
    """Measure how long a small write takes until it is on the disk."""
    trial = place / f"{_TRIAL}-{os.getpid()}"
    try:
        file_ops.write_file(trial, b"")
        try:
            times = sorted(_synced_ms(trial, number) for number in range(FSYNCS))
        finally:
            file_ops.remove(trial)
    except StorageError as error:
        return Check(
            "fsync",
            PROBLEM,
            name,
            f"a small file cannot be written: {error}",
            "look for the disk's errors in the kernel's log (dmesg), and for free space",
        )
    middle = median(times)
    severity = OK
    if middle >= FSYNC_SLOW_MS:
        severity = PROBLEM if middle >= FSYNC_PROBLEM_MS else WARNING
    return Check(
        "fsync",
        severity,
        name,
        f"a write of {_FSYNC_BYTES} bytes is on the disk after {middle:.2f} ms ({times[-1]:.2f} ms"
        f" at most of {FSYNCS})",
        ""
        if severity == OK
        else "writes that wait for the disk (polylog.durability) wait that long: use a faster disk,"
        " or find out what else writes to it (iostat -x 1)",
    )


def _synced_ms(file: Path, number: int) -> float:
    begun = monotonic_ns()
    file_ops.write_at(file, bytes(_FSYNC_BYTES), number * _FSYNC_BYTES)
    file_ops.sync_file(file)
    return (monotonic_ns() - begun) / 1e6
