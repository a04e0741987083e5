"""Sidecar files of a segment: small text files with facts about the bytes of its log.

    0                        version
    <line> …                 the facts
    <XXH3 of all above>      16 hexadecimal digits

A missing or invalid file is not an error of the segment: the facts are then unknown.
"""

from collections.abc import Sequence
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.segments.names import file_name

_VERSION = b"0"


def read_sidecar(folder: Path, base_offset: int, suffix: str) -> list[bytes] | None:
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


def sidecar_text(lines: Sequence[bytes]) -> bytes:
    """Return the content of a sidecar."""
    body = b"".join(line + b"\n" for line in (_VERSION, *lines))
    return body + b"%016x\n" % digest_of(body)
