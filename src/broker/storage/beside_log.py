"""Small files of text beside a segment's log, which tell of its bytes and of no others.

    0                        version
    <line> …                 what there is to tell
    <XXH3 of all above>      16 hexadecimal digits

One that is missing or cannot be understood is no fault of the segment: nothing is known of it then.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.storage.segment_files import DAMAGE, DIGEST, LOG, file_name

_VERSION = b"0"


def read(folder: Path, base_offset: int, suffix: str) -> list[bytes] | None:
    """The lines of a segment's file; None: there is none to be trusted. Raises StorageError."""
    try:
        content = file_ops.read_file(folder / file_name(base_offset, suffix))
    except FileNotFoundError:
        return None
    told, _, check = content.rstrip(b"\n").rpartition(b"\n")
    version, *lines = told.split(b"\n")
    if version != _VERSION or check != b"%016x" % digest_of(told + b"\n"):
        return None
    return lines


def write(folder: Path, base_offset: int, suffix: str, lines: Sequence[bytes], inode: int) -> bool:
    """Replace the file, if the segment's log is still the one that was looked at.

    Not for a segment that somebody may replace meanwhile. Raises StorageError.
    """
    try:
        if file_ops.inode(folder / file_name(base_offset, LOG)) != inode:
            return False
    except FileNotFoundError:
        return False
    file_ops.write_file_atomic(folder / file_name(base_offset, suffix), text(lines))
    return True


def remove(
    folder: Path, base_offsets: Iterable[int], suffixes: Iterable[str] = (DIGEST, DAMAGE)
) -> None:
    """Forget what is told of segments; not durable before the folder is synced."""
    for base_offset in base_offsets:
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                file_ops.remove(folder / file_name(base_offset, suffix))


def text(lines: Sequence[bytes]) -> bytes:
    """The content of such a file."""
    told = b"".join(line + b"\n" for line in (_VERSION, *lines))
    return told + b"%016x\n" % digest_of(told)
