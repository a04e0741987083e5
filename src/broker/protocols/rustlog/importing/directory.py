"""Reading of files of the original RustLog.

    BASE.log      u32 length of the payload, u64 offset, payload, and so on; big-endian
    BASE.index    not read

BASE is the first offset, in 20 digits. The original makes a temporary directory for each partition
that says nothing of its topic, so that somebody has to arrange them:

    DIR/TOPIC/N/BASE.log                        partition N of a topic
    DIR/topics/TOPIC/partitions/N/BASE.log      the same, as the original's document shows it
    DIR/BASE.log                                partition 0 of a topic with the name of DIR

Records have no time: they get that of their file's last write. A length has no checksum: after one
that cannot be, the rest of the file is lost. The server must not write meanwhile.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.model.limits import RUSTLOG_FRAME_BYTES_MAX
from broker.protocols.importing.report import Damage, Partition
from broker.protocols.importing.target import ImportedRecord

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_HEAD: Final = struct.Struct(">IQ")  # length, offset
_INCOMPLETE: Final = "the record is incomplete: its write was interrupted"


def find_segments(folder: Path) -> Mapping[Partition, list[Path]]:
    """Return the files of each partition, in order; raise OSError if one cannot be read."""
    found: dict[Partition, list[Path]] = {}
    for topic in _folders(folder):
        if topic.name == "topics":
            for each in _folders(topic):
                _add(found, each.name, each / "partitions")
        _add(found, topic.name, topic)
    if files := _segments(folder):
        found[Partition(folder.resolve().name, 0)] = files
    return dict(sorted(found.items()))


def _add(found: dict[Partition, list[Path]], topic: str, folder: Path) -> None:
    for each in _folders(folder):
        if _NUMBER.fullmatch(each.name) and (files := _segments(each)):
            found[Partition(topic, int(each.name))] = files


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def _segments(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if _SEGMENT.fullmatch(each.name))


def read_records(files: Iterable[Path]) -> Iterator[ImportedRecord | Damage]:
    """Yield every record of a partition, in order; raise OSError if a file is unreadable."""
    for file in files:
        with file.open("rb") as stream:
            timestamp_ms = os.fstat(stream.fileno()).st_mtime_ns // 1_000_000
            position = 0
            while head := stream.read(_HEAD.size):
                if len(head) < _HEAD.size:
                    yield Damage(file.name, position, _INCOMPLETE)
                    break
                size, offset = _HEAD.unpack(head)
                if size > RUSTLOG_FRAME_BYTES_MAX:
                    reason = f"no record has {size} bytes: the rest of the file is not read"
                    yield Damage(file.name, position, reason)
                    break
                payload = stream.read(size)
                if len(payload) < size:
                    yield Damage(file.name, position, _INCOMPLETE)
                    break
                yield ImportedRecord(offset, timestamp_ms, payload)
                position += _HEAD.size + size
