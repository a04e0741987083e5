"""Data directories as V1's original server leaves them."""

from pathlib import Path
from zlib import crc32

TIME_MS = 1_700_000_000_000


def line(offset: int, value: bytes) -> bytes:
    """Return one record, a second after the previous one."""
    return b"%d|%d|%08x|%s\n" % (offset, TIME_MS + 1_000 * offset, crc32(value), value)


def segment(folder: Path, topic: str, partition: int, number: int, lines: bytes) -> Path:
    """Write a segment."""
    file = folder / f"{topic}-{partition}-segment-{number:06}.log"
    file.write_bytes(lines)
    return file
