"""Writes and removes the sidecar files of segments; `segments.sidecar` reads them."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker.segments.names import DAMAGE, DIGEST, LOG, file_name
from broker.segments.sidecar import sidecar_text


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
    file_ops.write_file_atomic(folder / file_name(base_offset, suffix), sidecar_text(lines))
    return True


def remove(
    folder: Path, base_offsets: Iterable[int], suffixes: Iterable[str] = (DIGEST, DAMAGE)
) -> None:
    """Remove the sidecars of segments; not durable before the folder is synced."""
    for base_offset in base_offsets:
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                file_ops.remove(folder / file_name(base_offset, suffix))
