"""Reading of a data directory of V1's original server.

    TOPIC-PARTITION-segment-NNNNNN.log             lines offset|unix ms|CRC-32 of the value|value
    TOPIC-PARTITION-replica-R-segment-NNNNNN.log   a copy of the same lines on the same disk

A damaged line is reported with its file and number, and reading continues with the next one. The
server must not write meanwhile.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from broker.model.limits import V1_LINE_BYTES_MAX
from broker.protocols.importing.report import Damage, Partition
from broker.protocols.importing.target import ImportedRecord

# The topic is matched greedily, because its name may contain -segment-.
_SEGMENT = re.compile(
    r"(?P<topic>.+)-(?P<partition>[0-9]{1,9})-segment-(?P<number>[0-9]{6,9})\.log"
)
_MIRROR = re.compile(r".+-[0-9]+-replica")
_LINE = re.compile(rb"([0-9]{1,18})\|([0-9]{1,18})\|([0-9a-f]{8})\|(.*)", re.DOTALL)


class Found(NamedTuple):
    """The segments of each partition, in order, and the number of segments that are copies."""

    segments: Mapping[Partition, list[Path]]
    mirror_count: int


def find_segments(folder: Path) -> Found:
    """Return the segments of a directory; raise OSError if it cannot be read."""
    numbered: dict[Partition, list[tuple[int, Path]]] = {}
    mirror_count = 0
    for file in folder.iterdir():
        match = _SEGMENT.fullmatch(file.name)
        if match is None:
            continue
        if _MIRROR.fullmatch(match["topic"]):
            mirror_count += 1
            continue
        partition = Partition(match["topic"], int(match["partition"]))
        numbered.setdefault(partition, []).append((int(match["number"]), file))
    segments = {
        partition: [file for _, file in sorted(numbered[partition])]
        for partition in sorted(numbered)
    }
    return Found(segments, mirror_count)


def read_records(files: Iterable[Path]) -> Iterator[ImportedRecord | Damage]:
    """Yield every line of a partition's segments, in order; raise OSError if one is unreadable."""
    for file in files:
        with file.open("rb") as stream:
            for number, line in enumerate(_lines(stream), 1):
                parsed = _parse(line)
                yield Damage(file.name, number, parsed) if isinstance(parsed, str) else parsed


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their newline; of a line that is too long, its first bytes."""
    while line := stream.readline(V1_LINE_BYTES_MAX + 1):
        yield line
        while len(line) > V1_LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(V1_LINE_BYTES_MAX + 1)  # skipped


def _parse(line: bytes) -> ImportedRecord | str:
    """Return the record of a line, or the reason why it is damaged."""
    if len(line) > V1_LINE_BYTES_MAX:
        return f"longer than {V1_LINE_BYTES_MAX} bytes"
    if not line.endswith(b"\n"):
        return "the line has no newline: its write was interrupted"
    match = _LINE.fullmatch(line[:-1])
    if match is None:
        return "not offset|unix ms|CRC-32|value"
    value = match[4]
    if crc32(value) != int(match[3], 16):
        return "the value does not match the checksum before it"
    return ImportedRecord(int(match[1]), int(match[2]), value)
