"""Reads Kafka's small text files, and ours of the same kind.

    recovery-point-offset-checkpoint, log-start-offset-checkpoint,
    replication-offset-checkpoint                                   in the data directory
        0 | number of entries | "topic partition offset" ...        one per line
    cleaner-offset-checkpoint                                       likewise: first dirty offsets
    leader-epoch-checkpoint                                         in a partition's folder
        0 | number of entries | "epoch start_offset" ...
    <base offset>.swap                                              in a partition's folder, ours
        0 | number of entries | "kept offset" (none or one), "gone offset" ...
    partition.metadata        "version: 0", "topic_id: <22 characters>"
    meta.properties           version, cluster.id, node.id, directory.id
    .kafka_cleanshutdown      exists when the last stop was clean

An invalid file counts as missing, with a warning, because everything in these files can be rebuilt
from the logs; for meta.properties, the caller decides. `storage.checkpoints.checkpoint` writes
them.
"""

import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.identifiers import id_from_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

VERSION = "0"  # of all of them but the .properties and the marker

_log = logging.getLogger(__name__)
_Content = TypeVar("_Content")


def read_offsets(file: Path) -> dict[tuple[str, int], int]:
    """Return offsets by topic and partition; empty when the file is missing or invalid."""
    return _read(file, _parse_offsets) or {}


def read_leader_epochs(folder: Path) -> list[tuple[int, int]] | None:
    """Return a partition's epochs and their start offsets, ascending; None: missing or invalid."""
    return _read(folder / LEADER_EPOCHS, _parse_epochs)


def read_swap(file: Path) -> tuple[int | None, list[int]]:
    """Return the segment that a compaction keeps, or None, and those that it removes.

    Raises StorageError when the file is invalid: it is the only record of that.
    """
    swap = _read(file, _parse_swap)
    if swap is None:
        raise StorageError(f"read {file}: not a valid manifest of a compaction")
    return swap


def read_partition_metadata(folder: Path) -> bytes | None:
    """Return the id of the topic that a partition's folder belongs to, or None."""
    return _read(folder / PARTITION_METADATA, _parse_partition_metadata)


def has_partitions(path: Path) -> bool:
    """Return whether a directory has the folder of a partition. StorageError: it is not read."""
    names = file_ops.list_folder(str(path))
    return any((path / name / PARTITION_METADATA).exists() for name in names)


def read_properties(file: Path) -> dict[str, str] | None:
    """Return the names and values of a .properties file, or None."""
    return _read(file, _parse_properties)


def _read(file: Path, parse: Callable[[str], _Content]) -> _Content | None:
    try:
        return parse(file_ops.read_file(file).decode())
    except FileNotFoundError:
        return None
    except ValueError as error:  # UnicodeDecodeError is one
        _log.warning("damaged checkpoint, taken as missing: file=%s error=%s", file, error)
        return None


def _parse_table(text: str, columns: int) -> list[list[str]]:
    version, count, *rows = text.splitlines() or ["", ""]
    if version != VERSION:
        raise ValueError(f"version {version!r} instead of {VERSION}")
    if int(count) != len(rows):
        raise ValueError(f"{len(rows)} entries instead of {count}")
    cells = [row.split(" ") for row in rows]
    if any(len(row) != columns for row in cells):
        raise ValueError(f"an entry has not {columns} fields")
    return cells


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def _parse_offsets(text: str) -> dict[tuple[str, int], int]:
    return {
        (topic, _natural(partition)): _natural(offset)
        for topic, partition, offset in _parse_table(text, 3)
    }


def _parse_epochs(text: str) -> list[tuple[int, int]]:
    epochs = [(_natural(epoch), _natural(start)) for epoch, start in _parse_table(text, 2)]
    for (epoch, start), (next_epoch, next_start) in pairwise(epochs):
        if next_epoch <= epoch or next_start < start:
            raise ValueError(f"epoch {next_epoch} at {next_start} after epoch {epoch} at {start}")
    return epochs


def _parse_swap(text: str) -> tuple[int | None, list[int]]:
    bases: dict[str, list[int]] = {"kept": [], "gone": []}
    for word, base in _parse_table(text, 2):
        if word not in bases:
            raise ValueError(f"{word!r} instead of kept or gone")
        bases[word].append(_natural(base))
    if len(bases["kept"]) > 1:
        raise ValueError("more than one segment is kept")
    return next(iter(bases["kept"]), None), bases["gone"]


def _parse_partition_metadata(text: str) -> bytes:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if line)
    if fields.get("version") != VERSION or "topic_id" not in fields:
        raise ValueError(f"no version {VERSION} with a topic_id")
    return id_from_text(fields["topic_id"])


def _parse_properties(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("a line is not name=value")
    return {name.strip(): value.strip() for name, _, value in pairs}
