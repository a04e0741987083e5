"""The segments that a clean stop has left, for the next start to compare with the folders.

    0                                               version
    <topic> <partition> <digest of its segments>    of each log, except those of one empty segment
    <XXH3 of all above>                             16 hexadecimal digits

in `clean-stop-segments` of the data directory. The digest is the XXH3 of the base offset and size
of every segment of the log. So a file that was added, removed or replaced by one of another size is
detected, at the cost of the stat that opening a segment needs anyway. Files of the same names and
sizes are trusted: other differences can only be found by reading, which a scrub does.

The file is written before the marker of a clean stop. A log that is not in it has one empty
segment; when the file itself is missing or damaged, all logs are recovered.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.storage.checkpoints.offset_checkpoints import Key

FILE_NAME = "clean-stop-segments"
_VERSION = b"0"
_log = logging.getLogger(__name__)

Digests: TypeAlias = Mapping[Key, str]


def digest(sizes: list[tuple[int, int]], log_start_offset: int) -> str:
    """Return the digest of a log's segments, given as (base offset, bytes), oldest first.

    Segments that end at or before the log start offset do not count: a start removes them.
    """
    first = 0
    while first + 1 < len(sizes) and sizes[first + 1][0] <= log_start_offset:
        first += 1
    # (A start does this for every log; `repr` takes a third of the time of formatting each pair.)
    return f"{digest_of(repr(sizes[first:]).encode()):016x}"


_EMPTY = digest([(0, 0)], 0)


def is_same(digests: Digests | None, key: Key, found: str) -> bool:
    """Return whether a log's segments, by their digest, are those that the stop has left."""
    return found == (_EMPTY if digests is None else digests.get(key, _EMPTY))


def read(path: Path) -> Digests | None:
    """Return the digests of a data directory's logs; None if unknown. Raises StorageError."""
    file = path / FILE_NAME
    try:
        content = file_ops.read_file(str(file))
    except FileNotFoundError:
        _log.warning("all logs are recovered: file=%s error=missing", file)
        return None
    body, _, check = content.rstrip(b"\n").rpartition(b"\n")
    version, *lines = body.split(b"\n")
    if version != _VERSION or check != b"%016x" % digest_of(body + b"\n"):
        _log.warning("all logs are recovered: file=%s error=damaged", file)
        return None
    cells = (line.decode().split(" ") for line in lines)
    return {(topic, int(partition)): found for topic, partition, found in cells}


def without_empty(digests: Digests) -> Digests:
    """Return the digests that the file has: those of logs that are not empty."""
    return {key: found for key, found in digests.items() if found != _EMPTY}


def write(path: Path, digests: Digests) -> None:
    """Write the file. Raises StorageError."""
    lines = [
        f"{topic} {partition} {found}\n" for (topic, partition), found in sorted(digests.items())
    ]
    body = _VERSION + b"\n" + "".join(lines).encode()
    file_ops.write_file_atomic(str(path / FILE_NAME), body + b"%016x\n" % digest_of(body))
