"""Sidecar files of a segment: small text files with facts about the bytes of its log.

    0                        version
    <line> …                 the facts
    <XXH3 of all above>      16 hexadecimal digits

A missing or invalid file is not an error of the segment: the facts are then unknown.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.storage.files.segment_files import DAMAGE, DIGEST, LOG, file_name

_VERSION = b"0"


def read(folder: Path, base_offset: int, suffix: str) -> list[bytes] | None:
    """Return the lines of a sidecar; None if it is missing or invalid. Raises StorageError."""
    try:
        content = file_ops.read_file(folder / file_name(base_offset, suffix))
    except FileNotFoundError:
        return None
    body, _, check = content.rstrip(b"\n").rpartition(b"\n")
    version, *lines = body.split(b"\n")
    if version != _VERSION or check != b"%016x" % digest_of(body + b"\n"):
        return None
    return lines


def write(folder: Path, base_offset: int, suffix: str, lines: Sequence[bytes], inode: int) -> bool:
    """Replace the sidecar if the segment's log still has the inode that was checked.

    Returns whether it had. Must not run concurrently with a replacement of the segment. Raises
    StorageError.
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
    """Remove the sidecars of segments; not durable before the folder is synced."""
    for base_offset in base_offsets:
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                file_ops.remove(folder / file_name(base_offset, suffix))


def text(lines: Sequence[bytes]) -> bytes:
    """Return the content of a sidecar."""
    body = b"".join(line + b"\n" for line in (_VERSION, *lines))
    return body + b"%016x\n" % digest_of(body)
